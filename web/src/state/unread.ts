/** What the reader has not seen: the line, the count in the title, and what is remembered between visits. */

import { computed, effect, signal, untracked } from "@preact/signals";
import { needs } from "./needs";
import { permissions } from "./permissions";
import { memory, personName } from "./prefs";
import { loaded, onEntries, readOlder, room, timeline } from "./room";
import { sayOf } from "./said";
import { view } from "./view";

/** Room number of the last entry that was on a visible screen; null before the first visit's load. */
export const lastRead = signal<number | null>(Number(memory.get("read")) || null);
/** The "new messages" line stands before the first entry above this number: at first, where the last visit ended. */
export const marker = signal<number | null>(lastRead.value);
/** When somebody last looked at the end of the room, in milliseconds. */
const looked = signal(Number(memory.get("looked")) || Date.now());
/** From when on it is new: what `marker` stands for, as a time. */
export const since = signal(looked.value);
const attentive = signal(!document.hidden && document.hasFocus());

const top = computed(() => {
  const t = timeline.value;
  const newest = t.moreAfter ? t.stash : t.entries;
  return newest.reduceRight((max, e) => Math.max(max, e.number), 0);
});

export const unread = computed(() => {
  const from = lastRead.value;
  if (from === null) return 0;
  const t = timeline.value;
  let count = 0;
  for (const list of [t.stash, t.entries])
    for (let i = list.length - 1; i >= 0 && list[i]!.number > from; i--) if (list[i]!.speaker !== personName.value) count++;
  return count;
});

effect(() => {
  const title = [view.value === "room" ? "" : view.value === "needs" ? "Needs you" : view.value[0]!.toUpperCase() + view.value.slice(1), room.value?.name, "relay"].filter(Boolean).join(" · ");
  const asked = permissions.value.length ? `${permissions.value[0]!.agent} asks · ` : needs.value.length ? `${needs.value.length} need${needs.value.length === 1 ? "s" : ""} you · ` : "";
  document.title = asked + (unread.value > 0 ? `(${unread.value > 99 ? "99+" : unread.value}) ${title}` : title);
});

// Entries count as read while the reader looks at the end of the room.
effect(() => {
  if (!loaded.value || !attentive.value || !timeline.value.pinned || timeline.value.moreAfter || !top.value) return;
  if (lastRead.peek() !== top.value) {
    lastRead.value = top.value;
    memory.set("read", String(top.value));
  }
});

// Of what came since the last visit a page more is counted than the first look has read.
effect(() => {
  if (!loaded.value) return;
  untracked(() => {
    const first = timeline.value.entries[0];
    if (first && marker.value !== null && first.number > marker.value + 1) void readOlder().catch(() => undefined);
  });
});

/** Remember where the reader was; the line appears once something newer is there. */
/** Milliseconds and messages, from which on a reader who comes back is told what came. */
const AWAY = 5 * 60_000;
const MANY = 8;
/** The number of the last entry that was read, of a reader who came back to many. */
export const returned = signal<{ after: number; away: number } | null>(null);

function comeBack(): void {
  const after = marker.peek();
  const away = Date.now() - since.peek();
  if (after === null || away < AWAY) return;
  const t = timeline.peek();
  const came = [...t.entries, ...t.stash].filter((e) => e.number > after && e.speaker !== personName.value);
  if (came.length >= MANY) returned.value = { after, away };
}

effect(() => {
  if (loaded.value) untracked(comeBack);
});

function leave(): void {
  marker.value = lastRead.value;
  since.value = looked.value = Date.now();
  memory.set("looked", String(looked.value));
}

export function clearMarker(): void {
  marker.value = null;
}

onEntries((entries) => {
  sayOf(entries.filter((e) => e.speaker !== personName.value && !e.meta.history));
  const away = !attentive.value || !timeline.value.pinned;
  if (away && marker.value === null && entries.some((e) => e.speaker !== personName.value)) leave();
});

addEventListener("focus", () => {
  comeBack();
  attentive.value = !document.hidden;
});
addEventListener("blur", () => {
  attentive.value = false;
  leave();
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) comeBack();
  attentive.value = !document.hidden && document.hasFocus();
  if (document.hidden) leave();
});
