/** Events in words, from what the table holds of them. */

import type { EventTable, Place } from "./columns";
import { KINDS } from "./kinds";

const dayFormat = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const timeFormat = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

/** "14:02:11", with the day where that is not today. */
export function when(at: number, now = Date.now()): string {
  const today = new Date(at).toDateString() === new Date(now).toDateString();
  const year = new Date(at).getFullYear() === new Date(now).getFullYear() ? "" : ` ${new Date(at).getFullYear()}`;
  return `${today ? "" : `${dayFormat.format(at)}${year} `}${timeFormat.format(at)}`;
}

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
  // What the log learnt of a tree, and nobody's reading of a file.
  if (kindId(place) === "read" && !of) return "stood at a tree that the log had not known";
  const blind = kindId(place) === "unseen" ? ", not having seen another's change" : "";
  return `${KINDS[place.block.kind[place.i]!]!.verb}${of && ` ${of}`}${blind}`;
}

export const sentence = (table: EventTable, place: Place): string => `${nameOf(table, place)} ${deed(table, place)}, ${when(place.block.at[place.i]!)}`;
