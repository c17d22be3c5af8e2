import { describe, expect, it } from "vitest";
import type { Budget, Exploration, Usage, Variant } from "../src/explore/types";
import { bars, figure, filesFor, moving, scoreParts, standing, tests } from "../src/explore/words";

const BUDGET: Budget = { max_duration_seconds: 60, max_tokens: 10_000, max_tool_calls: null, max_cost_usd: 2 };
const USED: Usage = { seconds: 45, tokens: 6200, tool_calls: 7, cost_usd: null };

const variant = (more: Partial<Variant>): Variant => ({
  name: "redis", agent: "AVA", branch: "b", status: "completed", metrics: {}, notes: {}, weighted_score: null, passing: null,
  resource_usage: USED, unwatched: [], files_modified: 1, commit: "c", ref: "r", ...more,
});

describe("a score", () => {
  it("says what it is made of", () => {
    const metrics = [{ name: "tests", weight: 0.6, lower_is_better: false }, { name: "cost", weight: 0.4, lower_is_better: true }];
    const of = { metrics, comparison_matrix: [[1, 0.5], [0.5, 0], null, [0, 0]] };
    expect([0, 1, 2, 3].map((at) => scoreParts(of, at))).toEqual(["0.600 tests + 0.200 cost", "0.300 tests", "", "nothing"]);
    expect(scoreParts({ metrics }, 0)).toBe("");
  });
});

describe("the bars of a budget", () => {
  it("say how much of each limit is used, and never 0 for what is unknown", () => {
    const told = bars(USED, BUDGET).map((bar) => [bar.id, bar.value, bar.part]);
    expect(told).toEqual([
      ["max_duration_seconds", "45 s / 1:00", 0.75],
      ["max_tokens", "6.2k / 10k", 0.62],
      ["max_tool_calls", "7", null],
      ["max_cost_usd", "unknown / $2.00", null],
    ]);
  });
  it("are full at the limit and beyond", () => {
    expect(bars({ ...USED, seconds: 61, cost_usd: 2.01 }, BUDGET).map((bar) => bar.part)).toEqual([1, 0.62, null, 1]);
  });
});

describe("a variant in words", () => {
  it("says which limit it passed, and why it failed", () => {
    expect(standing(variant({ status: "budget_exceeded", which: "max_cost_usd" }))).toBe("stopped at its budget: dollars");
    expect(standing(variant({ status: "failed", reason: "it changed no file" }))).toBe("failed: it changed no file");
  });
  it("tells tests that did not run from those that fail", () => {
    expect([null, true, false].map((passing) => tests(variant({ passing })))).toEqual(["not run", "pass", "fail"]);
  });
  it("has figures, or unknown", () => {
    expect([figure(undefined), figure(0), figure(200), figure(0.123456)]).toEqual(["unknown", "0", "200", "0.1235"]);
  });
});

it("takes files from other variants only", () => {
  const picks = new Map([["a.py", "redis"], ["b.py", "in-memory"]]);
  expect(filesFor("redis", picks)).toEqual(["b.py=in-memory"]);
  expect(filesFor("memcached", picks)).toEqual(["a.py=redis", "b.py=in-memory"]);
});

it("is looked at again only while something happens by itself", () => {
  const of = (state: Exploration["state"]): boolean => moving({ state } as Exploration);
  expect(["running", "comparing", "reviewing", "merging"].map((state) => of(state as Exploration["state"]))).toEqual([true, true, true, true]);
  expect(["waiting", "done", "ended"].map((state) => of(state as Exploration["state"]))).toEqual([false, false, false]);
});
