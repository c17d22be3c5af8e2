/**
 * Where the camera must stand so that given points are in the picture, with room for names at its edges. Pure.
 *
 * Invariant: every given point is within the margins; the picture is as near as that lets it be, but not nearer
 * than `LEAST` of the whole.
 */

import type { Point } from "../basic_types";

/** Part of the picture's width and height that is left free at each edge: agents move, and markers have a size. */
const MARGIN = 0.12;
/** Margins never take more than this part of the width, however long a name is. */
const MOST_MARGIN = 0.55;
/** What must be seen takes this part of the picture at least; where the cloud would make it smaller, the cloud is cut. */
const TINY = 0.35;
/** The smallest part of the whole that a picture shows: two agents in one place still have their surroundings. */
const LEAST = 0.12;

/** Free pixels at each edge. */
export interface Margins {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

/** A name stands to the right of its marker where it can, so it is there that its width is left free. */
export function margins(width: number, height: number, label: number): Margins {
  const left = width * MARGIN;
  return { left, right: Math.min(left + label, width * MOST_MARGIN - left), top: height * MARGIN, bottom: height * MARGIN };
}

function size(points: readonly Point[]): number {
  const sides = [0, 1, 2].map((k) => points.reduce((m, p) => [Math.min(m[0]!, p[k]!), Math.max(m[1]!, p[k]!)], [Infinity, -Infinity]));
  return points.length ? Math.hypot(...sides.map(([low, high]) => high! - low!)) : 0;
}

/**
 * The points to show: those that `must` be seen, and of the rest (each a group: the ways, the cloud) what does not make
 * these tiny. `least` is the size below which the picture is not to go, in the points' units.
 */
export function inFrame(must: readonly Point[], rest: readonly (readonly Point[])[]): { points: readonly Point[]; least: number } {
  const all = [...must, ...rest.flat()];
  const least = size(all) * LEAST;
  // One place has no size: it cannot become tiny, and alone it says nothing.
  const own = Math.max(size(must), least);
  if (!must.length || size(must) === 0) return { points: all, least };
  let points = [...must];
  for (const group of rest) {
    const more = [...points, ...group];
    if (own >= TINY * size(more)) points = more;
  }
  return { points, least };
}

/** Of the camera, along its right, its up, and towards the viewer. */
export interface Stand {
  x: number;
  y: number;
  z: number;
}

/**
 * Perspective. `points` are along the camera's right, up, and towards the viewer; `tan` is half the field's width and
 * height at distance 1. A camera at (x, y, z) sees p in the picture when (p.x - x) / (z - p.z) is within the bounds:
 * a line in z for each point and edge, so the least z is where the lines of two opposite edges meet. `nearest` = the
 * least z that is wanted anyway.
 */
export function standInSpace(points: readonly Point[], tan: readonly [number, number], width: number, height: number, m: Margins, nearest: number): Stand {
  const edge = {
    x: [tan[0] * (1 - (2 * m.left) / width), tan[0] * (1 - (2 * m.right) / width)],
    y: [tan[1] * (1 - (2 * m.bottom) / height), tan[1] * (1 - (2 * m.top) / height)],
  } as const;
  const bounds = (k: 0 | 1, [low, high]: readonly [number, number]) => {
    let [most, least] = [-Infinity, Infinity];
    for (const p of points) {
      most = Math.max(most, p[k] + high * p[2]);
      least = Math.min(least, p[k] - low * p[2]);
    }
    const z = (most - least) / (low + high);
    return { z, at: (far: number) => (most - high * far + least + low * far) / 2 };
  };
  const [x, y] = [bounds(0, edge.x), bounds(1, edge.y)];
  const z = Math.max(x.z, y.z, nearest);
  return { x: x.at(z), y: y.at(z), z };
}

/** Without perspective: the middle of the picture, and the pixels of one unit. */
export function standOnPlan(points: readonly (readonly [number, number])[], least: number, width: number, height: number, m: Margins): { x: number; y: number; unit: number } {
  let [left, right, bottom, top] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const [u, v] of points) {
    left = Math.min(left, u);
    right = Math.max(right, u);
    bottom = Math.min(bottom, v);
    top = Math.max(top, v);
  }
  const [w, h] = [width - m.left - m.right, height - m.top - m.bottom];
  const unit = Math.min(w / Math.max(right - left, least), h / Math.max(top - bottom, least));
  return { x: (left + right) / 2 + (m.right - m.left) / 2 / unit, y: (bottom + top) / 2 + (m.bottom - m.top) / 2 / unit, unit };
}
