/** The newest conflicts of merges, in which there is something to choose: those of level 2. Read when the room says something of one. */

import { computed, signal } from "@preact/signals";
import { api, ApiError } from "../api";
import type { Conflict } from "../conflicts/types";
import { onLive } from "./live";
import { needs } from "./needs";
import { onEntries } from "./room";
import { knowConflicts } from "./view";
import { worktrees } from "./worktrees";

const MOST = 200;
export const conflicts = signal<readonly Conflict[]>([]);
export const conflictsProblem = signal("");
export const openConflicts = computed(() => conflicts.value.filter((one) => one.state === "open"));
/** Branches that do not merge and about which the room has not asked. */
export const unasked = computed(() => {
  const told = new Set([...openConflicts.value.map((one) => one.agent), ...needs.value.filter((need) => need.kind === "settled").map((need) => need.about)]);
  return (worktrees.value ?? []).filter((tree) => tree.merges === "conflicts" && !told.has(tree.agent));
});
/** What waits: conflicts that somebody has to decide, and merges that an agent is in the middle of. */
export const toSettle = computed(() => openConflicts.value.length + unasked.value.filter((tree) => tree.merging || tree.unsettled).length);
let busy: Promise<void> | null = null;
let again = false;

async function read(): Promise<void> {
  try {
    do {
      again = false;
      conflicts.value = (await api.conflicts(MOST)).filter((one) => one.level === 2);
    } while (again);
    conflictsProblem.value = "";
  } catch (problem) {
    if (!(problem instanceof ApiError)) throw problem;
    conflictsProblem.value = [problem.message, problem.fix].filter(Boolean).join(" ");
  }
}

export function loadConflicts(): Promise<void> {
  again = true;
  return (busy ??= read().finally(() => (busy = null)));
}

// A merge may end what is open, and so may any answer to `/resolve`.
onEntries((entries) => {
  if (openConflicts.peek().length || entries.some((entry) => entry.meta.conflict !== undefined || entry.meta.command === "/resolve")) void loadConflicts();
});
onLive(() => void loadConflicts());
knowConflicts((number) => conflicts.peek().some((one) => one.number === number));
