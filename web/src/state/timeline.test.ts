import { describe, expect, it } from "vitest";
import type { Entry } from "../types";
import { arrive, around, down, extend, load, loadAround, MAX_ROWS, pin, prepend, showsEnd, STEP, up, type Timeline } from "./timeline";

const entry = (n: number): Entry => ({
  id: `id${n}`, number: n, ts: "2026-01-01T00:00:00Z", speaker: "ann", kind: "human", body: "", in_reply_to: null, to: [], job: null, meta: {}, cursor: String(n),
});
const run = (from: number, to: number): Entry[] => Array.from({ length: to - from + 1 }, (_, i) => entry(from + i));
const numbers = (t: Timeline): number[] => t.entries.map((e) => e.number);

/** The promise of the file: no gap, no double, a bounded window that lies inside the run. */
function holds(t: Timeline): void {
  numbers(t).forEach((n, i, all) => i > 0 && expect(n).toBe(all[i - 1]! + 1));
  expect(t.start).toBeGreaterThanOrEqual(0);
  expect(t.start).toBeLessThanOrEqual(t.end);
  expect(t.end).toBeLessThanOrEqual(t.entries.length);
  expect(t.end - t.start).toBeLessThanOrEqual(MAX_ROWS);
}

describe("the timeline", () => {
  it("drops what comes twice", () => {
    const t = arrive(arrive(load(run(1, 10), false), run(8, 12)), run(11, 13));
    expect(numbers(t)).toEqual(run(1, 13).map((e) => e.number));
    holds(t);
  });

  it("does not change when nothing is new", () => {
    const t = load(run(1, 10), false);
    expect(arrive(t, run(3, 10))).toBe(t);
  });

  it("keeps the end in the window of a pinned reader, whatever comes", () => {
    let t = load(run(1, 100), false);
    for (let n = 101; n <= 2000; n += 50) {
      t = arrive(t, run(n, n + 49));
      holds(t);
      expect(showsEnd(t)).toBe(true);
    }
  });

  it("leaves the window of a reader alone who is up in a long room", () => {
    const t = pin(around(load(run(1, 1000), false), 100), false);
    const next = arrive(t, run(1001, 1400));
    expect([next.start, next.end]).toEqual([t.start, t.end]);
    expect(showsEnd(next)).toBe(false);
    holds(next);
  });

  it("pages up and down through everything with a bounded window", () => {
    let t = load(run(901, 1000), true);
    for (let first = 801; first > 0; first -= 100) {
      while (t.start > 0) { t = up(t); holds(t); }
      t = prepend(t, run(first, first + 99), first > 1);
      holds(t);
    }
    expect(t.entries.length).toBe(1000);
    expect(t.moreBefore).toBe(false);
    while (!showsEnd(t)) { t = down(t); holds(t); }
    expect(t.end).toBe(1000);
  });

  it("keeps a row that was in the window in the window when an older page comes", () => {
    const t = load(run(101, 200), true);
    const seen = t.entries[t.start]!.id;
    const next = prepend(t, run(1, 100), false);
    expect(next.entries.slice(next.start, next.end).some((e) => e.id === seen)).toBe(true);
    expect(next.start).toBe(100 - STEP);
  });

  it("meets the present again from far back, with what came meanwhile", () => {
    let t = loadAround(run(1, 100), "id50", false, true);
    expect(t.pinned).toBe(false);
    t = arrive(t, run(301, 303));
    expect(numbers(t)).toEqual(numbers(loadAround(run(1, 100), "id50", false, true)));
    t = extend(t, run(101, 200), false);
    expect(t.moreAfter).toBe(true);
    t = extend(t, run(201, 302), true);
    expect(t.moreAfter).toBe(false);
    expect(t.entries.at(-1)!.number).toBe(303);
    holds(t);
  });
});
