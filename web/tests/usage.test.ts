import { describe, expect, it } from "vitest";
import { dollars, said, short, type Used } from "../src/text/usage";

const used = (more: Partial<Used>): Used => ({ turns: 1, input: 0, cache_write: 0, cache_read: 0, output: 0, usd: 0, unpriced: 0, ...more });

describe("what turns used", () => {
  it.each([
    [used({ turns: 0 }), "", ""],
    [used({}), "", ""], // it failed before it used anything
    [used({ input: 10, output: 2, unpriced: 1 }), "", "12 tokens"],
    [used({ input: 10, usd: 0.75 }), "$0.75", "$0.75"],
    [used({ turns: 2, input: 10, usd: 0.75, unpriced: 1 }), "$0.75+", "$0.75+"],
    [used({ input: 10, usd: 0.001 }), "<$0.01", "<$0.01"],
    [used({ turns: 9, input: 10, unpriced: 3 }), "", "10 tokens"], // the others used nothing
  ])("%j is %j, %j", (of, price, words) => {
    expect(dollars(of)).toBe(price);
    expect(short(of)).toBe(words);
  });

  it("says all of it, and what is missing", () => {
    expect(said(used({ turns: 3, input: 1000, cache_write: 200, cache_read: 30_000, output: 40, usd: 1.5, unpriced: 1 }))).toBe("$1.50+ (1 told no price) · 1.2k fresh, 30k cached, 40 output tokens · 3 turns");
    expect(said(used({ input: 10, unpriced: 1 }))).toBe("no price told · 10 fresh, 0 cached, 0 output tokens · 1 turn");
  });
});
