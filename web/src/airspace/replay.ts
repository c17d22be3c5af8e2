/** The past of the airspace: what stood at a time, between two samples of the log. Pure. */

import { RANK } from "../state/nearness";
import { instant } from "../text/format";
import type { AirspaceState, Sample } from "../airspace_types";
import type { Level, Point } from "../basic_types";
import { mix } from "./motion";

export interface Still {
  at: number;
  positions: Readonly<Record<string, Point>>;
  links: Sample["links"];
  advisories: readonly string[];
}

/** Milliseconds over which an agent moves into a sample: before, it stood; the log has a sample only on change. */
const GLIDE = 20_000;

/** Oldest first, each time once. */
export function inOrder(samples: readonly Sample[]): Still[] {
  const byTime = new Map<number, Still>();
  for (const { at, positions, links, advisories } of samples) {
    const time = instant(at);
    if (time !== null) byTime.set(time, { at: time, positions, links, advisories });
  }
  return [...byTime.values()].sort((a, b) => a.at - b.at);
}

export function appended(stills: readonly Still[], state: AirspaceState): readonly Still[] {
  const at = instant(state.at);
  const last = stills[stills.length - 1];
  if (at === null || (last && last.at >= at)) return stills;
  const advisories = state.advisories.map((one) => one.id);
  return [...stills, { at, positions: state.positions, links: state.links, advisories }];
}

/** Index of the last sample at or before a time; -1 before the first. */
export function indexAt(stills: readonly Still[], time: number): number {
  let [low, high] = [0, stills.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (stills[middle]!.at <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** What stood at a time. Null before the first sample. */
export function stillAt(stills: readonly Still[], time: number): Still | null {
  const i = indexAt(stills, time);
  const here = stills[i];
  if (!here) return null;
  const next = stills[i + 1];
  if (!next) return { ...here, at: time };
  const t = Math.max(0, 1 - (next.at - time) / Math.min(GLIDE, next.at - here.at));
  if (t === 0) return { ...here, at: time };
  const positions: Record<string, Point> = {};
  for (const [id, p] of Object.entries(here.positions)) {
    const q = next.positions[id];
    positions[id] = q ? mix(p, q, t) : p;
  }
  return { ...here, at: time, positions };
}

/** Each agent's places in the `ms` before a time, oldest first. */
export function waysUpTo(stills: readonly Still[], time: number, ms: number): Map<string, Point[]> {
  const ways = new Map<string, Point[]>();
  for (let i = Math.max(0, indexAt(stills, time - ms)); i <= indexAt(stills, time); i++) {
    for (const [id, p] of Object.entries(stills[i]!.positions)) {
      const way = ways.get(id) ?? [];
      const last = way[way.length - 1];
      if (!last || last[0] !== p[0] || last[1] !== p[1] || last[2] !== p[2]) ways.set(id, [...way, p]);
    }
  }
  return ways;
}

export interface Bar {
  risk: number;
  level: Level;
}

/** The greatest risk in each of `n` equal parts of a span: what the slider's track shows. */
export function strip(stills: readonly Still[], from: number, to: number, n: number): Bar[] {
  const bars: Bar[] = Array.from({ length: n }, () => ({ risk: 0, level: "clear" as const }));
  stills.forEach((still, i) => {
    // A sample stands until the next one.
    const end = stills[i + 1]?.at ?? to;
    const worst = still.links.reduce<Bar>((w, l) => ({ risk: Math.max(w.risk, l.risk), level: RANK[l.level] > RANK[w.level] ? l.level : w.level }), { risk: 0, level: "clear" });
    const place = (time: number): number => Math.floor(((time - from) / (to - from)) * n);
    for (let k = Math.max(0, place(still.at)); k <= Math.min(n - 1, place(end)); k++) {
      const bar = bars[k]!;
      bars[k] = { risk: Math.max(bar.risk, worst.risk), level: RANK[worst.level] > RANK[bar.level] ? worst.level : bar.level };
    }
  });
  return bars;
}

/** Who was near whom: the links that were not clear, the gravest first. */
export function near(still: Still): Sample["links"] {
  return still.links.filter((l) => l.level !== "clear").sort((x, y) => RANK[y.level] - RANK[x.level] || y.risk - x.risk);
}
