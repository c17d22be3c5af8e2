/** What needs a person: read when the room says that something changed, and now and then while agents work. */

import { signal } from "@preact/signals";
import { api, ApiError } from "../api";
import type { Need } from "../types";
import { onLive } from "./live";
import { memory } from "./prefs";
import { reading } from "./reading";
import { agents, loaded, onEntries, onFrames } from "./room";

export const needs = signal<readonly Need[]>([]);
export const needsProblem = signal("");
/** The id of the need that somebody came for; the list brings it into sight. */
export const needAt = signal("");
/** Frames that change nothing about it. */
const QUIET: ReadonlySet<string> = new Set(["stream", "output", "worktree", "people", "airspace", "hello", "dispatcher", "fleet", "lock", "session"]);
/** Milliseconds between two looks while an agent works: that nothing is heard of it is said by no frame. */
const LOOK = 60_000;

const list = reading(async () => {
  try {
    needs.value = await api.needs();
    needsProblem.value = "";
  } catch (problem) {
    if (!(problem instanceof ApiError)) throw problem;
    needsProblem.value = [problem.message, problem.fix].filter(Boolean).join(" ");
  }
}, { unseen: true });
export const loadNeeds = list.now;

onFrames((frames) => {
  // What runs in a worktree is told often: it is of interest while the inbox says that it does not run.
  const runs = needs.peek().some((need) => need.kind === "setup_failed" || need.kind === "app_ended");
  if (frames.some((frame) => !QUIET.has(frame.type) || (runs && frame.type === "worktree"))) list.soon();
});
onEntries(() => list.soon());
onLive(() => void list.now());
setInterval(() => {
  if (loaded.peek() && agents.peek().some((agent) => agent.running)) list.soon();
}, LOOK);

/** Notifications come as a file of their own, for whoever has turned them on. */
if (memory.get("notify")) void import("../needs/notify");
