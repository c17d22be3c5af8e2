/** What is drawn over the cloud: ways, working sets, links and markers; the same in space and on the plan. */

import type { Kind } from "../state/nearness";
import type { Point } from "../basic_types";
import type { Cloud } from "./cloud";
import type { Line, Model } from "./model";
import type { Palette } from "./palette";
import { overlap, type Box, type Spot } from "./stage";

export interface Project {
  (p: Point, out: Spot): Spot;
}

/** Level by dash as well as by colour: dots, thin dashes, bold dashes, a full line. */
const DASH: Readonly<Record<Kind, number[]>> = { clear: [1.5, 5], ahead: [5, 5], advisory: [10, 7], resolution: [] };
const FONT = '"IBM Plex Sans Variable", system-ui, sans-serif';

export const lineWidth = (line: Pick<Line, "risk" | "kind">): number => (line.kind === "clear" ? 1 : line.kind === "ahead" ? 1.8 : 1.4 + 4 * line.risk);
export const markerSize = (near: number): number => Math.max(5, Math.min(12, 8 * Math.sqrt(near)));

export interface Scene {
  pen: CanvasRenderingContext2D;
  palette: Palette;
  cloud: Cloud;
  model: Model;
  spots: ReadonlyMap<string, Spot>;
  project: Project;
  /** Markers and what is written already: no folder's name goes there. */
  taken: readonly Box[];
  /** 0..1 of a link that has just got worse. */
  glow: (key: string) => number;
  width: number;
  height: number;
}

const faint = (model: Model, key: string): boolean => model.chosen.size > 0 && !model.chosen.has(key);

function spotOf(scene: Scene, file: number, out: Spot): Spot {
  const { xyz } = scene.cloud;
  return scene.project([xyz[file * 3]!, xyz[file * 3 + 1]!, xyz[file * 3 + 2]!], out);
}

function ways(scene: Scene, spot: Spot): void {
  const { pen, palette, model } = scene;
  for (const marker of model.markers) {
    const end = scene.spots.get(marker.id);
    if (!end || marker.way.length < 2) continue;
    const points = marker.way.slice(0, -1).map((p) => ({ ...scene.project(p, spot) }));
    points.push(end);
    pen.strokeStyle = palette.who(marker.id);
    pen.lineWidth = 2;
    for (let i = 1; i < points.length; i++) {
      pen.globalAlpha = (faint(model, marker.id) ? 0.15 : 0.6) * (i / points.length) ** 1.5;
      pen.beginPath();
      pen.moveTo(points[i - 1]!.x, points[i - 1]!.y);
      pen.lineTo(points[i]!.x, points[i]!.y);
      pen.stroke();
    }
  }
  pen.globalAlpha = 1;
}

function workingSets(scene: Scene, spot: Spot): void {
  const { pen, palette, model } = scene;
  const small = model.markers.length > 20 ? 0.7 : 1;
  for (const marker of model.markers) {
    const own = model.picked !== null && "agent" in model.picked && model.picked.agent === marker.id;
    const from = scene.spots.get(marker.id);
    pen.fillStyle = pen.strokeStyle = palette.who(marker.id);
    // One path for all of an agent's files: a canvas is asked once for each agent, not for each file.
    const [dots, spokes] = [new Path2D(), new Path2D()];
    for (const file of marker.files) {
      const at = spotOf(scene, file, spot);
      if (!at.seen) continue;
      const r = small * Math.max(1.6, Math.min(3.4, 2.3 * at.near));
      if (small < 1) dots.rect(at.x - r, at.y - r, 2 * r, 2 * r);
      else {
        dots.moveTo(at.x + r, at.y);
        dots.arc(at.x, at.y, r, 0, 7);
      }
      if (!own || !from) continue;
      spokes.moveTo(from.x, from.y);
      spokes.lineTo(at.x, at.y);
    }
    pen.globalAlpha = 0.35;
    pen.lineWidth = 1;
    if (own) pen.stroke(spokes);
    pen.globalAlpha = faint(model, marker.id) ? 0.15 : marker.away ? 0.4 : 0.85;
    pen.fill(dots);
  }
  pen.globalAlpha = 1;
  if (!model.picked || "agent" in model.picked) return;
  // The files of the evidence, ringed.
  pen.strokeStyle = palette.ink;
  pen.lineWidth = 1.5;
  for (const file of model.marked) {
    const at = spotOf(scene, file, spot);
    pen.beginPath();
    pen.arc(at.x, at.y, 7, 0, 7);
    pen.stroke();
  }
}

function links(scene: Scene): void {
  const { pen, palette, model } = scene;
  const order = [...model.lines].sort((x, y) => x.risk - y.risk);
  pen.lineCap = "round";
  for (const line of order) {
    const [a, b] = [scene.spots.get(line.a), scene.spots.get(line.b)];
    if (!a?.seen || !b?.seen) continue;
    const picked = model.picked !== null && "link" in model.picked && model.picked.link === line.key;
    const dim = faint(model, line.key);
    const path = (): void => {
      pen.beginPath();
      pen.moveTo(a.x, a.y);
      pen.lineTo(b.x, b.y);
      pen.stroke();
    };
    pen.strokeStyle = line.kind === "clear" || line.kind === "ahead" ? palette.quiet : palette[line.kind];
    if (line.lit || picked) {
      pen.setLineDash([]);
      pen.globalAlpha = (dim ? 0.06 : 0.16) + 0.3 * scene.glow(line.key);
      pen.lineWidth = lineWidth(line) + 8 + 8 * scene.glow(line.key);
      path();
    }
    pen.setLineDash(DASH[line.kind]);
    pen.globalAlpha = dim ? 0.16 : line.kind === "clear" ? 0.3 + 0.5 * line.risk : 0.95;
    pen.lineWidth = lineWidth(line) + (picked ? 1 : 0);
    path();
  }
  pen.setLineDash([]);
  pen.globalAlpha = 1;
}

function markers(scene: Scene): void {
  const { pen, palette, model } = scene;
  const far = [...model.markers].sort((x, y) => (scene.spots.get(x.id)?.near ?? 0) - (scene.spots.get(y.id)?.near ?? 0));
  for (const marker of far) {
    const at = scene.spots.get(marker.id);
    if (!at?.seen) continue;
    const r = markerSize(at.near);
    const shape = (grow: number): void => {
      pen.beginPath();
      // As in the transcript: a person is round, an agent has corners.
      if (marker.person) pen.arc(at.x, at.y, r + grow, 0, 7);
      else pen.roundRect(at.x - r - grow, at.y - r - grow, 2 * (r + grow), 2 * (r + grow), 4 + grow / 2);
    };
    pen.globalAlpha = faint(model, marker.id) ? 0.35 : 1;
    pen.fillStyle = palette.surface;
    shape(2.5);
    pen.fill();
    if (marker.away) pen.globalAlpha = Math.min(pen.globalAlpha, 0.45);
    pen.fillStyle = palette.who(marker.id);
    shape(0);
    pen.fill();
    if (marker.level !== "clear") {
      pen.strokeStyle = palette[marker.level];
      pen.lineWidth = 2;
      shape(4.5);
      pen.setLineDash(marker.level === "advisory" ? [5, 4] : []);
      pen.stroke();
      pen.setLineDash([]);
    }
    if (model.picked !== null && "agent" in model.picked && model.picked.agent === marker.id) {
      pen.strokeStyle = palette.accent;
      pen.lineWidth = 2;
      shape(8);
      pen.stroke();
    }
  }
  pen.globalAlpha = 1;
}

/** The names of the bigger folders, quiet, where they do not stand on each other. */
function folders(scene: Scene, spot: Spot): void {
  const { pen, palette, cloud } = scene;
  pen.font = `550 12px ${FONT}`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  const taken = [...scene.taken];
  const big = [...cloud.folders].sort((x, y) => y.files - x.files).slice(0, 16);
  for (const folder of big) {
    const at = scene.project(folder.centre, spot);
    const w = pen.measureText(folder.name).width;
    if (!at.seen || at.x < w / 2 || at.x > scene.width - w / 2 || at.y < 10 || at.y > scene.height - 10) continue;
    const box = { x: at.x - w / 2 - 4, y: at.y - 9, w: w + 8, h: 18 };
    if (taken.some((t) => overlap(box, t))) continue;
    taken.push(box);
    pen.globalAlpha = Math.max(0.4, Math.min(0.95, 0.75 * at.near));
    pen.lineWidth = 4;
    pen.lineJoin = "round";
    pen.strokeStyle = palette.surface;
    pen.strokeText(folder.name, at.x, at.y);
    pen.fillStyle = palette.quiet;
    pen.fillText(folder.name, at.x, at.y);
  }
  pen.globalAlpha = 1;
}

export function drawInk(scene: Scene, spot: Spot): void {
  scene.pen.clearRect(0, 0, scene.width, scene.height);
  folders(scene, spot);
  ways(scene, spot);
  workingSets(scene, spot);
  links(scene);
  markers(scene);
}
