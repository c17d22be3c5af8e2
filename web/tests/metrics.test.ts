import { describe, expect, it } from "vitest";
import type { Metric } from "../src/metrics/types";
import { among, figure, wanted, windowName } from "../src/metrics/words";

describe("a figure in words", () => {
  it("goes by its unit", () => {
    expect(figure(1234, "count")).toBe("1,234");
    expect(figure(0.333333, "ratio")).toBe("33.3 %");
    expect(figure(0, "ratio")).toBe("0 %");
    expect(figure(0.75, "usd")).toBe("$0.75");
    expect(figure(0.0123, "usd")).toBe("$0.0123");
  });
  it("is not all where one is missing", () => {
    expect([0.9996, 1].map((share) => figure(share, "ratio"))).toEqual(["99.9 %", "100 %"]);
  });
  it("says a time by its two largest units", () => {
    const told = [0, 0.26, 9.96, 59.9, 112.5, 300, 7500, 90_000].map((seconds) => figure(seconds, "seconds"));
    expect(told).toEqual(["0 s", "0.3 s", "10 s", "59 s", "1 min 52 s", "5 min", "2 h 5 min", "1 d 1 h"]);
  });
});

describe("what stands beside a figure", () => {
  it("is its target, how many it is of, and its window", () => {
    expect(wanted({ sign: "=", value: 0 }, "count")).toBe("target 0");
    expect(wanted({ sign: ">", value: 0.7 }, "ratio")).toBe("target > 70 %");
    expect(wanted({ sign: "<", value: 300 }, "seconds")).toBe("target < 5 min");
    expect(among({ n: 6000, of: "merges tried" } as Metric)).toBe("n = 6,000 merges tried");
    expect([null, 30, 1].map(windowName)).toEqual(["All", "30 days", "Today"]);
  });
});
