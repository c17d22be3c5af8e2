/**
 * Where markers stand in the picture: where the room placed them, but never on one another. Pure.
 *
 * Two agents that collide have a distance of nearly 0, and a plan leaves out one of three axes: drawn to scale they
 * would be one spot. The line and its number say how near they are; the picture says that they are two.
 */

import type { Spot } from "./stage";

/** CSS pixels between two markers that have an advisory's level: room for a line. */
export const PAIR = 104;
/** And between any two. */
export const LEAST = 30;
/** A pair in one place leaves it along this, the first of the names to the left: it does not turn from frame to frame. */
const LEAN = 4;
/** From so many markers on only pairs with a level are moved: all others are a crowd anyway. */
const CROWD = 60;
const ROUNDS = 24;
/** Kept free at the edges of the picture. */
const EDGE = 16;

/** Moves the spots. `pairs`: those with a level, as ids. */
export function apart(spots: ReadonlyMap<string, Spot>, pairs: readonly (readonly [string, string])[], width: number, height: number): void {
  const pair = Math.min(PAIR, width * 0.3, height * 0.3);
  const seen = [...spots].filter(([, s]) => s.seen).sort(([a], [b]) => (a < b ? -1 : 1));
  const inside = new Set(seen.filter(([, s]) => s.x >= 0 && s.y >= 0 && s.x <= width && s.y <= height).map(([, s]) => s));
  const wanted: [Spot, Spot, number][] = [];
  const near = new Set(pairs.map(([a, b]) => (a < b ? `${a}\n${b}` : `${b}\n${a}`)));
  for (let i = 0; i < seen.length; i++)
    for (let j = i + 1; j < seen.length; j++) {
      const close = near.has(`${seen[i]![0]}\n${seen[j]![0]}`);
      if (close || seen.length <= CROWD) wanted.push([seen[i]![1], seen[j]![1], close ? pair : LEAST]);
    }
  for (let round = 0; round < ROUNDS; round++) {
    let moved = false;
    for (const [a, b, least] of wanted) {
      const far = Math.hypot(b.x - a.x, b.y - a.y);
      if (far >= least - 0.5) continue;
      const [dx, dy] = [b.x - a.x + LEAN, b.y - a.y];
      const length = Math.hypot(dx, dy) || 1;
      const step = (least - far) / 2;
      a.x -= (dx / length) * step;
      a.y -= (dy / length) * step;
      b.x += (dx / length) * step;
      b.y += (dy / length) * step;
      moved = true;
    }
    for (const s of inside) {
      s.x = Math.max(EDGE, Math.min(width - EDGE, s.x));
      s.y = Math.max(EDGE, Math.min(height - EDGE, s.y));
    }
    if (!moved) return;
  }
}
