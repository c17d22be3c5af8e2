/** What a review shows, worked out of git's text. Pure. */

import type { FileDiff } from "../text/diff";
import type { Draft, Lines, Side } from "./types";

/** A line as it stands in one column: its number there, its text, and where it has it, its coloured markup. */
export interface Cell {
  side: Side;
  no: number;
  kind: "same" | "add" | "remove";
  text: string;
  html?: string | undefined;
}

/** A row: of a hunk's head, or of lines. Unified, one of the two cells is what is shown; `note`: what git says of a line. */
export type Row =
  | { head: string; within: string }
  | { note: string }
  | { old: Cell | null; new: Cell | null };

export const isLines = (row: Row): row is { old: Cell | null; new: Cell | null } => "old" in row;

/** The rows of a file: `split` has what was there before beside what is there now. */
export function rowsOf(file: FileDiff, split: boolean): Row[] {
  const rows: Row[] = [];
  for (const hunk of file.hunks) {
    rows.push({ head: hunk.head, within: hunk.within });
    let [gone, come]: [Cell[], Cell[]] = [[], []];
    const flush = (): void => {
      if (split) for (let i = 0; i < Math.max(gone.length, come.length); i++) rows.push({ old: gone[i] ?? null, new: come[i] ?? null });
      else rows.push(...gone.map((old) => ({ old, new: null })), ...come.map((now) => ({ old: null, new: now })));
      [gone, come] = [[], []];
    };
    for (const line of hunk.lines) {
      if (line.kind === "remove") {
        if (come.length) flush();
        gone.push({ side: "old", no: line.old!, kind: "remove", text: line.text });
      } else if (line.kind === "add") come.push({ side: "new", no: line.new!, kind: "add", text: line.text });
      else {
        flush();
        if (line.kind === "note") rows.push({ note: line.text });
        else rows.push({ old: { side: "old", no: line.old!, kind: "same", text: line.text }, new: { side: "new", no: line.new!, kind: "same", text: line.text } });
      }
    }
    flush();
  }
  return rows;
}

/** What a row is a comment's line of, in one column. */
export const cellOf = (row: Row, side?: Side): Cell | null => (isLines(row) ? (side ? row[side] : (row.new ?? row.old)) : null);

/** The texts of the hunks on one side, to be coloured: of each hunk its lines in one text. */
export const hunkTexts = (file: FileDiff, side: Side): string[] =>
  file.hunks.map((hunk) => hunk.lines.filter((line) => line[side] !== null && line.kind !== "note").map((line) => line.text).join("\n"));

/** The numbers of the lines that `hunkTexts` has, in its order. */
export const hunkNumbers = (file: FileDiff, side: Side): number[][] =>
  file.hunks.map((hunk) => hunk.lines.filter((line) => line[side] !== null && line.kind !== "note").map((line) => line[side]!));

/** The text of each line of a side that the difference shows. */
export function linesShown(file: FileDiff, side: Side): Map<number, string> {
  const found = new Map<number, string>();
  for (const hunk of file.hunks) for (const line of hunk.lines) if (line.kind !== "note" && line[side] !== null) found.set(line[side]!, line.text);
  return found;
}

/** Do these lines stand in what is shown, from this line on? */
export const standsAt = (shown: ReadonlyMap<number, string>, of: Lines, first: number): boolean =>
  of.lines.every((line, i) => shown.get(first + i) === line.replace(/\r$/, "") || shown.get(first + i) === line);

/** Where the last line of a draft is shown; null: the lines are others now. */
export const shownAt = (shown: ReadonlyMap<number, string>, of: Lines): number | null => (standsAt(shown, of, of.first) ? of.last : null);

/** A new draft on the lines from one to another of a side. */
export function draftOn(path: string, side: Side, blob: string, shown: ReadonlyMap<number, string>, from: number, to: number): Draft | null {
  const [first, last] = from <= to ? [from, to] : [to, from];
  const lines: string[] = [];
  for (let no = first; no <= last; no++) {
    const text = shown.get(no);
    if (text === undefined) return null;
    lines.push(text);
  }
  return { id: `${Date.now().toString(36)}-${path.length}-${first}-${last}`, path, side, blob, first, last, lines, text: "", suggestion: null };
}

/** A draft with the lines from one to another instead of its own: what it says stays, and lines that it has anew are suggested as they are. */
export function grown(draft: Draft, shown: ReadonlyMap<number, string>, from: number, to: number): Draft | null {
  const made = draftOn(draft.path, draft.side, draft.blob, shown, from, to);
  if (!made) return null;
  const above = made.lines.slice(0, Math.max(0, draft.first - made.first));
  const below = made.lines.slice(Math.max(0, draft.last - made.first + 1));
  const suggestion = draft.suggestion === null ? null : [...above, draft.suggestion, ...below].join("\n");
  return { ...made, id: draft.id, text: draft.text, suggestion };
}

/** Does a draft say anything? */
export const saysSomething = (draft: Draft): boolean => draft.text.trim() !== "" || (draft.suggestion !== null && draft.suggestion !== draft.lines.join("\n"));

/** A draft as the room takes it. */
export const asked = (draft: Draft): object => ({
  path: draft.path,
  side: draft.side,
  first: draft.first,
  last: draft.last,
  blob: draft.blob,
  text: draft.text.trim(),
  // One more line end: else an empty line would be no line.
  suggestion: draft.suggestion === null ? null : draft.suggestion === "" ? "" : `${draft.suggestion}\n`,
});

/** The address that opens a line in an editor; "" where there is none. The room has checked the template; this looks once more that no browser runs it. */
export function editorLink(template: string, root: string, path: string, line: number): string {
  if (!/^(?!(?:javascript|data|vbscript|blob|file|https?|wss?|ftp|about):)[a-z][a-z0-9+.-]*:\/\//.test(template)) return "";
  const absolute = `${root}/${path}`.split("/").map(encodeURIComponent).join("/");
  return template.replace("{path}", () => absolute).replace("{line}", () => String(line));
}

/** What is said of a file's mode where it changed. */
export const modeSaid = (file: { old_mode: string | null; new_mode: string | null }): string =>
  file.old_mode && file.new_mode && file.old_mode !== file.new_mode ? `mode ${file.old_mode} → ${file.new_mode}` : "";

/** The name of a language by a file's ending, as highlight.js has it. */
export function languageOf(path: string): string {
  const name = path.split("/").at(-1)!.toLowerCase();
  return name === "dockerfile" ? name : (/\.([a-z0-9+]+)$/.exec(name)?.[1] ?? "");
}
