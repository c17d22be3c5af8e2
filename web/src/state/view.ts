/** Which view is open, what lies over it, and what is being answered to. */

import { effect, signal } from "@preact/signals";
import type { Entry } from "../types";
import { setReferences } from "../text/markdown";
import { readRef, ref, THINGS } from "../text/reference";
import { isTask, jobs, jumpTo, marked, newestNumber, readBoard, timeline } from "./room";

export type View = "room" | "needs" | "board" | "agents" | "queue" | "airspace" | "locks" | "worktrees" | "timeline" | "memory" | "explore" | "conflicts" | "metrics" | "landing" | "approvals" | "review";
export const VIEWS: readonly View[] = ["room", "needs", "board", "agents", "queue", "airspace", "locks", "worktrees", "timeline", "memory", "explore", "conflicts", "metrics", "landing", "approvals", "review"];

export const view = signal<View>("room");
export const overlay = signal<"none" | "search" | "help">("none");
/** The agent whose panel is open. */
export const agentPanel = signal<string | null>(null);
export const replyTo = signal<Entry | null>(null);
/** The task that was just pointed at. */
export const taskFocus = signal<number | null>(null);
/** The row of the queue that somebody asked for. */
export const jobFocus = signal<number | null>(null);
/** The task whose whole story is shown, by its number. */
export const taskOpen = signal<number | null>(null);
/** It is opened to be given: the choice of the agent takes the focus. */
export const giveOpen = signal(false);
/** The verification whose results are shown, by its number. */
export const verificationShown = signal<number | null>(null);
/** The approval that somebody asked for, by its number. */
export const approvalFocus = signal<number | null>(null);
/** What the airspace view shows the evidence of. A link's key is `linkKey` of state/airspace.ts. */
export type Picked = { agent: string } | { link: string } | { advisory: string } | null;
export const picked = signal<Picked>(null);
/** The agent whose merge the worktrees view asks about. */
export const mergeOf = signal<string | null>(null);
/** The agent whose diff the worktrees view shows. */
export const worktreeOf = signal<string | null>(null);
/** The agent whose branch the review shows. */
export const reviewOf = signal<string | null>(null);
/** The number of the conflict that is shown; null = the first that is open. */
export const conflictOf = signal<number | null>(null);
/** What the timeline shows: the filters, and what is picked. `event`, `at` and `with` are numbers of events, as text. */
export interface TimelineWords {
  agent: string;
  file: string;
  /** The id of a kind (timeline/kinds.ts). */
  kind: string;
  event: string;
  /** The moment whose files are shown, and the one it is compared with. */
  at: string;
  with: string;
  /** "list" or "". */
  as: string;
  /** "1" = without what other rooms recorded. */
  here: string;
}
export const NO_WORDS: TimelineWords = { agent: "", file: "", kind: "", event: "", at: "", with: "", as: "", here: "" };
export const timelineWords = signal<TimelineWords>(NO_WORDS);
/** What the memory view shows: what is asked for, the filters, and the entry that the graph is about. */
export interface MemoryWords {
  q: string;
  agent: string;
  kind: string;
  tag: string;
  /** How long ago at most: "day", "week", "month", "year". */
  time: string;
  /** "graph" or "". */
  as: string;
  /** In the graph: the chosen entry's id, and how many steps around it. */
  entry: string;
  steps: string;
}
export const NO_MEMORY_WORDS: MemoryWords = { q: "", agent: "", kind: "", tag: "", time: "", as: "", entry: "", steps: "" };
export const memoryWords = signal<MemoryWords>(NO_MEMORY_WORDS);
/** Bumped to ask the composer for the focus. */
export const composerCall = signal(0);

effect(() => {
  if (view.value !== "room") marked.value = null;
});

export function show(next: View): void {
  view.value = next;
  overlay.value = "none";
}

export function showAirspace(what: Picked): void {
  picked.value = what;
  show("airspace");
}

export function showWorktree(agent: string): void {
  worktreeOf.value = agent;
  show("worktrees");
}

export function showReview(agent: string): void {
  reviewOf.value = agent;
  show("review");
}

/** Whose branch somebody is about to land, from wherever it is said to be ready. */
export const landingOf = signal<string | null>(null);

export function showConflict(number: number): void {
  conflictOf.value = number;
  show("conflicts");
}

export function showApproval(number: number): void {
  approvalFocus.value = number;
  show("approvals");
}

export function showMemory(words: Partial<MemoryWords>): void {
  memoryWords.value = { ...NO_MEMORY_WORDS, ...words };
  show("memory");
}

export function callComposer(): void {
  view.value = "room";
  composerCall.value += 1;
}

export async function showEntry(target: string): Promise<boolean> {
  overlay.value = "none";
  view.value = "room";
  return jumpTo(target);
}

/** The newest message that is held of what the room said of this handoff. */
const saidOfHandoff = (number: number): Entry | undefined => timeline.peek().entries.findLast((entry) => entry.meta.handoff === number);

/** Where a `m12`, `t12`, `j12`, `h12`, `r12`, `v12` or `a12` in a text or in the address leads (`readRef`). False when there is no such thing. */
export async function follow(target: string): Promise<boolean> {
  const found = readRef(target);
  if (!found) return false;
  if (found.thing === "m") return showEntry(String(found.number));
  if (found.thing === "t") {
    await readBoard().catch(() => undefined);
    if (!isTask(found.number)) return false;
    taskFocus.value = found.number;
    show("board");
    return true;
  }
  if (found.thing === "j") {
    jobFocus.value = found.number;
    show("queue");
    return true;
  }
  if (found.thing === "h") {
    const said = saidOfHandoff(found.number);
    if (said) return showEntry(String(said.number));
    // The room does not hold what was said so long ago; the timeline lists them all.
    timelineWords.value = { ...NO_WORDS, kind: "handoff", as: "list" };
    show("timeline");
    return true;
  }
  if (found.thing === "c") {
    if (!isConflict(found.number)) return false;
    showConflict(found.number);
    return true;
  }
  if (found.thing === "r") {
    showMemory({ q: ref("r", found.number) });
    return true;
  }
  if (found.thing === "v") {
    verificationShown.value = found.number;
    return true;
  }
  if (found.thing === "a") {
    showApproval(found.number);
    return true;
  }
  return false;
}

/** Says whether there is a conflict of this number; `state/conflicts.ts` knows them. */
let isConflict: (number: number) => boolean = () => false;
export function knowConflicts(knows: typeof isConflict): void {
  isConflict = knows;
}

/** Says which verifications and approvals are held; `state/landing.ts` has them. */
let verified = { verification: (_: number) => false, approval: (_: number) => false };
export function knowVerified(knows: typeof verified): void {
  verified = knows;
}

setReferences(({ thing, number }) => {
  if (thing === "m") return number > 0 && number <= newestNumber();
  if (thing === "h") return saidOfHandoff(number) !== undefined;
  if (thing === "r") return false;
  if (thing === "c") return isConflict(number);
  if (thing === "v") return verified.verification(number);
  if (thing === "a") return verified.approval(number);
  return thing === "t" ? isTask(number) : jobs.peek().has(number);
});

/** What is said where `follow` leads nowhere. */
export function nothing(target: string): string {
  const found = readRef(target);
  const where = found?.thing === "t" ? "on the board" : "here";
  return found ? `There is no ${THINGS[found.thing]} ${ref(found.thing, found.number)} ${where}.` : "There is nothing of that name here.";
}

const narrow = matchMedia("(max-width: 760px)");
/** Phone width: tabs below instead of a side bar. The same width as in style/*.css. */
export const phone = signal(narrow.matches);
narrow.addEventListener("change", () => (phone.value = narrow.matches));
