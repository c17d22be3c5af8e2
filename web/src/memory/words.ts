/** How the page says what memories are. Pure. */

import type { KnowledgeEntry, Source } from "./types";

/** The kinds of knowledge, in the order of docs/memory.md. */
export const KNOWLEDGE_KINDS: readonly string[] = ["decision", "fact", "constraint", "pattern", "problem", "solution", "contract", "configuration"];

/** What stands in the spot of each kind: no two are alike, so that nobody needs the colour. */
const SIGNS: Readonly<Record<string, string>> = { decision: "D", fact: "F", constraint: "C", pattern: "P", problem: "!", solution: "S", contract: "§", configuration: "=" };
export const signOf = (kind: string): string => SIGNS[kind] ?? "?";

/** A relation as a sentence, from its source and from its target. */
const RELATIONS: Readonly<Record<string, readonly [string, string]>> = {
  supports: ["supports", "is supported by"],
  contradicts: ["contradicts", "is contradicted by"],
  supersedes: ["replaces", "is replaced by"],
  derived_from: ["comes from", "is the origin of"],
  implements: ["implements", "is implemented by"],
  depends_on: ["depends on", "is needed by"],
  solves: ["solves", "is solved by"],
};

/** What `relation` is, said of its source; `turned`: of its target. */
export function relationWords(relation: string, turned = false): string {
  return RELATIONS[relation]?.[turned ? 1 : 0] ?? relation.replaceAll("_", " ");
}

/** The topic of what says only that a file was changed. */
const CHANGED = "file_modification";

/** The one file that an entry says was changed; empty for any other entry. */
export const fileOf = (entry: KnowledgeEntry): string => (entry.topics.includes(CHANGED) ? entry.related_files[0] ?? "" : "");

/** Entries in their order, with all changes of one file together where the first of them stands. */
export function folded(entries: readonly KnowledgeEntry[]): KnowledgeEntry[][] {
  const files = new Map<string, KnowledgeEntry[]>();
  const groups: KnowledgeEntry[][] = [];
  for (const entry of entries) {
    const file = fileOf(entry);
    const others = file ? files.get(file) : undefined;
    if (others) {
      others.push(entry);
      continue;
    }
    const group = [entry];
    groups.push(group);
    if (file) files.set(file, group);
  }
  return groups;
}

const HOURS: Readonly<Record<string, number>> = { day: 24, week: 168, month: 720, year: 8766 };
export const TIMES: readonly { id: string; name: string }[] = [
  { id: "", name: "Any time" },
  { id: "day", name: "Last 24 hours" },
  { id: "week", name: "Last 7 days" },
  { id: "month", name: "Last 30 days" },
  { id: "year", name: "Last year" },
];

/** When a time of `TIMES` begins, as ISO 8601; empty for any. */
export function since(time: string, now: number): string {
  const hours = HOURS[time];
  return hours ? new Date(now - hours * 3_600_000).toISOString() : "";
}

/** What opens where a memory comes from; empty where nothing does. */
export function sourceWords(source: Source | null): string {
  if (!source) return "";
  if (source.message) return "Open the message";
  if (source.task !== null) return `Open task t${source.task}`;
  if (source.event !== null) return source.type.startsWith("turn.") ? "Open the turn" : "Open the change";
  return "Files at that moment";
}

/** The words of a question that these pieces of them stand for, as they were typed: of `PostgreSQL` the room looks for
 * its parts. */
export function asTyped(pieces: readonly string[], question: string): string[] {
  const typed = question.match(/[\p{L}\p{M}\p{N}]+/gu) ?? [];
  const whole = (piece: string): string => typed.find((word) => word.toLowerCase() === piece) ?? typed.find((word) => word.toLowerCase().includes(piece)) ?? piece;
  return [...new Set(pieces.map(whole))];
}

export interface Part {
  text: string;
  marked: boolean;
}

/** A text in parts: its words that are among `marks` (small), and what stands between. */
export function markedParts(text: string, marks: readonly string[]): Part[] {
  if (!marks.length) return [{ text, marked: false }];
  const wanted = new Set(marks);
  const parts: Part[] = [];
  for (const piece of text.split(/([\p{L}\p{M}\p{N}_]+)/u)) {
    const marked = wanted.has(piece.toLowerCase());
    const last = parts.at(-1);
    if (last && last.marked === marked) last.text += piece;
    else if (piece) parts.push({ text: piece, marked });
  }
  return parts;
}
