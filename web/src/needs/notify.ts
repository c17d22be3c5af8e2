/**
 * The browser's notifications of what needs a person, for the kinds that this browser's person turned on.
 *
 * Invariants: one need is one notification (its tag), also where several pages of one browser are open; nothing is
 * shown while one of them is seen; what is settled takes its notification with it; what is turned off in one is off in all.
 */

import { effect, signal } from "@preact/signals";
import { needAt, needs } from "../state/needs";
import { roomNow } from "../state/locks";
import { memory } from "../state/prefs";
import { loaded } from "../state/room";
import { show } from "../state/view";
import { instant } from "../text/format";
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
const kept = (): ReadonlySet<string> => new Set((memory.get("notify") ?? "").split(",").filter((name) => GROUPS.some((group) => group.name === name)));
export const wanted = signal(kept());

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
      if (tag !== TRIAL) needAt.value = tag;
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

/** The needs that are there now, and what was there to be told at the last look, with each answer to a task; null = no look yet: what stands when the page opens is no news. */
let known: ReadonlySet<string> = new Set(), told: ReadonlySet<string> | null = null;
let again: ReturnType<typeof setTimeout> | undefined;
const newsOf = (need: Need): string => need.news ?? need.id;

async function news(all: readonly Need[]): Promise<void> {
  const before = told;
  known = new Set(all.map((need) => need.id));
  const waits = (need: Need): number => (instant(need.tell_at ?? null) ?? 0) - roomNow.peek();
  const due = all.filter((need) => !before || waits(need) <= 0);
  told = new Set([...[...(before ?? [])].filter((key) => key.startsWith("answered:")), ...due.map(newsOf)]);
  clearTimeout(again);
  const held = all.filter((need) => !due.includes(need)).map(waits);
  if (held.length) again = setTimeout(() => void news(needs.peek()), Math.min(...held) + 1000);
  for (const [tag, notification] of shown) if (!known.has(tag) && tag !== TRIAL) notification.close();
  for (const [id, done] of mine) if (!known.has(id)) { mine.delete(id); done(); }
  if (!before || !document.hidden || !wanted.peek().size) return;
  look();
  const fresh = due.filter((need) => !before.has(newsOf(need)) && wanted.peek().has(groupOf(need.kind)));
  if (standing.peek() !== "granted" || !fresh.length || (await somewhereSeen())) return;
  // Of one tag, two that come at the same time from two pages are shown both.
  for (const need of fresh)
    void navigator.locks.request(`relay-need ${need.id}`, { ifAvailable: true }, (lock) =>
      lock && known.has(need.id) && notify(`${kindOf(need).name}: ${need.about}`, need.text, need.id) ? new Promise<void>((done) => mine.set(need.id, done)) : undefined);
}

/** The needs that this page told of, and no other page of the browser tells of as long as they stand; each with what lets go of it. */
const mine = new Map<string, () => void>();

/** Held by each page of this browser that is seen. */
const SEEN = "relay-seen";
let asked = false;
let unsee = (): void => undefined;
function see(): void {
  if (document.hidden) return unsee();
  if (asked || !navigator.locks) return;
  asked = true;
  void navigator.locks.request(SEEN, { mode: "shared" }, () => (document.hidden ? undefined : new Promise<void>((done) => { unsee = done; }))).finally(() => { asked = false; see(); });
}
const somewhereSeen = async (): Promise<boolean> => !!(await navigator.locks?.query())?.held?.some((lock) => lock.name === SEEN);

const TRIAL = "relay-trial";
export const trial = (): boolean => notify("relay", "This is how it looks when something needs you.", TRIAL);

look();
see();
document.addEventListener("visibilitychange", () => { look(); see(); });
// Where a person allows it, or no longer does, beside the address.
void navigator.permissions?.query({ name: "notifications" }).then((permission) => { permission.onchange = look; }, () => undefined);
window.addEventListener("storage", (event) => { if (event.key === "relay.notify") wanted.value = kept(); });
effect(() => {
  const all = needs.value;
  if (loaded.value) void news(all);
});
