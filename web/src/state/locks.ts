/**
 * Who holds what: locks and the sessions of their holders, told by the live line as it happens.
 *
 * Invariant: a lock whose time is over is not shown, whether or not anybody said so: what expires, expires by the
 * room's clock, which is this machine's plus `skew`.
 */

import { computed, signal } from "@preact/signals";
import { api } from "../api";
import { instant } from "../text/format";
import type { Time } from "../basic_types";
import type { Lock, Session } from "../coordination_types";
import { clockNow } from "./clock";

const heldLocks = signal<readonly Lock[]>([]);
/** Those that live, and those that ended lately. */
export const sessions = signal<readonly Session[]>([]);
/** Milliseconds that an ended session stays in the list. */
export const FAREWELL = 15 * 60_000;
/** Milliseconds by which the room's clock is ahead of this machine's. */
const skew = signal(0);

/** The room's time, in milliseconds. */
export const roomNow = computed(() => clockNow.value + skew.value);
export const locks = computed(() => heldLocks.value.filter((lock) => (instant(lock.expires_at) ?? Infinity) > roomNow.value));

const same = (a: Lock, b: Lock): boolean => a.file_path === b.file_path && a.locked_by === b.locked_by && a.session === b.session;
const sameSession = (a: Session, b: Session): boolean => a.session_id === b.session_id && a.agent_id === b.agent_id;

/** Everything anew, as the room had it at `now`. */
export function heldAsOf(all: readonly Lock[], living: readonly Session[], now: Time): void {
  const at = instant(now);
  // Half a second more or less is the network's.
  const ahead = at === null ? 0 : at - Date.now();
  skew.value = Math.abs(ahead) < 500 ? 0 : ahead;
  heldLocks.value = all;
  const gone = sessions.value.filter((one) => !one.alive && !living.some((other) => sameSession(one, other)) && (instant(one.ended_at) ?? 0) > roomNow.value - FAREWELL);
  sessions.value = [...living, ...gone];
}

/** Read everything anew. Throws ApiError. */
export async function lookAtHeld(): Promise<void> {
  const held = await api.held();
  heldAsOf(held.locks, held.sessions, held.now);
}

/** A lock's lease may have been extended without a word (a claim's heartbeat): what seems to be over is looked at
 * again, each such end once. What cannot be read is not shown, and read when the line is back. */
const SETTLE = 1000;
let lapsed = new Set<string>();
roomNow.subscribe((at) => {
  if (document.hidden) return;
  const over = heldLocks.value.filter((lock) => (instant(lock.expires_at) ?? Infinity) + SETTLE < at).map((lock) => `${lock.fencing_token} ${lock.expires_at}`);
  const fresh = over.some((one) => !lapsed.has(one));
  lapsed = new Set(over);
  if (fresh) lookAtHeld().catch(() => undefined);
});

export function putLock(lock: Lock, change: string): void {
  const known = heldLocks.value.find((other) => same(other, lock));
  const rest = heldLocks.value.filter((other) => other !== known);
  heldLocks.value = change === "released" || change === "forced" ? rest : [...rest, { ...lock, waiting: known?.waiting ?? [] }];
}

/** What an ended session held is free from that moment. */
export function putSession(session: Session, change: string): void {
  const rest = sessions.value.filter((other) => !sameSession(other, session));
  const alive = change !== "ended";
  sessions.value = alive ? [session, ...rest] : [...rest, { ...session, alive, ended_at: session.ended_at ?? roomNow.value / 1000 }];
  if (!alive) {
    heldLocks.value = heldLocks.value.filter((lock) => lock.locked_by !== session.agent_id || lock.session !== session.session_id);
  }
}
