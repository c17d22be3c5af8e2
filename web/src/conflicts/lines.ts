/** What two sides made of the lines that both began from; pure. */

import type { Conflict } from "./types";

/** Lines beyond which a side is shown as changed whole: comparing takes the product of both lengths. */
const MOST_LINES = 2000;

/** The lines of a text; its last line end begins no further one. */
export function rowsOf(text: string): string[] {
  const rows = text.split("\n");
  if (rows[rows.length - 1] === "") rows.pop();
  return rows;
}

/** A line of a side. `mark`: the characters that differ from the line in whose place it stands, where there is one. */
export interface Row {
  text: string;
  changed: boolean;
  mark: readonly [number, number] | null;
}

/** What of `before` is not in `after`, and what of `after` is new. */
export function compared(before: readonly string[], after: readonly string[]): { gone: boolean[]; rows: Row[] } {
  const common = longest(before, after);
  const gone = before.map(() => true);
  const rows: Row[] = after.map((text) => ({ text, changed: true, mark: null }));
  let [i, j] = [0, 0];
  for (const [x, y] of [...common, [before.length, after.length] as const]) {
    // As many lines for as many: each stands in the place of one.
    if (x - i === y - j) for (let k = 0; k < x - i; k++) rows[j + k]!.mark = differing(before[i + k]!, after[j + k]!);
    if (x < before.length) gone[x] = false;
    if (y < after.length) rows[y]!.changed = false;
    [i, j] = [x + 1, y + 1];
  }
  return { gone, rows };
}

/** The places of a longest common part, in order. */
function longest(a: readonly string[], b: readonly string[]): (readonly [number, number])[] {
  if (a.length > MOST_LINES || b.length > MOST_LINES) return [];
  const width = b.length + 1;
  const lengths = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      lengths[i * width + j] = a[i] === b[j] ? lengths[(i + 1) * width + j + 1]! + 1 : Math.max(lengths[(i + 1) * width + j]!, lengths[i * width + j + 1]!);
  const found: (readonly [number, number])[] = [];
  let [i, j] = [0, 0];
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) found.push([i++, j++]);
    else if (lengths[(i + 1) * width + j]! >= lengths[i * width + j + 1]!) i++;
    else j++;
  }
  return found;
}

/** The characters of `after` between what it begins and ends with as `before` does; null when that is all or nothing. */
export function differing(before: string, after: string): readonly [number, number] | null {
  const most = Math.min(before.length, after.length);
  let start = 0;
  while (start < most && before[start] === after[start]) start++;
  let end = 0;
  while (end < most - start && before[before.length - 1 - end] === after[after.length - 1 - end]) end++;
  // Words are marked whole.
  while (start > 0 && /\w/.test(after[start - 1]!) && /\w/.test(after[start] ?? "")) start--;
  while (end > 0 && /\w/.test(after[after.length - end]!) && /\w/.test(after[after.length - end - 1] ?? "")) end--;
  const stop = after.length - end;
  return stop > start && (start > /^\s*/.exec(after)![0].length || end > 0) ? [start, stop] : null;
}

/** What a text of one's own may begin with. */
export type Beginning = "base" | "ours" | "theirs" | "both";

export function beginWith(conflict: Conflict, what: Beginning): string {
  const both = [conflict.a.after, conflict.b.after].map((text) => (text && !text.endsWith("\n") ? `${text}\n` : text));
  return { base: conflict.base, ours: conflict.a.after, theirs: conflict.b.after, both: both.join("") }[what];
}

/** Whose side the branch's own is: `AVA`, or the branch where that is not known. */
export const oursName = (conflict: Conflict): string => conflict.a.lane ?? conflict.into;
export const theirsName = (conflict: Conflict): string => conflict.agent;

/** How it stands, in words. */
export function standing(conflict: Conflict): string {
  const by = conflict.resolution?.resolution_type;
  switch (conflict.state) {
    case "open": return "Nobody has decided yet.";
    case "gone": return "A side has changed its lines since: there is nothing to decide here any more.";
    case "rejected": return `${by?.user_id ?? "Somebody"} keeps both branches apart: nothing of ${conflict.agent}'s is merged.`;
    case "resolved":
      if (by?.type === "side_chosen") return `Settled: ${by.chosen}'s side stands, chosen by ${by.user_id}.`;
      return `Settled: what ${by?.resolver_agent ?? by?.user_id ?? "somebody"} wrote stands.`;
  }
}

/** The conflicts that are stepped through: those that are open, and the one that is shown. The first number first. */
export function steps(all: readonly Conflict[], shown: number | null): Conflict[] {
  return all.filter((one) => one.state === "open" || one.number === shown).sort((a, b) => a.number - b.number);
}

/** highlight.js' name of a file's language; "" = none. */
export function languageOf(path: string): string {
  const end = /\.(\w+)$/.exec(path)?.[1]?.toLowerCase() ?? "";
  return { h: "c", hpp: "cpp", cc: "cpp", hh: "cpp", mjs: "js", cjs: "js", toml: "ini", html: "xml", svg: "xml", vue: "xml" }[end] ?? end;
}
