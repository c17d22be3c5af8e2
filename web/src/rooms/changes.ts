/** Messages that their authors change or delete: what is read anew, and which one is being written. */

import { signal } from "@preact/signals";
import { api } from "../api";
import { personName } from "../state/prefs";
import { agents, amend, entryOf, onEntries } from "../state/room";
import type { Entry } from "../types";

/** The message that is being changed, by its id. */
export const editing = signal<string | null>(null);
/** The message that its author is asked about before it is deleted, by its id. */
export const deleting = signal<string | null>(null);

/** A person's own message, as the room sees it too (`relay/room/entries/changes.py`). */
export const isOwn = (entry: Entry): boolean =>
  entry.kind === "human" && entry.speaker === personName.value && !entry.meta.unverified && !entry.meta.deleted;
export const isCommand = (entry: Entry): boolean => /^\s*\/(?!\/)/.test(entry.body);

// The room says that an entry was changed: it, and the command that changed it, are read as they are now.
onEntries((entries) => {
  const ids = entries.flatMap((entry) => (entry.meta.edits ? [entry.meta.edits.message, entry.in_reply_to] : []));
  // What an agent was asked last is told in short by the room, which reads its message for that.
  if (agents.peek().some((agent) => ids.includes(agent.last?.message_id ?? ""))) api.state().then((state) => { agents.value = state.agents; }, () => undefined);
  for (const id of new Set(ids)) {
    if (!id || !entryOf(id)) continue;
    // Where it cannot be read it stands as it came, until the page is loaded anew.
    api.around(id, 1).then((page) => amend(page.entries.filter((entry) => entry.id === id)), () => undefined);
  }
});
