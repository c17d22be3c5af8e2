/**
 * Who works here on their own: agents that people run themselves, known by their sessions (MCP, HTTP), and none of
 * the configuration's.
 *
 * Invariant: nothing is kept here. Who has no living session is shown as gone for as long as an ended session is
 * (state/locks.ts), and then no more.
 */

import { computed } from "@preact/signals";
import { instant } from "../text/format";
import type { Attached, Lock, Session, Task } from "../coordination_types";
import { FAREWELL, locks, lookAtHeld, roomNow, sessions } from "./locks";
import { setMentions } from "../text/markdown";
import { agents, people, tasks } from "./room";

export interface Visitor {
  name: string;
  /** The latest heard first; only living ones while there is one. */
  sessions: Session[];
  alive: boolean;
}

/** Milliseconds without a word after which that is said of a session. A call of a tool may take some minutes. */
export const QUIET = 120_000;
/** Milliseconds between two looks at what they do and when they were heard from, which nobody tells. */
const LOOK = 5_000;

const heard = (session: Session): number => instant(session.heartbeat_at) ?? 0;
const gone = (session: Session, at: number): boolean => !session.alive && (instant(session.ended_at) ?? 0) <= at - FAREWELL;

export const visitors = computed<Visitor[]>(() => {
  const own = new Set(agents.value.map((a) => a.name.toUpperCase()));
  const found = new Map<string, Session[]>();
  for (const session of sessions.value) {
    if (session.agent_type === "person" || own.has(session.agent_id.toUpperCase()) || gone(session, roomNow.value)) continue;
    found.set(session.agent_id, [...(found.get(session.agent_id) ?? []), session]);
  }
  return [...found]
    .map(([name, all]) => {
      const living = all.filter((session) => session.alive);
      return { name, alive: living.length > 0, sessions: (living.length ? living : all).sort((a, b) => heard(b) - heard(a)) };
    })
    .sort((a, b) => Number(b.alive) - Number(a.alive) || a.name.localeCompare(b.name));
});
/** What a person's own session does, in words. */
export function doing(attached: Attached): string {
  return attached.state === "waiting" ? "waits for its person" : attached.state;
}
const same = (a: string, b: string): boolean => a.toUpperCase() === b.toUpperCase();
export const visitorOf = (name: string): Visitor | undefined => visitors.value.find((visitor) => same(visitor.name, name));
/** `@NAME` in a text is a mention of an agent of the room, of one that is here on its own, or of a person who is here. */
setMentions((name) => agents.peek().some((a) => same(a.name, name)) || visitors.peek().some((visitor) => same(visitor.name, name)) || people.peek().some((person) => same(person, name)));
export const locksOf = (name: string): Lock[] => locks.value.filter((lock) => lock.locked_by === name);
export const claimsOf = (name: string): Task[] => tasks.value.filter((task) => task.status === "in_progress" && task.assignee === name);

/** How a session came, in words. The ids of docs/coordination.md, "Who asks". */
export function cameBy(session: Session): string {
  if (session.kind === "process" || session.session_id.startsWith("mcp-")) return "over MCP";
  return session.session_id.startsWith("key-") ? "over HTTP, by its key" : "by a named session";
}

let looked = 0;
roomNow.subscribe((at) => {
  if (document.hidden || Math.abs(at - looked) < LOOK || !visitors.peek().some((visitor) => visitor.alive)) return;
  looked = at;
  // What cannot be read now is read at the next look.
  lookAtHeld().catch(() => undefined);
});
