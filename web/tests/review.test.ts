import { describe, expect, it } from "vitest";
import { asked, draftOn, editorLink, grown, languageOf, linesShown, modeSaid, rowsOf, shownAt } from "../src/review/model";
import { parseDiff } from "../src/text/diff";

const DIFF = `diff --git a/src/app.py b/src/app.py
index 1..2 100644
--- a/src/app.py
+++ b/src/app.py
@@ -1,5 +1,6 @@ def total():
 one
-two
-three
+TWO
 four
+and
+more
 five
\\ No newline at end of file
`;
const [file] = parseDiff(DIFF);

describe("the rows of a review", () => {
  it("stand one below the other, or beside each other", () => {
    const one = rowsOf(file!, false).map((row) => ("head" in row ? "@" : "note" in row ? "note" : [row.old?.no ?? "", row.new?.no ?? ""].join("|")));
    expect(one).toEqual(["@", "1|1", "2|", "3|", "|2", "4|3", "|4", "|5", "5|6", "note"]);
    const two = rowsOf(file!, true).map((row) => ("head" in row ? "@" : "note" in row ? "note" : [row.old?.text ?? "", row.new?.text ?? ""].join("|")));
    expect(two).toEqual(["@", "one|one", "two|TWO", "three|", "four|four", "|and", "|more", "five|five", "note"]);
  });
});

describe("a draft", () => {
  it("quotes what is shown, in whichever order its lines were chosen, and is shown as long as they stand", () => {
    const shown = linesShown(file!, "new");
    const draft = draftOn("src/app.py", "new", "2", shown, 5, 4)!;
    expect([draft.first, draft.last, draft.lines]).toEqual([4, 5, ["and", "more"]]);
    expect(shownAt(shown, draft)).toBe(5);
    expect(shownAt(new Map([[4, "and"], [5, "less"]]), draft)).toBeNull();
    expect(draftOn("src/app.py", "new", "2", shown, 6, 9)).toBeNull();
  });

  it("grows by lines, and suggests them as they are", () => {
    const shown = linesShown(file!, "new");
    const draft = { ...draftOn("src/app.py", "new", "2", shown, 4, 4)!, text: "x", suggestion: "AND" };
    const more = grown(draft, shown, 3, 5)!;
    expect([more.id, more.first, more.last, more.text, more.suggestion]).toEqual([draft.id, 3, 5, "x", "four\nAND\nmore"]);
    expect(grown(draft, shown, 4, 9)).toBeNull();
  });

  it("suggests no line, an empty line, or some", () => {
    const draft = draftOn("a", "new", "2", linesShown(file!, "new"), 2, 2)!;
    const suggests = (suggestion: string | null): unknown => (asked({ ...draft, suggestion }) as { suggestion: unknown }).suggestion;
    expect([null, "", "\n", "x\ny"].map(suggests)).toEqual([null, "", "\n\n", "x\ny\n"]);
  });
});

describe("the way to an editor", () => {
  it("names the file and the line, and nothing that a browser runs", () => {
    expect(editorLink("vscode://file{path}:{line}", "/w/ava", "src/a b#.py", 7)).toBe("vscode://file/w/ava/src/a%20b%23.py:7");
    expect(editorLink("idea://open?file={path}&line={line}", "/w", "$&.py", 1)).toBe("idea://open?file=/w/%24%26.py&line=1");
    for (const bad of ["", "javascript://x{path}", "https://x{path}", "{path}", "JavaScript://{path}"]) expect(editorLink(bad, "/w", "a", 1)).toBe("");
  });
});

it("says a mode that changed, and what a file is written in", () => {
  expect(modeSaid({ old_mode: "100644", new_mode: "100755" })).toBe("mode 100644 → 100755");
  expect(modeSaid({ old_mode: null, new_mode: "100755" })).toBe("");
  expect(["a/b.py", "Dockerfile", "x", "a.d/x"].map(languageOf)).toEqual(["py", "dockerfile", "", ""]);
});
