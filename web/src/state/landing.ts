/**
 * What is verified, what people are asked to approve, and what lands. A frame names what has changed, and that is then read; what a
 * program prints comes as it is printed.
 *
 * Invariant: nothing is read while nobody looks, and nothing by a clock, but once after the last frame: how a test ends is said
 * before what becomes of its branches.
 */

import { batch, computed, signal, type Signal } from "@preact/signals";
import { api, ApiError } from "../api";
import type { Asked, Landing, Verification } from "../landing/types";
import { isOver, lastLines, plain, testsAnything } from "../landing/over";
import { readRef, ref } from "../text/reference";
import type { Frame } from "../types";
import { onLive } from "./live";
import { reading } from "./reading";
import { onEntries, onFrames } from "./room";
import { knowVerified } from "./view";

export const landing = signal<Landing | null>(null);
export const landingProblem = signal("");
export const approvals = signal<readonly Asked[]>([]);
export const approvalsProblem = signal("");
/** Those that are held, by their numbers: the newest, and those that somebody asked for. */
export const verifications = signal<ReadonlyMap<number, Verification>>(new Map());

export const waitingApprovals = computed(() => approvals.value.filter((one) => one.state === "waiting"));
/** Is there anything to see of the landing queue? */
export const landingUsed = computed(() => {
  const now = landing.value;
  return now !== null && (now.queue.length > 0 || now.ended.length > 0 || now.required || Boolean(now.trouble) || testsAnything(now));
});
export const landingRequired = computed(() => landing.value?.required === true);
export const mainFails = computed(() => landing.value?.main_fails ?? null);
export const entryOfAgent = (agent: string) => landing.value?.queue.find((entry) => entry.agent === agent);

/** The verifications that are read first, and that one reading takes; those that are held. */
const MOST = 100;
const HELD = 1000;
/** Milliseconds after the last frame until the queue is looked at once more. */
const AFTER = 2000;

const said = (problem: unknown): string => {
  if (!(problem instanceof ApiError)) throw problem;
  return [problem.message, problem.fix].filter(Boolean).join(" ");
};

const queue = reading(async () => {
  try {
    landing.value = await api.landing();
    landingProblem.value = "";
  } catch (problem) {
    landingProblem.value = said(problem);
  }
});

const asked = reading(async () => {
  try {
    approvals.value = await api.approvals();
    approvalsProblem.value = "";
  } catch (problem) {
    approvalsProblem.value = said(problem);
  }
});

/** Numbers that somebody wants to know of. */
let wanted = new Set<number>();
const some = reading(async () => {
  const numbers = [...wanted].sort((a, b) => b - a).slice(0, MOST);
  if (!numbers.length) return;
  wanted = new Set([...wanted].filter((number) => !numbers.includes(number)));
  try {
    put(await api.verifications({ numbers: numbers.map((number) => ref("v", number)).join(",") }));
  } catch (problem) {
    said(problem);
  }
  if (wanted.size) some.soon();
});

export const loadLanding = queue.now;
export const loadApprovals = asked.now;

export function put(found: readonly Verification[]): void {
  if (!found.length) return;
  const next = new Map(verifications.value);
  for (const one of found) {
    next.set(one.number, one);
    if (isOver(one)) forget(one.number);
  }
  for (const number of next.size > HELD ? [...next.keys()].sort((a, b) => a - b).slice(0, next.size - HELD) : []) next.delete(number);
  verifications.value = next;
}

export function wantVerification(number: number): void {
  if (verifications.peek().has(number) || wanted.has(number)) return;
  wanted.add(number);
  some.soon();
}

/** The verification of a reference (`v12`), where it is held. */
export function verificationOf(reference: string | null): Verification | undefined {
  const found = reference ? readRef(reference, "v") : null;
  return found?.thing === "v" ? verifications.value.get(found.number) : undefined;
}

/** A test of several branches that did not pass says of none of them what it is worth. */
const telling = (one: Verification): boolean =>
  one.about.part !== "entry" && one.about.part !== "join" && one.state !== "cancelled" && ((one.about.agents?.length ?? 1) < 2 || !isOver(one) || one.state === "passed");

/** The newest of each agent's work, of each task, and of each answer, by its job. */
export const newest = computed(() => {
  const agents = new Map<string, Verification>();
  const tasks = new Map<string, Verification>();
  const jobs = new Map<number, Verification>();
  for (const one of [...verifications.value.values()].sort((a, b) => a.number - b.number)) {
    const task = one.task ?? one.about.task;
    if (task) tasks.set(task, one);
    if (one.about.job !== undefined) jobs.set(one.about.job, one);
    if (!telling(one)) continue;
    for (const agent of one.about.agents ?? [one.agent]) agents.set(agent, one);
  }
  return { agents, tasks, jobs };
});

/** What programs that run have printed last, by verification and policy. */
const outputs = new Map<string, Signal<string>>();

export function outputOf(verification: number, policy: string): Signal<string> {
  const key = `${verification} ${policy}`;
  const held = outputs.get(key) ?? signal("");
  outputs.set(key, held);
  return held;
}

function forget(verification: number): void {
  for (const key of outputs.keys()) if (key.startsWith(`${verification} `)) outputs.delete(key);
}

/** What runs in it has printed this until now; later frames have more. */
export async function beginOutputs(number: number): Promise<void> {
  try {
    const { results } = await api.verification(number);
    for (const result of results) {
      const held = outputOf(number, result.policy);
      if (result.state === "running" && !held.peek()) held.value = lastLines(plain(result.output ?? ""));
    }
  } catch (problem) {
    said(problem);
  }
}

let after: ReturnType<typeof setTimeout> | undefined;

function takeFrames(frames: readonly Frame[]): void {
  batch(() => {
    for (const frame of frames) {
      if (frame.type === "output") {
        const { verification, policy, tail } = frame.data;
        outputOf(verification, policy).value = lastLines(plain(tail));
        continue;
      }
      if (frame.type === "approval") asked.soon();
      if (frame.type === "verification") {
        wanted.add(frame.data.number);
        some.soon();
        if (waitingApprovals.peek().some((one) => one.change.number === frame.data.number)) asked.soon();
      }
      if (frame.type !== "landing" && frame.type !== "verification") continue;
      queue.soon();
      clearTimeout(after);
      after = setTimeout(queue.soon, AFTER);
    }
  });
}

onFrames(takeFrames);
// Whether the queue is required stands in the configuration, and a merge past it ends what it took out: the room says both.
onEntries((entries) => {
  if (entries.some((entry) => entry.meta.notice === "config" || entry.meta.notice === "worktree")) queue.soon();
});
onLive(() => {
  void queue.now();
  void asked.now();
  api.verifications({ limit: MOST }).then(put, said);
});
knowVerified({
  verification: (number) => verifications.peek().has(number),
  approval: (number) => approvals.peek().some((one) => one.number === number),
});
