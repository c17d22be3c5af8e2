/** What the room's own view says of verifications and approvals. Pure. */

import type { Approval, State } from "./types";

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
