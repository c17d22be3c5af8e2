/** Which view is open, what lies over it, and what is being answered to. */

import { signal } from "@preact/signals";
import type { Entry } from "../types";
import { jumpTo } from "./room";

export type View = "room" | "board" | "agents" | "queue";
export const VIEWS: readonly View[] = ["room", "board", "agents", "queue"];

export const view = signal<View>("room");
export const overlay = signal<"none" | "search" | "help">("none");
/** The agent whose panel is open. */
export const agentPanel = signal<string | null>(null);
export const replyTo = signal<Entry | null>(null);
/** The task that was just pointed at. */
export const taskFocus = signal<number | null>(null);
/** Bumped to ask the composer for the focus. */
export const composerCall = signal(0);

export function show(next: View): void {
  view.value = next;
  overlay.value = "none";
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

const narrow = matchMedia("(max-width: 760px)");
/** Phone width: tabs below instead of a side bar. The same width as in style/*.css. */
export const phone = signal(narrow.matches);
narrow.addEventListener("change", () => (phone.value = narrow.matches));
