/** Which view is open, what lies over it, and what is being answered to. */

import { signal } from "@preact/signals";
import type { Entry } from "../types";
import { jumpTo } from "./room";

export type View = "room" | "board" | "agents" | "queue" | "airspace" | "locks" | "worktrees";
export const VIEWS: readonly View[] = ["room", "board", "agents", "queue", "airspace", "locks", "worktrees"];

export const view = signal<View>("room");
export const overlay = signal<"none" | "search" | "help">("none");
/** The agent whose panel is open. */
export const agentPanel = signal<string | null>(null);
export const replyTo = signal<Entry | null>(null);
/** The task that was just pointed at. */
export const taskFocus = signal<number | null>(null);
/** The task whose whole story is shown, by its number. */
export const taskOpen = signal<number | null>(null);
/** What the airspace view shows the evidence of. A link's key is `linkKey` of state/airspace.ts. */
export type Picked = { agent: string } | { link: string } | { advisory: string } | null;
export const picked = signal<Picked>(null);
/** The agent whose diff the worktrees view shows. */
export const worktreeOf = signal<string | null>(null);
/** Bumped to ask the composer for the focus. */
export const composerCall = signal(0);

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

export function callComposer(): void {
  view.value = "room";
  composerCall.value += 1;
}

export async function showEntry(target: string): Promise<boolean> {
  overlay.value = "none";
  view.value = "room";
  return jumpTo(target);
}

/** Where a `#12`, `#task-12` or `#job-12` in a text or in the address leads. False when there is no such thing. */
export async function follow(target: string): Promise<boolean> {
  const [, what, number] = /^(task-|job-)?(\d+)$/.exec(target) ?? [];
  if (!number) return false;
  if (what === "task-") {
    taskFocus.value = Number(number);
    show("board");
    return true;
  }
  if (what === "job-") {
    show("queue");
    return true;
  }
  return showEntry(number);
}

const narrow = matchMedia("(max-width: 760px)");
/** Phone width: tabs below instead of a side bar. The same width as in style/*.css. */
export const phone = signal(narrow.matches);
narrow.addEventListener("change", () => (phone.value = narrow.matches));
