/** Unified diff text, as git writes it, read into files, hunks and lines. Pure; what it cannot read it shows as it is. */

export interface DiffLine {
  kind: "same" | "add" | "remove" | "note";
  /** Line numbers before and after; null where the line is not there. */
  old: number | null;
  new: number | null;
  text: string;
}

export interface Hunk {
  head: string;
  /** What git says the hunk is in. */
  within: string;
  lines: DiffLine[];
}

export interface FileDiff {
  path: string;
  /** The path before a rename. */
  from: string | null;
  change: "modified" | "added" | "deleted" | "renamed" | "copied" | "mode";
  binary: boolean;
  insertions: number;
  deletions: number;
  hunks: Hunk[];
}

/** git quotes a path with bytes outside ASCII as a C string, in octal. */
export function unquote(path: string): string {
  if (!path.startsWith('"')) return path;
  const bytes: number[] = [];
  const escapes: Record<string, number> = { n: 10, t: 9, r: 13, '"': 34, "\\": 92, a: 7, b: 8, f: 12, v: 11 };
  const inside = path.slice(1, path.endsWith('"') ? -1 : undefined);
  for (let i = 0; i < inside.length; i++) {
    if (inside[i] !== "\\") {
      bytes.push(...new TextEncoder().encode(inside[i]!));
      continue;
    }
    const octal = /^[0-7]{3}/.exec(inside.slice(i + 1))?.[0];
    bytes.push(octal ? parseInt(octal, 8) : (escapes[inside[i + 1]!] ?? inside.charCodeAt(i + 1)));
    i += octal ? 3 : 1;
  }
  return new TextDecoder().decode(new Uint8Array(bytes));
}

const side = (text: string, prefix: string): string | null => {
  const path = unquote(text.replace(/\t.*$/, ""));
  return path === "/dev/null" ? null : path.startsWith(prefix) ? path.slice(2) : path;
};

/** From `diff --git a/x b/x`: both halves are the same unless the file was renamed, and then other lines say it. */
function fromHead(line: string): string {
  const rest = line.slice("diff --git ".length);
  if (rest.startsWith('"')) return side(/("(?:[^"\\]|\\.)*")\s*$/.exec(rest)?.[1] ?? rest, "b/") ?? rest;
  const half = rest.slice(0, (rest.length - 1) / 2);
  return half.startsWith("a/") ? half.slice(2) : (/ b\/(.*)$/.exec(rest)?.[1] ?? rest);
}

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$/;

export function parseDiff(text: string): FileDiff[] {
  const files: FileDiff[] = [];
  let file: FileDiff | null = null;
  let hunk: Hunk | null = null;
  // What of the hunk is still to come: so a line of the file that looks like a header is not taken for one.
  let [oldLeft, newLeft, oldAt, newAt] = [0, 0, 0, 0];
  const open = (path: string): FileDiff => {
    const made: FileDiff = { path, from: null, change: "modified", binary: false, insertions: 0, deletions: 0, hunks: [] };
    files.push(made);
    hunk = null;
    [oldLeft, newLeft] = [0, 0];
    return made;
  };
  const lines = text.split("\n");
  if (lines[lines.length - 1] === "") lines.pop();
  for (const line of lines) {
    if (file && hunk && (oldLeft > 0 || newLeft > 0)) {
      const h: Hunk = hunk;
      const rest = line.slice(1);
      if (line.startsWith("+")) {
        h.lines.push({ kind: "add", old: null, new: newAt++, text: rest });
        newLeft--;
        file.insertions++;
        continue;
      }
      if (line.startsWith("-")) {
        h.lines.push({ kind: "remove", old: oldAt++, new: null, text: rest });
        oldLeft--;
        file.deletions++;
        continue;
      }
      if (line.startsWith(" ") || line === "") {
        h.lines.push({ kind: "same", old: oldAt++, new: newAt++, text: rest });
        oldLeft--;
        newLeft--;
        continue;
      }
    }
    if (line.startsWith("\\") && hunk) {
      (hunk as Hunk).lines.push({ kind: "note", old: null, new: null, text: line.slice(2) });
      continue;
    }
    if (line.startsWith("diff --git ")) {
      file = open(fromHead(line));
      continue;
    }
    const head = HUNK.exec(line);
    if (head && file) {
      [oldAt, newAt] = [Number(head[1]), Number(head[3])];
      [oldLeft, newLeft] = [Number(head[2] ?? 1), Number(head[4] ?? 1)];
      hunk = { head: line.slice(0, line.length - head[5]!.length).trim(), within: head[5]!, lines: [] };
      file.hunks.push(hunk);
      continue;
    }
    if (!file || hunk) continue;
    if (line.startsWith("new file mode")) file.change = "added";
    else if (line.startsWith("deleted file mode")) file.change = "deleted";
    else if (line.startsWith("rename from ")) [file.change, file.from] = ["renamed", unquote(line.slice(12))];
    else if (line.startsWith("rename to ")) file.path = unquote(line.slice(10));
    else if (line.startsWith("copy from ")) [file.change, file.from] = ["copied", unquote(line.slice(10))];
    else if (line.startsWith("copy to ")) file.path = unquote(line.slice(8));
    else if (line.startsWith("new mode") && file.change === "modified") file.change = "mode";
    else if (line.startsWith("Binary files ") || line === "GIT binary patch") file.binary = true;
    else if (line.startsWith("index ") && file.change === "mode") file.change = "modified";
    else if (line.startsWith("+++ ")) file.path = side(line.slice(4), "b/") ?? file.path;
    else if (line.startsWith("--- ")) file.path = side(line.slice(4), "a/") ?? file.path;
  }
  return files;
}

export const lineCount = (file: FileDiff): number => file.hunks.reduce((n, hunk) => n + hunk.lines.length + 1, 0);
