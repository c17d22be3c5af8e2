import { describe, expect, it } from "vitest";
import * as tl from "../src/state/timeline";
import type { Entry } from "../src/types";

const entry = (number: number): Entry => ({
  id: `m${number}`, number, ts: "2026-01-02T00:00:00Z", speaker: "ann", kind: "human", body: "", in_reply_to: null, to: [], job: null,
  meta: {}, cursor: String(number),
});
const run = (from: number, to: number): Entry[] => Array.from({ length: to - from + 1 }, (_, i) => entry(from + i));
const numbers = (t: tl.Timeline): number[] => t.entries.map((e) => e.number);

function holds(t: tl.Timeline): void {
  const all = numbers(t);
  expect(all).toEqual(run(all[0] ?? 1, all[all.length - 1] ?? 0).map((e) => e.number));
  expect(t.end - t.start).toBeLessThanOrEqual(tl.MAX_ROWS);
  expect(t.start).toBeGreaterThanOrEqual(0);
  expect(t.end).toBeLessThanOrEqual(t.entries.length);
}

describe("the timeline", () => {
  it("takes what comes twice once", () => {
    const t = tl.arrive(tl.load(run(1, 5), false), [entry(5), entry(6), entry(6)]);
    expect(numbers(t)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(t.end).toBe(6);
  });

  it("keeps the window short while a pinned reader follows", () => {
    let t = tl.load(run(1, 100), true);
    for (let n = 101; n <= 600; n++) t = tl.arrive(t, [entry(n)]);
    holds(t);
    expect(tl.showsEnd(t)).toBe(true);
  });

  it("does not move a reader who has scrolled up", () => {
    const before = tl.up(tl.pin(tl.load(run(1, 300), false), false));
    const t = tl.arrive(before, run(301, 400));
    expect([t.start, t.entries.length]).toEqual([before.start, 400]);
    holds(t);
  });

  it("shows a few rows at first, and more at each step, at the end that a pinned reader stays at", () => {
    let t = tl.load(run(1, 300), false);
    for (let shown = t.end - t.start; t.start > 0 && t.end === 300; shown = t.end - t.start) {
      expect(t.pinned).toBe(true);
      t = tl.up(t);
      expect(t.end - t.start - shown).toBeLessThanOrEqual(tl.STEP);
      holds(t);
    }
    expect(tl.arrive(tl.load(run(1, 300), false), run(301, 400)).start).toBe(400 - tl.STEP);
  });

  it("shows long entries one at a time", () => {
    const long = run(1, 50).map((e) => ({ ...e, body: "word ".repeat(200) }));
    const t = tl.load(long, false);
    expect(t.end - t.start).toBe(1);
    expect(tl.up(t).start).toBe(t.start - 1);
    expect(tl.up(t, 6)).toMatchObject({ start: t.start - 1, end: t.end - 1 });
  });

  it("leaves a long entry behind short ones for the next step", () => {
    const mixed = run(1, 50).map((e) => ({ ...e, body: "word ".repeat(e.number % 2 ? 100 : 2) }));
    const first = tl.load(mixed, false);
    expect([first.end - first.start, first.start - tl.up(first).start]).toEqual([1, 1]);
  });

  it("holds no more than it may, whichever way the reader goes, and comes back without a gap", () => {
    let t = tl.load(run(4901, 5000), true);
    for (let first = 4801; first > 0; first -= 100) {
      while (t.start > 0) t = tl.up(t, 6);
      t = tl.prepend(t, run(first, first + 99), first > 1);
      holds(t);
      expect(t.entries.length).toBeLessThanOrEqual(tl.MAX_HELD);
    }
    expect(numbers(t)[0]).toBe(1);
    expect(t).toMatchObject({ moreBefore: false, moreAfter: true, pinned: false });
    t = tl.arrive(t, [entry(5001)]);
    while (t.moreAfter) {
      while (t.end < t.entries.length) t = tl.down(t, 6);
      const last = numbers(t).at(-1)!;
      t = tl.extend(t, run(last + 1, Math.min(5001, last + 100)), last + 100 > 5001);
      holds(t);
      expect(t.entries.length).toBeLessThanOrEqual(tl.MAX_HELD);
    }
    expect(numbers(t).at(-1)).toBe(5001);
    expect(t.moreBefore).toBe(true);
    for (let n = 5002; n < 8000; n++) t = tl.arrive(tl.pin(t, true), [entry(n)]);
    holds(t);
    expect(t.entries.length).toBeLessThanOrEqual(tl.MAX_HELD);
    expect(numbers(t).at(-1)).toBe(7999);
  });

  it("pages back without a gap", () => {
    let t = tl.load(run(201, 300), true);
    t = tl.prepend(t, run(101, 200), true);
    t = tl.prepend(t, run(1, 100), false);
    holds(t);
    expect(numbers(t)).toHaveLength(300);
    expect(t.moreBefore).toBe(false);
  });

  it("from the past to the present, with what came meanwhile, once", () => {
    let t = tl.loadAround(run(50, 99), "m75", true, true);
    t = tl.arrive(t, run(301, 302));
    t = tl.extend(t, run(100, 199), false);
    t = tl.extend(t, run(200, 301), true);
    holds(t);
    expect(numbers(t)[numbers(t).length - 1]).toBe(302);
    expect(t.moreAfter).toBe(false);
  });
});
