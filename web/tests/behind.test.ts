import { describe, expect, it } from "vitest";
import { byLine, meaning } from "../src/text/behind";
import type { BlamedLines } from "../src/worktree_types";

const one: BlamedLines = { first: 2, last: 4, kind: "merged", who: "BEN", commit: "0123456789abcdef", at: "2026-11-24T00:00:00+00:00", subject: "Merge it" };

describe("who is behind a line", () => {
  it("is known by its number, for every line of a range and no other", () => {
    const told = byLine([one, { ...one, first: 7, last: 7, kind: "person", who: "Ann" }]);
    expect([...told.keys()]).toEqual([2, 3, 4, 7]);
    expect(told.get(3)).toBe(one);
    expect(told.get(7)!.who).toBe("Ann");
  });

  it("is said in words, a sentence for each kind", () => {
    const words = (["agent", "person", "merged", "ai_resolved"] as const).map((kind) => meaning({ ...one, kind }));
    expect(words).toEqual([
      "Agent BEN (012345678, 2026-11-24: Merge it)",
      "BEN (012345678, 2026-11-24: Merge it)",
      "Made of both sides when BEN’s work was joined (012345678, 2026-11-24: Merge it)",
      "Written by BEN where both sides had changed the same (012345678, 2026-11-24: Merge it)",
    ]);
  });
});
