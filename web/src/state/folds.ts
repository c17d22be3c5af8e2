/**
 * What of the transcript stands on one line: a command with what the room answered, and the room's notices of one kind.
 *
 * Invariant: whether an entry folds hangs on the entries before it alone, so what comes later changes no row but the
 * last. What asks a person something, or has marks of its own, never folds. Pure.
 */

import { counted } from "../text/format";
import { plainLine } from "../text/markdown";
import type { Entry } from "../types";

/** Notices that are for information, whose number is what matters when many come. What went wrong is of no such kind. */
const QUIET: ReadonlySet<string> = new Set([
  ..."skipped coordination worktree visitor fleet agent_settings task circuit_closed rewind dispatcher recall no_agent".split(" "),
]);
const COMMAND = /^\/[a-z]/i;
/** Entries behind its message, among which a skip is not told again: the message's receipt has it, and is on the screen. */
const NEAR = 8;

/** Commands that somebody typed into this page, and whose answer they want to read. */
export const typed = new Set<string>();

const asks = ({ meta }: Entry): boolean =>
  meta.conflict !== undefined || meta.handoff !== undefined || meta.approval !== undefined || meta.verification !== undefined ||
  meta.exploration !== undefined || meta.actions !== undefined || meta.heard !== undefined || meta.error !== undefined;

/** It is told by the receipt of its message, a little above. */
export function isTold(entries: readonly Entry[], at: number): boolean {
  const entry = entries[at];
  if (entry?.meta.notice !== "skipped" || !entry.in_reply_to) return false;
  for (let i = at - 1; i >= Math.max(0, at - NEAR); i--) if (entries[i]!.id === entry.in_reply_to) return true;
  return false;
}

/** It stands on the line of what is before it. */
export function folds(entries: readonly Entry[], at: number): boolean {
  if (isTold(entries, at)) return true;
  const entry = entries[at];
  if (!entry || entry.kind !== "system" || asks(entry)) return false;
  let i = at - 1;
  while (isTold(entries, i)) i--;
  const before = entries[i];
  if (!before) return false;
  if (entry.meta.command !== undefined)
    return entry.in_reply_to === before.id ? before.kind === "human" && COMMAND.test(before.body) : before.meta.command !== undefined && before.in_reply_to === entry.in_reply_to && folds(entries, i);
  return QUIET.has(entry.meta.notice ?? "") && before.kind === "system" && before.meta.notice === entry.meta.notice && !asks(before);
}

/** The index behind the rows of the entry `at`: those that fold into it, and those that are told. */
export function behind(entries: readonly Entry[], at: number): number {
  let end = at + 1;
  while (end < entries.length && folds(entries, end)) end++;
  return end;
}

/** The line of what is folded: who, what, and the answer's beginning with how much more there is. */
export function line(group: readonly Entry[]): { who: string; what: string; then: string } {
  const [first, ...rest] = group as [Entry, ...Entry[]];
  if (first.kind !== "human") return { who: first.speaker, what: plainLine(group[group.length - 1]!.body, 140), then: counted(group.length, "notice") };
  const said = rest.map((entry) => entry.body).join("\n").split("\n").filter((text) => text.trim());
  return { who: first.speaker, what: plainLine(first.body, 100), then: `${plainLine(said[0] ?? "", 140)}${said.length > 1 ? ` (${counted(said.length - 1, "more line")})` : ""}` };
}

/** What its author typed stands open where the line has not all of the answer. */
export function opensByItself(group: readonly Entry[], me: string): boolean {
  const [first, ...rest] = group as [Entry, ...Entry[]];
  return first.kind === "human" && first.speaker === me && typed.has(first.body.trim()) && rest.some((entry) => /\n/.test(entry.body.trim()) || entry.body.length > 140);
}
