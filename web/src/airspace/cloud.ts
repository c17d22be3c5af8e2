/**
 * The file cloud as arrays, and the frame it is looked at in. Pure.
 *
 * Invariant: a cloud is scaled by its `Fit` only, and a fit is made once for a view; so new files come into the
 * picture without moving what is there.
 */

import type { Coordinates } from "../state/nearness";
import type { Point } from "../basic_types";

export interface Folder {
  name: string;
  /** Degrees, for oklch. */
  hue: number;
  files: number;
  /** Mean of its files. */
  centre: Point;
}

export interface Cloud {
  paths: readonly string[];
  /** x, y, z of each file, as the room placed it. */
  xyz: Float32Array;
  /** Index into `folders` of each file. */
  folder: Uint16Array;
  folders: readonly Folder[];
  index: ReadonlyMap<string, number>;
}

/** Groups of which one holds more than this share of the files are opened, if they can be. */
const TOO_MUCH = 0.25;
const MOST_GROUPS = 14;

function under(path: string, depth: number): string {
  const parts = path.split("/");
  return parts.length <= depth ? parts.slice(0, -1).join("/") : parts.slice(0, depth).join("/");
}

/** A name for the folder of each path: the top folders, the biggest of them opened, so that the picture has parts. */
export function groups(paths: readonly string[]): string[] {
  const depth = paths.map(() => 1);
  const names = paths.map((path) => under(path, 1));
  for (let round = 0; round < 8; round++) {
    const members = new Map<string, number[]>();
    names.forEach((name, i) => members.get(name)?.push(i) ?? members.set(name, [i]));
    if (members.size >= MOST_GROUPS) break;
    const [name, biggest] = [...members].reduce((x, y) => (y[1].length > x[1].length ? y : x), ["", [] as number[]]);
    if (!name || biggest.length <= paths.length * TOO_MUCH) break;
    const opened = biggest.map((i) => under(paths[i]!, depth[i]! + 1));
    if (new Set(opened).size > MOST_GROUPS * 2 || opened.every((one) => one === name)) break;
    biggest.forEach((i, at) => {
      depth[i]! += 1;
      names[i] = opened[at]!;
    });
  }
  return names;
}

export function makeCloud(coordinates: Coordinates): Cloud {
  const paths = Object.keys(coordinates);
  const xyz = new Float32Array(paths.length * 3);
  const folder = new Uint16Array(paths.length);
  const sums = new Map<string, { at: number; files: number; x: number; y: number; z: number }>();
  groups(paths).forEach((name, i) => {
    const [x, y, z] = coordinates[paths[i]!]!;
    xyz.set([x, y, z], i * 3);
    const sum = sums.get(name) ?? { at: sums.size, files: 0, x: 0, y: 0, z: 0 };
    sums.set(name, { at: sum.at, files: sum.files + 1, x: sum.x + x, y: sum.y + y, z: sum.z + z });
    folder[i] = sum.at;
  });
  // Neighbours in the alphabet get far hues (by the golden angle); a name's own hue would give some of them the same.
  const rank = new Map([...sums.keys()].sort().map((name, i) => [name, i]));
  const folders = [...sums].map(([name, s]): Folder => ({
    name: name || "top folder",
    hue: Math.round((24 + rank.get(name)! * 137.508) % 360),
    files: s.files,
    centre: [s.x / s.files, s.y / s.files, s.z / s.files],
  }));
  return { paths, xyz, folder, folders, index: new Map(paths.map((path, i) => [path, i])) };
}

/** The cloud for these coordinates; where the files are those of `before`, only their places are made anew. */
export function remade(before: Cloud | null, coordinates: Coordinates): Cloud {
  if (!before || !before.paths.length || Object.keys(coordinates).length !== before.paths.length) return makeCloud(coordinates);
  const xyz = new Float32Array(before.xyz.length);
  for (let i = 0; i < before.paths.length; i++) {
    const at = coordinates[before.paths[i]!];
    if (!at) return makeCloud(coordinates);
    xyz.set(at, i * 3);
  }
  return { ...before, xyz };
}

/** What becomes the origin, and what becomes 1. */
export interface Fit {
  centre: Point;
  scale: number;
  /** The two directions in which the cloud is widest, of length 1: the axes of the plan. */
  axes: readonly [Point, Point];
}

const FLAT: Fit = { centre: [0, 0, 0], scale: 1, axes: [[1, 0, 0], [0, 1, 0]] };

/** Eigenvectors of a symmetric 3x3 matrix by Jacobi rotations, the greatest eigenvalue first. */
function eigenvectors(m: number[][]): Point[] {
  const a = m.map((row) => [...row]);
  const v = [[1, 0, 0], [0, 1, 0], [0, 0, 1]];
  for (let sweep = 0; sweep < 12; sweep++) {
    for (const [p, q] of [[0, 1], [0, 2], [1, 2]] as const) {
      if (Math.abs(a[p]![q]!) < 1e-14) continue;
      const theta = 0.5 * Math.atan2(2 * a[p]![q]!, a[q]![q]! - a[p]![p]!);
      const [c, s] = [Math.cos(theta), Math.sin(theta)];
      for (let k = 0; k < 3; k++) {
        const [x, y] = [a[k]![p]!, a[k]![q]!];
        a[k]![p] = c * x - s * y;
        a[k]![q] = s * x + c * y;
      }
      for (let k = 0; k < 3; k++) {
        const [x, y] = [a[p]![k]!, a[q]![k]!];
        a[p]![k] = c * x - s * y;
        a[q]![k] = s * x + c * y;
        const [f, g] = [v[k]![p]!, v[k]![q]!];
        v[k]![p] = c * f - s * g;
        v[k]![q] = s * f + c * g;
      }
    }
  }
  const order = [0, 1, 2].sort((i, j) => a[j]![j]! - a[i]![i]!);
  return order.map((i) => {
    const axis: Point = [v[0]![i]!, v[1]![i]!, v[2]![i]!];
    // An eigenvector has no sign of its own: the largest part is made positive, so the plan is never mirrored.
    const largest = axis.reduce((x, y) => (Math.abs(y) > Math.abs(x) ? y : x));
    return largest < 0 ? [-axis[0], -axis[1], -axis[2]] : axis;
  });
}

/** The frame for some points (x, y, z, x, ...): centred, and such that nearly all are within 1 of the origin. */
export function fit(xyz: Float32Array): Fit {
  const n = xyz.length / 3;
  if (!n) return FLAT;
  const c = [0, 0, 0];
  for (let i = 0; i < xyz.length; i++) c[i % 3]! += xyz[i]! / n;
  const cov = [[0, 0, 0], [0, 0, 0], [0, 0, 0]];
  const far = new Float32Array(n);
  for (let i = 0; i < n; i++) {
    const d = [xyz[i * 3]! - c[0]!, xyz[i * 3 + 1]! - c[1]!, xyz[i * 3 + 2]! - c[2]!];
    far[i] = Math.hypot(d[0]!, d[1]!, d[2]!);
    for (let p = 0; p < 3; p++) for (let q = 0; q < 3; q++) cov[p]![q]! += (d[p]! * d[q]!) / n;
  }
  const radius = far.sort()[Math.floor((n - 1) * 0.99)]!;
  const axes = eigenvectors(cov);
  return { centre: [c[0]!, c[1]!, c[2]!], scale: radius > 0 ? 1 / radius : 1, axes: [axes[0]!, axes[1]!] };
}

export function scaled(f: Fit, p: Point): [number, number, number] {
  return [(p[0] - f.centre[0]) * f.scale, (p[1] - f.centre[1]) * f.scale, (p[2] - f.centre[2]) * f.scale];
}

/** On the plan, in units of the fit. */
export function flat(f: Fit, x: number, y: number, z: number): [number, number] {
  const [u, v] = f.axes;
  const [a, b, c] = [x - f.centre[0], y - f.centre[1], z - f.centre[2]];
  return [(a * u[0] + b * u[1] + c * u[2]) * f.scale, (a * v[0] + b * v[1] + c * v[2]) * f.scale];
}
