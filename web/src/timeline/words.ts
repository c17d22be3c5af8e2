/** Events in words, from what the table holds of them. */

import type { EventTable, Place } from "./columns";
import { KINDS } from "./kinds";

/** A row of nobody's: the main branch, and who is not known. */
export const isNobody = (name: string): boolean => /^(main|unknown|room)$/.test(name);

const dayFormat = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const timeFormat = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

/** "14:02:11", with the day where that is not today. */
export function when(at: number, now = Date.now()): string {
  const today = new Date(at).toDateString() === new Date(now).toDateString();
  const year = new Date(at).getFullYear() === new Date(now).getFullYear() ? "" : ` ${new Date(at).getFullYear()}`;
  return `${today ? "" : `${dayFormat.format(at)}${year} `}${timeFormat.format(at)}`;
}

/** What was done to a worktree, and what a read was, by their words. */
const CHANGES: Readonly<Record<string, string>> = {
  created: "got a worktree and a branch", recreated: "got its worktree anew", merged: "was merged into the main branch", taken_in: "took the main branch in",
  taking: "conflicts with the main branch while taking it in", conflicted: "cannot be merged: it conflicts with the main branch", unsettled: "has conflicts to settle",
  forwarded: "moved on to the main branch", discarded: "had its work discarded", restored: "had its work brought back", removed: "lost its worktree", aborted: "gave up taking the main branch in",
};
const READS: Readonly<Record<string, string>> = { merge: "took the main branch in", start: "was seen for the first time", handoff: "got what was handed on", retry: "began again from the snapshot" };

/** What it is about: "src/app.py and 2 more", a checkpoint's name, a branch's change. */
export function about(table: EventTable, { block, i }: Place): string {
  const [file, word, files] = [block.file[i]!, block.word[i]!, block.files[i]!];
  const kind = KINDS[block.kind[i]!]!.id;
  if (file >= 0 && (kind === "write" || kind === "unseen" || kind === "read")) return `${table.paths.texts[file]}${files > 1 ? ` and ${files - 1} more` : ""}`;
  if (kind === "conflict" || kind === "settled") return [word >= 0 ? `with ${table.words.texts[word]}` : "", file >= 0 ? `in ${table.paths.texts[file]}${files > 1 ? ` and ${files - 1} more` : ""}` : ""].filter(Boolean).join(" ");
  if (word < 0) return "";
  const said = table.words.texts[word]!;
  if (kind === "handoff") return `to ${said}`;
  if (kind === "rewind" || kind === "undo" || kind === "redo") return `of ${said}`;
  if (kind === "checkpoint") return `“${said}”`;
  if (kind === "worktree") return `(${said})`;
  return "";
}

export const kindId = ({ block, i }: Place): string => KINDS[block.kind[i]!]!.id;
export const nameOf = (table: EventTable, { block, i }: Place): string => table.who.texts[block.who[i]!]!;

/** "changed src/app.py and 2 more": without the name. */
export function deed(table: EventTable, place: Place): string {
  const of = about(table, place);
  const word = table.words.texts[place.block.word[place.i]!] ?? "";
  const kind = kindId(place);
  if (kind === "read" && (READS[word] || !of)) return [READS[word] ?? "was seen as it stood", of].filter(Boolean).join(": ");
  // Of a worktree: it names no file.
  if (place.block.files[place.i] === 0 && CHANGES[word] && (kind === "branch" || kind === "merge" || kind === "worktree" || kind === "conflict")) return CHANGES[word];
  const blind = kind === "unseen" ? ", not having seen another's change" : "";
  return `${KINDS[place.block.kind[place.i]!]!.verb}${of && ` ${of}`}${blind}`;
}

export const sentence = (table: EventTable, place: Place): string => `${nameOf(table, place)} ${deed(table, place)}, ${when(place.block.at[place.i]!)}`;
