/** Threads: how many answers an entry has, and the thread that is open beside. */

import { signal } from "@preact/signals";
import { amend, entryOf, onEntries } from "../state/room";
import type { Entry } from "../types";

/** The id of the entry whose thread is open beside. */
export const threadOpen = signal<string | null>(null);

export const rootOf = (entry: Entry): string => entry.thread ?? entry.id;

// What was read says how many replies there were; each that comes is one more. The room's own words are none.
onEntries((entries) => {
  const begun = new Map<string, Entry>();
  for (const entry of entries) {
    const root = entry.thread && entry.kind !== "system" ? (begun.get(entry.thread) ?? entryOf(entry.thread)) : undefined;
    if (root) begun.set(root.id, { ...root, replies: (root.replies ?? 0) + 1 });
  }
  if (begun.size) amend([...begun.values()]);
});
