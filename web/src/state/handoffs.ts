/** The handoffs that are not through, and what the room takes of people now. Read when something was said in the room. */

import { computed, signal } from "@preact/signals";
import { api, ApiError } from "../api";
import type { OpenHandoff } from "../timeline_types";
import { onLive } from "./live";
import { onEntries, timeline } from "./room";

export const handoffs = signal<readonly OpenHandoff[]>([]);
let busy: Promise<void> | null = null;
let again = false;

async function read(): Promise<void> {
  try {
    do {
      again = false;
      handoffs.value = await api.handoffs();
    } while (again);
  } catch (problem) {
    if (!(problem instanceof ApiError)) throw problem;
  }
}

export function loadHandoffs(): Promise<void> {
  again = true;
  return (busy ??= read().finally(() => (busy = null)));
}

onEntries((entries) => {
  if (handoffs.peek().length || entries.some((entry) => entry.meta.handoff !== undefined)) void loadHandoffs();
});
onLive(() => void loadHandoffs());

/** By the id of the newest notice of it: the handoffs that wait for people. */
export const askedIn = computed<ReadonlyMap<string, number>>(() => {
  const waiting = new Set(handoffs.value.filter((handoff) => handoff.state === "asked").map((handoff) => handoff.number));
  const found = new Map<string, number>();
  const { entries } = waiting.size ? timeline.value : { entries: [] };
  for (let i = entries.length - 1; i >= 0 && waiting.size; i--) {
    const { notice, handoff } = entries[i]!.meta;
    if (notice === "handoff" && handoff !== undefined && waiting.delete(handoff)) found.set(entries[i]!.id, handoff);
  }
  return found;
});
