/**
 * The browser's notifications of what needs a person, for the kinds that this browser's person turned on.
 *
 * Invariants: one need is one notification (its tag), also where several pages of one browser are open; nothing is
 * shown while the page is seen; what is settled takes its notification with it.
 */

import { effect, signal } from "@preact/signals";
import { needs } from "../state/needs";
import { memory } from "../state/prefs";
import { loaded } from "../state/room";
import { show } from "../state/view";
import type { Need } from "../types";
import { kindOf } from "./words";

export interface Group {
  name: string;
  label: string;
  says: string;
  kinds: readonly string[];
}

/** What is turned on together. A kind of a newer room belongs to the first. */
export const GROUPS: readonly Group[] = [
  { name: "asks", label: "Somebody waits for your answer", says: "permissions, questions, approvals, variants, tasks that may be done", kinds: ["permission", "question", "approval", "exploration", "answered"] },
  { name: "clashes", label: "Work collides", says: "collisions, conflicts", kinds: ["collision", "conflict"] },
  { name: "stops", label: "An agent does not go on", says: "failed agents, spent budgets, silence, talk that is held", kinds: ["failed_agent", "budget", "silent", "held"] },
  { name: "undone", label: "Something was not done", says: "a main branch that fails its tests, unanswered messages, failed tasks, handoffs, branches that did not land, settled work that is not landed, setups that failed, apps that ended", kinds: ["unanswered", "task", "handoff", "main_fails", "not_landed", "settled", "setup_failed", "app_ended"] },
];
const groupOf = (kind: string): string => (GROUPS.find((group) => group.kinds.includes(kind)) ?? GROUPS[0]!).name;

/** The names of the groups that are on. */
export const wanted = signal<ReadonlySet<string>>(new Set((memory.get("notify") ?? "").split(",").filter((name) => GROUPS.some((group) => group.name === name))));

export type Standing = "granted" | "denied" | "default" | "missing" | "insecure" | "broken";
export const standing = signal<Standing>("missing");

/** What the browser says now; a person may have changed it in its settings. */
export function look(): void {
  if (standing.peek() === "broken") return;
  standing.value = typeof Notification === "undefined" ? (isSecureContext ? "missing" : "insecure") : isSecureContext ? Notification.permission : "insecure";
}

/** Turns a group on or off. The browser is asked here, on a person's click, and nowhere else. */
export async function want(name: string, on: boolean): Promise<void> {
  look();
  if (on && standing.peek() === "default") {
    await Notification.requestPermission();
    look();
  }
  const next = new Set(wanted.peek());
  if (on && standing.peek() === "granted") next.add(name);
  else next.delete(name);
  wanted.value = next;
  memory.set("notify", next.size ? [...next].join(",") : null);
}

const shown = new Map<string, Notification>();

/** False: this browser shows none of a page's own, as phones' do not. */
export function notify(title: string, body: string, tag: string): boolean {
  try {
    const notification = new Notification(title, { body, tag });
    notification.onclick = () => {
      notification.close();
      window.focus();
      show("needs");
    };
    notification.onclose = () => shown.delete(tag);
    shown.set(tag, notification);
    return true;
  } catch {
    standing.value = "broken";
    return false;
  }
}

/** The needs that were there at the last look; null = no look yet: what stands when the page opens is no news. */
let known: ReadonlySet<string> | null = null;

function news(all: readonly Need[]): void {
  const before = known;
  known = new Set(all.map((need) => need.id));
  for (const [tag, notification] of shown) if (!known.has(tag) && tag !== TRIAL) notification.close();
  if (!before || !document.hidden || !wanted.peek().size) return;
  look();
  if (standing.peek() !== "granted") return;
  for (const need of all) if (!before.has(need.id) && wanted.peek().has(groupOf(need.kind))) notify(`${kindOf(need).name}: ${need.about}`, need.text, need.id);
}

const TRIAL = "relay-trial";
export const trial = (): boolean => notify("relay", "This is how it looks when something needs you.", TRIAL);

look();
document.addEventListener("visibilitychange", look);
effect(() => {
  const all = needs.value;
  if (loaded.value) news(all);
});
