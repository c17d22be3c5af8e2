/** The words of the field, from the table that the terminal and `help` read too. */

import table from "../../../relay/model/terms.json";

export interface Term {
  id: string;
  name: string;
  also: string[];
  text: string;
}

export const TERMS: readonly Term[] = table;
const BY_ID = new Map(TERMS.map((one) => [one.id, one]));

export function term(id: string): Term {
  const found = BY_ID.get(id);
  if (!found) throw new Error(`no term ${id}`);
  return found;
}

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
const BY_WAY = new Map(TERMS.flatMap((one) => [one.name, ...one.also].map((way) => [way, one.id] as const)));
const WAYS = new RegExp(`(?<![\\w/.-])(${[...BY_WAY.keys()].sort((x, y) => y.length - x.length).map(escaped).join("|")})(?![\\w/-]|\\.\\w)`);

/** A text in parts; a part with `id` is a term. */
export function parted(text: string): { text: string; id?: string }[] {
  return text.split(WAYS).flatMap((part, i) => (part === "" ? [] : i % 2 ? [{ text: part, id: BY_WAY.get(part)! }] : [{ text: part }]));
}
