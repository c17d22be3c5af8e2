/** The agents' worktrees. Reading them costs the room some git, so they are read when something has changed. */

import { batch, signal } from "@preact/signals";
import { api, ApiError } from "../api";
import type { AirspaceState } from "../airspace_types";
import type { MergeTurn, Worktree, WorktreeRuns, Worktrees } from "../worktree_types";
import { airspace } from "./airspace";
import { onLive } from "./live";
import { agents, loaded, onEntries, onFrames } from "./room";

export const worktrees = signal<Worktree[] | null>(null);
/** The room has not looked at all of them since it started, or has not answered yet. */
export const looking = signal(true);
/** In which order to merge them, so that the fewest are set back. */
export const order = signal<readonly MergeTurn[]>([]);
export const worktreesProblem = signal("");
/** Which commands are configured for worktrees, and what all of them take of the disk. */
export const commands = signal<NonNullable<Worktrees["commands"]>>({ setup: false, run: false, archive: false });
export const disk = signal<Worktrees["disk"]>(null);
/** What the setup and the app of the worktree that is looked at have printed: as it was asked for, then as it comes. */
export const printed = signal<WorktreeRuns | null>(null);
/** Why the worktree of an agent is missing or was not read, in the room's words. */
export const troubles = signal<Readonly<Record<string, string>>>({});
/** Milliseconds that changes are gathered before the list is read again. */
const GATHER = 2000;

export const worktreeFor = (agent: string): Worktree | undefined => worktrees.value?.find((w) => w.agent === agent);

export async function loadWorktrees(): Promise<void> {
  try {
    const told = await api.worktrees();
    worktrees.value = told.worktrees;
    if ((looking.value = told.surveyed === false)) soon();
    order.value = told.order ?? [];
    troubles.value = told.troubles ?? {};
    worktreesProblem.value = told.trouble ?? "";
    commands.value = told.commands ?? commands.peek();
    disk.value = told.disk ?? null;
  } catch (problem) {
    if (!(problem instanceof ApiError)) throw problem;
    looking.value = false;
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
  state.agents.map((a) => `${a.agentId} ${a.branch} ${a.committed} ${a.tree} ${a.files.map((f) => `${f.path}${f.lines.join()}`).join()}`).join("\n");

let last = "";
airspace.subscribe((state) => {
  if (!state) return;
  const now = shape(state);
  if (last && now !== last) soon();
  last = now;
});
// What somebody decides of a conflict changes no file, but how its branch merges; an advisory's end says that too.
onEntries((entries) => {
  if (entries.some((e) => e.meta.worktree || e.meta.advisory || e.meta.command === "/resolve" || e.meta.edits || e.meta.conflict !== undefined || e.meta.notice === "worktree")) soon();
});
// A turn that changed nothing ends too, and then its branch can land.
let working: string | null = null;
agents.subscribe((all) => {
  if (!loaded.peek()) return;
  const now = all.map((agent) => agent.running?.job ?? "").join();
  if (working !== null && now !== working) soon();
  working = now;
});
const MOVED: ReadonlySet<string> = new Set(["landing", "verification", "approval", "advisory"]);
onFrames((frames) => {
  if (frames.some((frame) => MOVED.has(frame.type))) soon();
});
onFrames((frames) => {
  // Of one worktree the newest says all.
  const newest = new Map<string, WorktreeRuns>();
  for (const frame of frames) if (frame.type === "worktree") newest.set(frame.data.agent, frame.data);
  if (!newest.size) return;
  if (newest.has("")) soon();
  batch(() => {
    const shown = printed.peek();
    if (shown) printed.value = newest.get(shown.agent) ?? shown;
    worktrees.value = worktrees.peek()?.map((tree) => (tree.member ? tree : { ...tree, ...newest.get(tree.agent) })) ?? null;
  });
});
onLive(() => void loadWorktrees());
