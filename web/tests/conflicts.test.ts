import { describe, expect, it } from "vitest";
import { beginWith, compared, differing, languageOf, rowsOf, standing, steps } from "../src/conflicts/lines";
import type { Conflict } from "../src/conflicts/types";

const side = (lane: string | null, after: string) => ({ lane, intent: null, before: "x = 1\n", after });
const conflict = (more: Partial<Conflict> = {}): Conflict => ({
  id: "1", number: 1, reference: "c1", level: 2, kind: "both changed it differently", severity: "medium", path: "a.py", whole: false, entity: null,
  a: side("AVA", "x = 2"), b: side("BEN", "x = 3\n"), base: "x = 1\n", state: "open", agent: "BEN", into: "main", resolution: null, at: "", ...more,
});

describe("what a side made of the base", () => {
  it("has a last line end that begins no line", () => {
    expect([rowsOf("a\nb\n"), rowsOf("a\nb"), rowsOf(""), rowsOf("\n")]).toEqual([["a", "b"], ["a", "b"], [], [""]]);
  });
  it("says which lines are new, which are gone, and which stay", () => {
    const told = compared(["a", "b", "c"], ["a", "x", "y", "c"]);
    expect(told.gone).toEqual([false, true, false]);
    expect(told.rows.map((row) => row.changed)).toEqual([false, true, true, false]);
    expect(told.rows.every((row) => row.mark === null), "two lines stand in the place of one").toBe(true);
  });
  it("marks the words that differ where a line stands in the place of one", () => {
    const { rows } = compared(["  return load(path)"], ["  return loads(path)"]);
    expect("  return loads(path)".slice(...rows[0]!.mark!)).toBe("loads");
    expect(differing("abc", "xyz")).toBeNull();
    expect(differing("f(a)", "f(a, b)")).toEqual([3, 6]);
  });
  it("is all new beside nothing, and takes very long texts as changed whole", () => {
    expect(compared([], ["a"]).rows[0]!.changed).toBe(true);
    const long = Array.from({ length: 2001 }, (_, i) => `${i}`);
    expect(compared(long, long).rows.every((row) => row.changed)).toBe(true);
  });
});

describe("a text of one's own", () => {
  it("begins with a side, the base, or both, each on lines of its own", () => {
    expect((["base", "ours", "theirs", "both"] as const).map((what) => beginWith(conflict(), what))).toEqual(["x = 1\n", "x = 2", "x = 3\n", "x = 2\nx = 3\n"]);
  });
});

describe("how a conflict stands", () => {
  const by = (type: "side_chosen" | "human_resolved" | "agent_resolved" | "rejected", more: object) => ({ resolution_type: { type, ...more }, merged_content: "", agent_reasoning: null, confidence: null, validated: false });
  it("is said with who decided", () => {
    expect(standing(conflict())).toBe("Nobody has decided yet.");
    expect(standing(conflict({ state: "resolved", resolution: by("side_chosen", { chosen: "BEN", user_id: "ann" }) }))).toBe("Settled: BEN's side stands, chosen by ann.");
    expect(standing(conflict({ state: "resolved", resolution: by("agent_resolved", { resolver_agent: "BEN" }) }))).toBe("Settled: what BEN wrote stands.");
    expect(standing(conflict({ state: "rejected", resolution: by("rejected", { user_id: "ann" }) }))).toContain("ann keeps both branches apart");
  });
  it("is stepped through from the first open one, with the one that is shown", () => {
    const all = [conflict({ number: 3 }), conflict({ number: 2, state: "resolved" }), conflict({ number: 1 })];
    expect(steps(all, null).map((one) => one.number)).toEqual([1, 3]);
    expect(steps(all, 2).map((one) => one.number)).toEqual([1, 2, 3]);
  });
  it("has the language of its file", () => {
    expect([languageOf("src/a.py"), languageOf("a.h"), languageOf("Makefile"), languageOf("x.toml")]).toEqual(["py", "c", "", "ini"]);
  });
});
