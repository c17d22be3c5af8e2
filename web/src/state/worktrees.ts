/** The agents' worktrees. Reading them costs the room some git, so they are read when something has changed. */

import { signal } from "@preact/signals";
import { api, ApiError } from "../api";
import type { AirspaceState } from "../airspace_types";
import type { MergeTurn, Worktree } from "../worktree_types";
import { airspace } from "./airspace";
import { onLive } from "./live";
import { onEntries } from "./room";

export const worktrees = signal<Worktree[] | null>(null);
/** In which order to merge them, so that the fewest are set back. */
export const order = signal<readonly MergeTurn[]>([]);
export const worktreesProblem = signal("");
/** Why the worktree of an agent is missing or was not read, in the room's words. */
export const troubles = signal<Readonly<Record<string, string>>>({});
/** Milliseconds that changes are gathered before the list is read again. */
const GATHER = 2000;

export const worktreeFor = (agent: string): Worktree | undefined => worktrees.value?.find((w) => w.agent === agent);

export async function loadWorktrees(): Promise<void> {
  try {
    const told = await api.worktrees();
    worktrees.value = told.worktrees;
    order.value = told.order ?? [];
    troubles.value = told.troubles ?? {};
    worktreesProblem.value = told.trouble ?? "";
  } catch (problem) {
    if (!(problem instanceof ApiError)) throw problem;
    worktreesProblem.value = [problem.message, problem.fix].filter(Boolean).join(" ");
  }
}

let waiting: ReturnType<typeof setTimeout> | undefined;
/** Something changed while nobody looked. */
let stale = false;

function soon(): void {
  waiting ??= setTimeout(() => {
    waiting = undefined;
    stale = document.hidden;
    if (!stale) void loadWorktrees();
  }, GATHER);
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && stale) soon();
});

/** What of the airspace tells that a worktree has changed. */
const shape = (state: AirspaceState): string =>
  state.agents.map((a) => `${a.agentId} ${a.branch} ${a.committed} ${a.files.map((f) => `${f.path}${f.lines.join()}`).join()}`).join("\n");

let last = "";
airspace.subscribe((state) => {
  if (!state) return;
  const now = shape(state);
  if (last && now !== last) soon();
  last = now;
});
onEntries((entries) => {
  if (entries.some((e) => e.meta.worktree)) soon();
});
onLive(() => void loadWorktrees());
