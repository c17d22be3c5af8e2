/** What the airspace's view says of links and of how true advisories were. Pure. */

import type { Advisory, Counted, Link, Precision, Reading } from "../airspace_types";

/** Channels of a link, the greatest share of risk first. Without readings only the risk is known. */
export function readings(link: Link): [string, Partial<Reading> & { risk: number }][] {
  const named = Object.entries(link.channels).map(([name, risk]): [string, Partial<Reading> & { risk: number }] => [
    name,
    { risk, ...link.readings?.[name] },
  ]);
  return named.sort(([, x], [, y]) => y.risk * (y.weight ?? 1) - x.risk * (x.weight ?? 1));
}

/** What the channels of docs/airspace.md are called; one of a later version goes by its own name. */
const CHANNELS: Readonly<Record<string, string>> = {
  overlap: "Same lines",
  dependency: "Imports",
  words: "What both were asked",
  tree: "Neighbouring files",
  symbol: "Changed symbol that the other uses",
  calls: "Calls",
  tests: "Shared tests",
  nearness: "Nearby lines",
  churn: "Files that often change",
  size: "Size of the work",
  intent: "Announced intent",
  merge: "Trial merge",
};

export const channelName = (name: string): string => CHANNELS[name] ?? name;

/** "12 of 13 true, 3 averted, 2 open". Counts, and no rate of nothing. */
export function precisionLine(p: Counted | null): string {
  if (!p) return "no outcome known yet";
  const known = p.true + p.false;
  const parts = [
    known ? `${p.true} of ${known} true` : "no outcome known yet",
    p.averted ? `${p.averted} averted` : "",
    p.open ? `${p.open} open` : "",
    p.useful ? `${p.useful} marked useful` : "",
    p.noise ? `${p.noise} marked noise` : "",
  ];
  return parts.filter(Boolean).join(", ");
}

export type Verdict = "open" | "true" | "false" | "averted";

export const verdict = (one: Pick<Advisory, "verdict" | "outcome">): Verdict =>
  one.verdict ?? (one.outcome === null ? "open" : one.outcome ? "true" : "false");

export const VERDICTS: Readonly<Record<Verdict, { mark: string; name: string; says: string }>> = {
  true: { mark: "✓", name: "true alarm", says: "True alarm: git could not merge the branches." },
  false: { mark: "✕", name: "false alarm", says: "False alarm: git could merge both, and nobody had to steer." },
  averted: { mark: "↷", name: "averted", says: "Averted: the steering agent left, and no conflict was seen." },
  open: { mark: "·", name: "outcome not known", says: "Nobody knows yet whether it was true." },
};

/** Each kind of which an outcome is known, apart: its rate says of how many. */
export function precisionKinds(p: Precision | null): { kind: string; line: string }[] {
  const kinds = { resolution: p, traffic: p?.traffic, "look-ahead": p?.lookahead };
  return Object.entries(kinds).flatMap(([kind, one]) => (one && one.true + one.false ? [{ kind, line: precisionLine(one) }] : []));
}

/** Who was asked and has not answered yet. */
export const silentIn = (one: Pick<Advisory, "agents" | "asked" | "answers">): string[] => (one.asked ?? one.agents).filter((a) => !one.answers[a]);

/** What stands on a line: the file's name, how many more there are, the risk. */
export function lineWords(line: { files: readonly string[]; risk: number }): string {
  const [first, ...more] = line.files;
  const name = first === undefined ? "" : `${first.split("/").at(-1)!}${more.length ? ` +${more.length}` : ""} `;
  return `${name}${line.risk.toFixed(2)}`;
}
