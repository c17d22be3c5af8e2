import { describe, expect, it } from "vitest";
import { lineCount, parseDiff, unquote } from "../src/text/diff";

const one = (text: string) => parseDiff(text)[0]!;

describe("a unified diff", () => {
  it("has numbers on both sides", () => {
    const file = one("diff --git a/x.py b/x.py\nindex 1..2 100644\n--- a/x.py\n+++ b/x.py\n@@ -3,3 +3,4 @@ def f():\n same\n-old\n+new\n+more\n end\n");
    expect(file).toMatchObject({ path: "x.py", change: "modified", insertions: 2, deletions: 1 });
    expect(file.hunks[0]).toMatchObject({ head: "@@ -3,3 +3,4 @@", within: "def f():" });
    expect(file.hunks[0]!.lines.map((l) => [l.kind, l.old, l.new])).toEqual([["same", 3, 3], ["remove", 4, null], ["add", null, 4], ["add", null, 5], ["same", 5, 6]]);
    expect(lineCount(file)).toBe(6);
  });

  it("is not fooled by lines that look like headers", () => {
    const file = one("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- a/y\n+++ b/y\n-diff --git a/z b/z\n+@@ -1 +1 @@\n");
    expect(file.hunks).toHaveLength(1);
    expect(file.hunks[0]!.lines.map((l) => l.text)).toEqual(["-- a/y", "++ b/y", "diff --git a/z b/z", "@@ -1 +1 @@"]);
    expect(file.path).toBe("x");
  });

  it.each([
    ["added", "diff --git a/n b/n\nnew file mode 100644\nindex 0..1\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n", { path: "n", change: "added", insertions: 1 }],
    ["deleted", "diff --git a/n b/n\ndeleted file mode 100644\n--- a/n\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", { path: "n", change: "deleted", deletions: 1 }],
    ["renamed", "diff --git a/o b/n\nsimilarity index 100%\nrename from o\nrename to n\n", { path: "n", from: "o", change: "renamed" }],
    ["binary", "diff --git a/p.png b/p.png\nindex 1..2\nBinary files a/p.png and b/p.png differ\n", { path: "p.png", binary: true }],
    ["a mode", "diff --git a/s b/s\nold mode 100644\nnew mode 100755\n", { path: "s", change: "mode" }],
    ["a space", "diff --git a/a b.txt b/a b.txt\n--- a/a b.txt\t\n+++ b/a b.txt\t\n@@ -1 +1 @@\n-x\n+y\n", { path: "a b.txt" }],
    ["an empty new file", "diff --git a/e b/e\nnew file mode 100644\nindex 0..0\n", { path: "e", change: "added" }],
  ])("reads %s", (_, text, wanted) => expect(one(text)).toMatchObject(wanted));

  it("keeps git's note about the end of the file", () => {
    const lines = one("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n").hunks[0]!.lines;
    expect(lines.map((l) => l.kind)).toEqual(["remove", "note", "add", "note"]);
  });

  it("reads several files, and nothing", () => {
    expect(parseDiff("diff --git a/a b/a\nnew file mode 100644\ndiff --git a/b b/b\nnew file mode 100644\n").map((f) => f.path)).toEqual(["a", "b"]);
    expect(parseDiff("")).toEqual([]);
    expect(parseDiff("not a diff\n")).toEqual([]);
  });

  it("ends where the text was cut off", () => {
    expect(one("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n a\n-b").hunks[0]!.lines).toHaveLength(2);
  });

  it.each([['"a/\\303\\244.py"', "a/ä.py"], ['"a\\tb"', "a\tb"], ["plain", "plain"], ['"q\\"q"', 'q"q']])("unquotes %s", (quoted, path) => expect(unquote(quoted)).toBe(path));
});
