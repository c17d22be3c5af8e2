import { describe, expect, it } from "vitest";
import { betterFirst, fewPaths, mergeSentence, mergeWords, place, plan, setsBack, undoesWords } from "../src/state/merging";
import type { Worktree } from "../src/worktree_types";

const tree = { agent: "AVA", merges: "clean" as const, into: "main", conflicts: [] as string[] };
const back = (agent: string, ...others: string[]) => ({ agent, first: "", sets_back: others.map((name) => ({ agent: name, paths: ["a.py"] })) });

describe("what a merge would do", () => {
  it("is said with the branch that it would really go into, the files and the lines", () => {
    expect(mergeWords(tree)).toBe("merges clean into main");
    const lines: Record<string, [number, number][]> = { "a.py": [[3, 9], [12, 12]], "b.py": [[4, 4]] };
    const torn = { ...tree, merges: "conflicts" as const, into: "release", conflicts: ["a.py", "b.py", "c.py", "d.py"], lines };
    expect(mergeWords(torn)).toBe("conflicts with release in a.py (lines 3-9, 12), b.py (line 4), c.py and 1 more");
    expect(place(torn, "c.py")).toBe("c.py");
    expect(mergeWords({ ...torn, conflicts: ["b.py"], unsettled: true })).toBe("conflicts not settled in b.py (line 4)");
    expect(mergeWords({ ...tree, merges: "nothing" })).toBe("nothing to merge");
    expect(mergeWords({ ...tree, merges: "nothing", landed: "1".repeat(40) })).toBe("nothing to merge: main has all of it");
    expect(mergeWords({ ...tree, merges: null, into: null })).toBe("git cannot tell whether it merges into the main branch");
    expect(fewPaths([])).toBe("");
  });

  it("is told in the dialog in the same words, and calls nothing merged that conflicts or only joins", () => {
    const behind = { branch: "b", ahead: 1, behind: 2, files: 1, insertions: 1, deletions: 0, dirty: false, own: true, path: "p" };
    const told = (more: object) => plan({ ...tree, ...behind, ...more } as unknown as Worktree);
    const joined = [{ path: "a.py", by: ["imports"], how: "imports" }];
    expect(told({})).toContain("Merges clean into main.");
    expect(told({ merges: "joins", joined })).toContain("Merges into main; relay joins a.py by imports.");
    const torn = told({ merges: "conflicts", conflicts: ["a.py"] });
    expect(torn).toContain("Conflicts with main in a.py.");
    expect(torn).toContain("Nothing is merged before that is settled.");
    expect(told({ merges: null })).toContain("git cannot tell whether it merges into main.");
    for (const line of [...torn, ...told({ merges: "joins", joined })]) expect(line).not.toMatch(/git merges|merges clean/i);
    expect(mergeSentence({ ...tree, merges: "nothing", landed: "1".repeat(40) })).toBe("Nothing to merge: main has all of it.");
  });

  it("says what of others it brings back, and undoes", () => {
    const undoes = [
      { agent: "ann", path: "a.py", commit: "1", did: "took back" as const },
      { agent: "BEN", path: "b.py", commit: "2", did: "landed" as const },
    ];
    expect(undoesWords({ undoes })).toEqual(["This would bring back what ann took back in `a.py`.", "This would undo what BEN landed in `b.py`."]);
    expect(undoesWords({})).toEqual([]);
  });

  it("names whom it sets back", () => {
    expect(setsBack(tree)).toEqual([]);
    expect(setsBack({ ...tree, collides: [{ agent: "BEN", paths: ["src/cart.py"] }] })).toEqual([
      "This sets BEN back: it will conflict with main in `src/cart.py`, and has to merge main into its branch.",
    ]);
  });

  it("offers the better order only where fewer are set back", () => {
    const collides = [{ agent: "AVA", paths: ["a.py"] }, { agent: "DEE", paths: ["b.py"] }];
    const turns = [back("AVA", "BEN"), back("DEE"), { ...back("BEN"), first: "merge main into its branch" }];
    expect(betterFirst({ ...tree, agent: "BEN", collides }, turns)).toBe("Better merge AVA first: then fewer are set back.");
    expect(betterFirst({ ...tree, collides: [{ agent: "BEN", paths: ["a.py"] }] }, turns)).toBe("");
    // Of two, either order sets one back.
    expect(betterFirst({ ...tree, agent: "BEN", collides: collides.slice(0, 1) }, [back("AVA", "BEN"), { ...back("BEN"), first: "merge main into its branch" }])).toBe("");
  });
});
