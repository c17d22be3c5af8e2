/**
 * What was written and is not yet acknowledged.
 *
 * Invariant: a text leaves the outbox only when its entry is on the page or its author discards it, so it is always to
 * be seen: an acknowledgement may come long before the socket brings the entry. Every try carries the same `client_id`, so the room takes it once. It survives a reload (one storage key each, so
 * two tabs do not overwrite each other's).
 */

import { signal } from "@preact/signals";
import { api, ApiError } from "../api";
import type { Entry } from "../types";
import { onLive } from "./live";
import { memory, personName, refuseName, uuid } from "./prefs";
import { entryOf, onEntries } from "./room";

export interface Outgoing {
  client_id: string;
  body: string;
  in_reply_to?: string;
  at: number;
  state: "sending" | "waiting" | "sent" | "refused";
  problem?: string;
  /** The entry that it became, once the room has acknowledged it. */
  id?: string;
  /** The entry that came over the socket and looks like this one, before the acknowledgement did. */
  seen?: string;
}

function restore(): Outgoing[] {
  return memory
    .keys("outbox.")
    .flatMap((key) => {
      try {
        return [JSON.parse(memory.get(key) ?? "") as Outgoing];
      } catch {
        return [];
      }
    })
    // One that was sent goes once more: the room knows its client_id.
    .map((o) => (o.state === "refused" ? o : { ...o, state: "waiting" as const, id: undefined }))
    .sort((a, b) => a.at - b.at);
}

export const outbox = signal<Outgoing[]>(restore());

function keep(item: Outgoing): void {
  memory.set(`outbox.${item.client_id}`, JSON.stringify(item));
}

function change(id: string, patch: Partial<Outgoing>): void {
  outbox.value = outbox.value.map((o) => (o.client_id === id ? { ...o, ...patch } : o));
  const item = outbox.value.find((o) => o.client_id === id);
  if (item) keep(item);
}

export function discard(id: string): void {
  outbox.value = outbox.value.filter((o) => o.client_id !== id);
  memory.set(`outbox.${id}`, null);
}

export function send(body: string, inReplyTo?: string): void {
  const item: Outgoing = { client_id: uuid(), body, in_reply_to: inReplyTo, at: Date.now(), state: "waiting" };
  keep(item);
  outbox.value = [...outbox.value, item];
  void pump();
}

let pumping = false;
let retry: ReturnType<typeof setTimeout> | undefined;
let tries = 0;

/** Sends in order, one at a time; stops at the first that the room cannot take now. */
export async function pump(): Promise<void> {
  if (pumping) return;
  pumping = true;
  clearTimeout(retry);
  try {
    for (;;) {
      const item = outbox.value.find((o) => o.state === "waiting" || o.state === "sending");
      if (!item) break;
      change(item.client_id, { state: "sending" });
      const name = personName.value;
      try {
        const { client_id, body, in_reply_to } = item;
        const { id } = await api.post({ client_id, body, in_reply_to, name: name || undefined });
        if (entryOf(id)) discard(client_id);
        else change(client_id, { state: "sent", id });
        tries = 0;
      } catch (problem) {
        if (!(problem instanceof ApiError)) throw problem;
        if (problem.passing || problem.status === 401) {
          change(item.client_id, { state: "waiting" });
          tries += 1;
          if (problem.status !== 401) retry = setTimeout(() => void pump(), Math.min(15_000, 700 * 2 ** tries));
          break;
        }
        const why = [problem.message, problem.fix].filter(Boolean).join(" ");
        change(item.client_id, { state: "refused", problem: why });
        if (problem.status === 403) refuseName(name, why);
      }
    }
  } finally {
    pumping = false;
  }
}

/** The author wants it sent after all (under another name, say). */
export function sendAgain(id?: string): void {
  for (const item of outbox.value)
    if (item.state === "refused" && (id === undefined || item.client_id === id))
      change(item.client_id, { state: "waiting", problem: undefined });
  void pump();
}

onLive(() => void pump());

// The entry may come over the socket before the acknowledgement: it is then shown once, as the entry.
onEntries((entries: readonly Entry[]) => {
  for (const entry of entries) {
    const sent = outbox.value.find((o) => o.id === entry.id);
    if (sent) {
      discard(sent.client_id);
      continue;
    }
    if (entry.kind !== "human" || entry.speaker.toUpperCase() !== personName.value.toUpperCase()) continue;
    const twin = outbox.value.find((o) => o.state !== "refused" && !o.id && !o.seen && o.body.trim() === entry.body.trim());
    if (twin) outbox.value = outbox.value.map((o) => (o === twin ? { ...o, seen: entry.id } : o));
  }
});

