/** What draws the file cloud and knows where a point of the airspace is on the screen: in space, or as a plan. */

import type { Point } from "../basic_types";
import type { Cloud, Fit } from "./cloud";
import type { Margins } from "./frame";
import type { Palette } from "./palette";

/** CSS pixels; `near` is 1 at the middle of the cloud, more before it, less behind it. */
export interface Spot {
  x: number;
  y: number;
  near: number;
  seen: boolean;
}

export type Act = "left" | "right" | "up" | "down" | "in" | "out";

export interface Stage {
  setCloud(cloud: Cloud, fit: Fit, palette: Palette): void;
  resize(width: number, height: number): void;
  draw(): void;
  project(x: number, y: number, z: number, out: Spot): Spot;
  /** `shift` = pan where arrows turn. */
  act(act: Act, shift: boolean): void;
  /** Stand so that these points of the airspace are in the picture, and not nearer than `least` of its units. */
  show(points: readonly Point[], least: number, margins: Margins): void;
  /** The person has moved the camera since `show`. */
  readonly touched: boolean;
  dispose(): void;
}

export const newSpot = (): Spot => ({ x: 0, y: 0, near: 1, seen: false });

export interface Box {
  x: number;
  y: number;
  w: number;
  h: number;
}

export const overlap = (s: Box, t: Box): boolean => s.x < t.x + t.w && t.x < s.x + s.w && s.y < t.y + t.h && t.y < s.y + s.h;
