/** What the room's own view says of verifications and approvals. Pure. */

import type { Approval, Landing, State, Verification } from "./types";

export type Tone = "good" | "bad" | "warn" | "busy" | "none";

/** A state in a word, with a sign and a tone: never one of them alone. */
export interface Said {
  word: string;
  sign: string;
  tone: Tone;
}

export const STATES: Readonly<Record<State, Said>> = {
  queued: { word: "queued", sign: "…", tone: "none" },
  running: { word: "running", sign: "…", tone: "busy" },
  waiting: { word: "waits for a person", sign: "?", tone: "warn" },
  passed: { word: "passed", sign: "✓", tone: "good" },
  failed: { word: "failed", sign: "✕", tone: "bad" },
  error: { word: "could not be verified", sign: "!", tone: "bad" },
  not_tested: { word: "not tested", sign: "–", tone: "warn" },
  cancelled: { word: "cancelled", sign: "–", tone: "none" },
};
export const stateSaid = (state: State): Said => STATES[state];

const OVER: readonly State[] = ["passed", "failed", "error", "not_tested", "cancelled"];
export const isOver = (one: Pick<Verification, "state">): boolean => OVER.includes(one.state);

/** Would anything test what lands? */
export const testsAnything = (landing: Pick<Landing, "policies" | "merge_test">): boolean => landing.policies > 0 || landing.merge_test;

const ANSWERS: Readonly<Record<Approval["state"], string>> = { waiting: "waits", approved: "approved", rejected: "rejected", expired: "expired", withdrawn: "withdrawn" };

/** How an approval was decided: "ann approved it", "nobody decided in time". */
export function decisionSaid(one: Pick<Approval, "state" | "decided_by" | "reason">): string {
  switch (one.state) {
    case "waiting":
      return "waits for a person";
    case "expired":
      return "nobody decided in time";
    case "withdrawn":
      return `nobody is asked any more${one.reason ? `: ${one.reason}` : ""}`;
    default:
      return `${one.decided_by ?? "somebody"} ${ANSWERS[one.state]} it${one.reason ? `: ${one.reason}` : ""}`;
  }
}

/** The last lines of an output that grows, within bounds. */
export function lastLines(text: string, most = 200, characters = 16_000): string {
  const end = text.slice(-characters).replace(/\n+$/, "");
  const lines = end.split("\n");
  // Where characters were cut off, the first line is not whole.
  if (text.length > characters && lines.length > 1) lines.shift();
  return lines.slice(-most).join("\n");
}

/** Control characters, colours among them, that a terminal would take: the page shows the text. */
export const plain = (text: string): string => text.replace(/\u001b\[[0-9;?]*[ -/]*[@-~]/g, "").replace(/\r(?!\n)/g, "\n").replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, "");
