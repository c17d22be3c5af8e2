/** The shapes of the kinds, as paths around 0, 0 in a box of 16: for the canvas and for the legend. */

import type { Palette } from "../airspace/palette";
import { KINDS } from "./kinds";

/** What it is painted in: the author's colour, or one with a meaning. The shape alone tells the kind. */
type Tone = "who" | "ink" | "accent" | "signal" | "bad" | "quiet";

export interface Glyph {
  d: string;
  tone: Tone;
  /** Filled, else its lines alone. */
  solid: boolean;
}

const GLYPHS: Readonly<Record<string, Glyph>> = {
  write: { d: "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0Z", tone: "who", solid: true },
  unseen: { d: "M-5.5 0a5.5 5.5 0 1 0 11 0a5.5 5.5 0 1 0-11 0ZM-3.8 0a3.8 3.8 0 1 1 7.6 0a3.8 3.8 0 1 1-7.6 0ZM-1.8 0a1.8 1.8 0 1 0 3.6 0a1.8 1.8 0 1 0-3.6 0Z", tone: "signal", solid: true },
  read: { d: "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0Z", tone: "who", solid: false },
  turn: { d: "M-7-4H7V4H-7Z", tone: "quiet", solid: false },
  end: { d: "M-1-4H1V4H-1Z", tone: "quiet", solid: false },
  branch: { d: "M-4 5.5V-5.5M-4 2.5C-4-1 4-.5 4-5", tone: "who", solid: false },
  merge: { d: "M-4 5.5V-5.5M-4-2.5C-4 1 4 .5 4 5", tone: "who", solid: false },
  worktree: { d: "M-3.5-3.5H3.5V3.5H-3.5Z", tone: "who", solid: false },
  rewind: { d: "M-.2-4.8V4.8L-6.6 0ZM6.2-4.8V4.8L-.2 0Z", tone: "ink", solid: true },
  undo: { d: "M.2-4.8V4.8L6.6 0ZM-6.2-4.8V4.8L.2 0Z", tone: "ink", solid: true },
  redo: { d: "M1-4.8V4.8L-4.4 0ZM6.6-4.8V4.8L1.2 0ZM-6.4-4.8H-4.8V4.8H-6.4Z", tone: "ink", solid: true },
  given_up: { d: "M-4-4L4 4M4-4L-4 4", tone: "quiet", solid: false },
  checkpoint: { d: "M-4.6 6.5V-6H5L2.4-2.4L5 1.2H-3V6.5Z", tone: "accent", solid: true },
  handoff: { d: "M-6.5-1.7H-.5V-5L6.5 0L-.5 5V1.7H-6.5Z", tone: "accent", solid: true },
  conflict: { d: "M0-6.5L6.8 5.6H-6.8ZM-1-2.4V1.6H1V-2.4ZM-1 2.7V4.4H1V2.7Z", tone: "bad", solid: true },
  gone: { d: "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0ZM-5 5L5-5", tone: "quiet", solid: false },
  settled: { d: "M0-6L6 5H-6ZM-2.2 1.6L-.6 3.2L2.4-.6", tone: "quiet", solid: false },
};

export const glyph = (kind: number): Glyph => GLYPHS[KINDS[kind]!.id]!;

/** The shapes as the canvas draws them, made at first use. */
const paths: (Path2D | undefined)[] = [];
export const path = (kind: number): Path2D => (paths[kind] ??= new Path2D(glyph(kind).d));

export function toneOf(tone: Tone, palette: Palette, who: string): string {
  return { who, ink: palette.ink, accent: palette.accent, signal: palette.advisory, bad: palette.resolution, quiet: palette.quiet }[tone];
}
