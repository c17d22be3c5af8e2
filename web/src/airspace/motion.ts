/** Agents move from where they are seen to where they are told to be. Pure: the time is given. */

import type { Point } from "../basic_types";

/** Milliseconds of a move; a tick is a second at the least, so a move ends before the next begins. */
export const MOVE_MS = 700;

interface Move {
  from: Point;
  to: Point;
  start: number;
  ms: number;
}

export type Motion = ReadonlyMap<string, Move>;

const still = (at: Point): Move => ({ from: at, to: at, start: 0, ms: 0 });
const ease = (t: number): number => 1 - (1 - t) ** 3;
export const mix = (a: Point, b: Point, t: number): Point => [a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t, a[2] + (b[2] - a[2]) * t];

function at(move: Move, now: number): Point {
  const t = move.ms > 0 ? Math.min(1, Math.max(0, (now - move.start) / move.ms)) : 1;
  return t >= 1 ? move.to : mix(move.from, move.to, ease(t));
}

/** New places. Who was not there before appears in its place; `ms` = 0 puts everyone there at once. */
export function towards(motion: Motion, places: ReadonlyMap<string, Point>, now: number, ms: number): Motion {
  const next = new Map<string, Move>();
  for (const [id, to] of places) {
    const move = motion.get(id);
    if (!move || ms === 0) next.set(id, still(to));
    else if (move.to[0] === to[0] && move.to[1] === to[1] && move.to[2] === to[2]) next.set(id, move);
    else next.set(id, { from: at(move, now), to, start: now, ms });
  }
  return next;
}

export function placeOf(motion: Motion, id: string, now: number): Point | null {
  const move = motion.get(id);
  return move ? at(move, now) : null;
}

export function moving(motion: Motion, now: number): boolean {
  return [...motion.values()].some((m) => m.ms > 0 && now < m.start + m.ms);
}
