/** Events in words, from what the table holds of them. */

import type { EventTable, Place } from "./columns";
import { KINDS } from "./kinds";

/** A row of nobody's: the main branch, relay, and who is not known. */
export const isNobody = (name: string): boolean => /^(main|someone unknown|room|relay)(@[0-9a-f]{8})?$/.test(name);

const dayFormat = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const timeFormat = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

export const clock = (at: number): string => timeFormat.format(at);

/** "14:02:11", with the day where that is not today. */
export function when(at: number, now = Date.now()): string {
  const today = new Date(at).toDateString() === new Date(now).toDateString();
  const year = new Date(at).getFullYear() === new Date(now).getFullYear() ? "" : ` ${new Date(at).getFullYear()}`;
  return `${today ? "" : `${dayFormat.format(at)}${year} `}${timeFormat.format(at)}`;
}

export const kindId = ({ block, i }: Place): string => KINDS[block.kind[i]!]!.id;
export const nameOf = (table: EventTable, { block, i }: Place): string => table.who.texts[block.who[i]!]!;

/** "wrote 3: src/app.py and 2 more": without the name. The words are the room's, as its log says them. */
export function deed(table: EventTable, { block, i }: Place): string {
  const [file, files] = [block.file[i]!, block.files[i]!];
  const said = table.words.texts[block.word[i]!]!;
  return file < 0 ? said : `${said}: ${table.paths.texts[file]}${files > 1 ? ` and ${files - 1} more` : ""}`;
}

export const sentence = (table: EventTable, place: Place): string => `${nameOf(table, place)} ${deed(table, place)}, ${when(place.block.at[place.i]!)}`;
