/** What the page says of verifications, approvals and the landing queue. Pure; `now` is always given, in milliseconds. */

import { counted, instant, lasting, moment, span } from "../text/format";
import { STATES, type Said } from "./said";
import type { Entry, Landing, Outcome, Result, State, Verification } from "./types";

export * from "./over";
export * from "./said";

const OUTCOMES: Readonly<Record<Outcome, Said>> = { ...STATES, error: { word: "could not run", sign: "!", tone: "bad" }, timed_out: { word: "took too long", sign: "✕", tone: "bad" } };

/** A policy that a person has decided says so in its reason. */
export const outcomeSaid = (result: Pick<Result, "state">): Said => OUTCOMES[result.state];

const TIERS = ["static analysis", "unit tests", "integration tests", "system tests", "a person's review"];
export const tierWords = (tier: number): string => `tier ${tier}, ${TIERS[tier] ?? "other tests"}`;

const SOURCES: Readonly<Record<string, string>> = {
  turn: "what a turn changed",
  task: "a task that is done",
  handoff: "a handoff",
  exploration: "a variant of an exploration",
  landing: "a landing",
  agent: "an agent's request",
  github: "GitHub",
  person: "a person's request",
};
export const sourceWords = (source: string): string => SOURCES[source] ?? source;

/** The attempts of each policy, the last one first; the highest tier first. */
export function byPolicy(results: readonly Result[]): Result[][] {
  const found = new Map<string, Result[]>();
  for (const result of results) found.set(result.policy, [...(found.get(result.policy) ?? []), result]);
  const each = [...found.values()].map((attempts) => attempts.sort((a, b) => b.attempt - a.attempt));
  return each.sort(([a], [b]) => b!.tier - a!.tier || a!.policy.localeCompare(b!.policy));
}

/** Seconds that a run took, or takes; empty for one that did not begin. */
export function took(result: Pick<Result, "state" | "seconds" | "began" | "reused">, now: number): string {
  if (result.state === "running") {
    const began = instant(result.began);
    return began === null ? "" : lasting(now - began);
  }
  if (!result.seconds || result.reused) return "";
  return result.seconds >= 1 && result.seconds < 10 ? `${result.seconds.toFixed(1)} s` : span(result.seconds * 1000);
}

/** What else is to be known of a run, in short pieces. What it reuses is a link, and not among these. */
export function runNotes(result: Result): string[] {
  const ended = result.state !== "queued" && result.state !== "running";
  return [
    result.attempt > 1 ? `attempt ${result.attempt}` : "",
    result.flaky ? "flaky: it failed, and passed when it was run again" : result.reason,
    result.exit_code ? `exit code ${result.exit_code}` : "",
    result.sandboxed === null || !ended ? "" : result.sandboxed ? "in a sandbox" : "without a sandbox",
  ].filter(Boolean);
}

/** Those that are tested together, in the order in which they are merged; the others stand alone. */
export interface Group {
  tested: Verification | null;
  entries: Entry[];
}

/** The queue as it lands: what is tested now, then the others as they were asked for. */
export function groups(queue: readonly Entry[]): Group[] {
  const tested = new Map<number, Group>();
  const rest: Group[] = [];
  for (const entry of queue) {
    if (!entry.testing) rest.push({ tested: null, entries: [entry] });
    else {
      const group = tested.get(entry.testing.number) ?? { tested: entry.testing, entries: [] };
      group.entries.push(entry);
      tested.set(entry.testing.number, group);
    }
  }
  for (const { tested: test, entries } of tested.values()) {
    const order = test?.about.entries ?? [];
    entries.sort((a, b) => order.indexOf(a.number) - order.indexOf(b.number));
  }
  return [...tested.values(), ...rest];
}

/** What an entry of the queue waits for, as a sentence without its end. `stateOf`: how a verification (`v12`) stands. */
export function waitsFor(entry: Entry, queue: readonly Entry[], stateOf: (reference: string) => State | undefined): string {
  if (entry.note) return entry.note;
  const test = queue.find((one) => one.testing)?.testing?.reference;
  if (entry.state === "asked" && !test) return "its work is looked at next";
  if (entry.verification && stateOf(entry.verification) === "failed")
    return `${entry.verification} failed with it${test ? `: ${test} tests the others without it` : ", and it is tested again"}`;
  return test ? `until ${test} is tested` : "it is tested next";
}

export const names = (list: readonly string[]): string => (list.length < 3 ? list.join(" and ") : `${list.slice(0, -1).join(", ")} and ${list.at(-1)}`);

/** By what one that landed was tested. `by`: what passed; `beside`: what did not, and did not decide. */
export function testedBy(entry: Pick<Entry, "tested" | "results">): { by: string[]; beside: string[] } {
  const last = byPolicy(entry.results ?? []).map(([result]) => result!);
  const passed = (result: Result): boolean => result.state === "passed";
  return {
    by: entry.tested ? last.filter(passed).map((result) => result.policy + (result.flaky ? " (flaky)" : "")) : [],
    beside: entry.tested ? last.filter((result) => !passed(result)).map((result) => `${result.policy} ${outcomeSaid(result).word}`) : [],
  };
}

/** What tests a branch that lands: policies, and the tests of merged trees. */
export const testsOf = (policies: readonly string[]): string[] => policies.map((name) => (name === "merge.test" ? "the merge test" : name));

/** What verifies in this room. */
export function policiesSaid(landing: Pick<Landing, "policies" | "merge_test" | "trouble">): string {
  if (landing.trouble) return "no policy can be used";
  const merge = landing.merge_test ? "the merge test" : "";
  return [landing.policies ? counted(landing.policies, "policy", "policies") : "", merge].filter(Boolean).join(" and ") || "no policies";
}

/** Until when a person can decide: "until tomorrow 14:12, 20 h 05 left". */
export function deadline(expires: string, now: number): string {
  const at = instant(expires);
  if (at === null) return "";
  return at <= now ? "its time is over" : `until ${moment(expires, now)}, ${span(at - now)} left`;
}
