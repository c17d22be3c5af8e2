/**
 * The transcript as the page holds it: one contiguous run of entries and the window of it that is in the DOM.
 *
 * Invariant: `entries` has no gap and no double; `start..end` never spans more than MAX_ROWS rows, where what folds into
 * another (state/folds.ts) is none, nor more than 2 * MAX_ROWS entries. Everything here is pure, so the rules can be tested as a table. When `moreAfter` is set the run does not reach the present
 * (the reader jumped far back): live entries wait in `stash` until paging forward meets them.
 */

import type { Entry } from "../types";
import { folds } from "./folds";

export const PAGE = 100;
/** Rows that come into the DOM in one frame, at most. */
export const STEP = 4;
/** Characters of them, beyond which a further row waits for the next frame: what drawing them takes. */
const HEAVY = 300;
/** Rows in the DOM at most. The page takes those out that are far from the reader, mostly long before (transcript.tsx). */
export const MAX_ROWS = 240;
/** Rows below which a pinned reader's window is not cut. */
const FOLLOWED = 120;
/** Entries kept in memory; what is further away on either side is paged in again when somebody scrolls there. */
export const MAX_HELD = 2_000;

export interface Timeline {
  entries: readonly Entry[];
  start: number;
  end: number;
  /** The reader follows the end of the room. */
  pinned: boolean;
  moreBefore: boolean;
  moreAfter: boolean;
  stash: readonly Entry[];
}

export const emptyTimeline: Timeline = {
  entries: [],
  start: 0,
  end: 0,
  pinned: true,
  moreBefore: false,
  moreAfter: false,
  stash: [],
};

function fresh(held: readonly Entry[], incoming: readonly Entry[]): Entry[] {
  const known = new Set(held.map((e) => e.id));
  return incoming.filter((e) => !known.has(e.id) && known.add(e.id));
}

/** Entries that come at once where they fold into few rows. */
const MANY = 60;

/** How many entries from the index `at` on come into the DOM at once; `by` = 1: downwards, -1: upwards. */
function few(entries: readonly Entry[], at: number, by: 1 | -1): number {
  let count = 0;
  for (let rows = 0, weight = 0; entries[at] && rows < STEP && weight < HEAVY && count < MANY; at += by, count++) {
    if (folds(entries, at)) continue;
    weight += entries[at]!.body.length;
    if (rows && weight > HEAVY) break;
    rows += 1;
  }
  return count;
}

/** The index that is `rows` rows away from `from`, as far as there are any. */
function away(entries: readonly Entry[], from: number, rows: number, by: 1 | -1): number {
  const least = Math.max(0, from - 2 * MAX_ROWS);
  const most = Math.min(entries.length, from + 2 * MAX_ROWS);
  let at = from;
  while (rows > 0 && (by > 0 ? at < most : at > least)) {
    if (by < 0) at -= 1;
    if (!folds(entries, at)) rows -= 1;
    if (by > 0) at += 1;
  }
  return at;
}

/** The newest rows; the page adds the ones before them, frame by frame, as far as it needs them. */
function atEnd(t: Timeline): Timeline {
  const end = t.entries.length;
  return { ...t, end, start: end - few(t.entries, end - 1, -1) };
}

/** At most MAX_HELD entries: those are let go of that are furthest from the window, before it or behind it. */
function bounded(t: Timeline): Timeline {
  const spare = t.entries.length - MAX_HELD;
  if (spare <= 0) return t;
  const before = Math.min(spare, Math.max(0, t.start - PAGE));
  const first = t.start > t.entries.length - t.end ? before : 0;
  if (first) return { ...t, entries: t.entries.slice(first), start: t.start - first, end: t.end - first, moreBefore: true };
  // What comes live is behind a gap then, as after a jump into the past.
  const end = Math.max(t.end, t.entries.length - spare);
  return end === t.entries.length ? t : { ...t, entries: t.entries.slice(0, end), moreAfter: true, pinned: false };
}

/** Start anew with a page that reaches the present. */
export function load(page: readonly Entry[], more: boolean): Timeline {
  return atEnd({ ...emptyTimeline, entries: page, moreBefore: more });
}

/** Start anew with a page from the past, with the entry `id` in view. */
export function loadAround(page: readonly Entry[], id: string, more: boolean, moreAfter: boolean): Timeline {
  const at = Math.max(0, page.findIndex((e) => e.id === id));
  return around({ ...emptyTimeline, entries: page, pinned: false, moreBefore: more, moreAfter }, at);
}

/** Live entries arrive. `fresh` says which of them were new. */
export function arrive(t: Timeline, incoming: readonly Entry[]): Timeline {
  if (t.moreAfter) {
    const added = fresh([...t.entries, ...t.stash], incoming);
    return added.length ? { ...t, stash: [...t.stash, ...added].slice(-MAX_HELD) } : t;
  }
  const added = fresh(t.entries, incoming);
  if (!added.length) return t;
  const next: Timeline = { ...t, entries: [...t.entries, ...added] };
  if (next.pinned) {
    // What comes at once comes into the DOM in steps, as everything does (`down`); a page of it begins anew at the end.
    if (next.entries.length - next.end > MAX_ROWS / 4) return bounded(atEnd(next));
    const end = next.end + few(next.entries, next.end, 1);
    // Fewer than MAX_ROWS, so that a busy room does not rebuild a long list.
    return bounded({ ...next, end, start: Math.max(next.start, away(next.entries, end, FOLLOWED, -1)) });
  }
  // A short room that is not scrolled yet: the new rows come into the DOM below the reader.
  if (t.end === t.entries.length && next.entries.length - t.start <= MAX_ROWS) next.end = next.entries.length;
  return bounded(next);
}

/** An older page arrives in front. */
export function prepend(t: Timeline, page: readonly Entry[], more: boolean): Timeline {
  const added = fresh(t.entries, page);
  return up(
    bounded({
      ...t,
      entries: [...added, ...t.entries],
      start: t.start + added.length,
      end: t.end + added.length,
      moreBefore: more && page.length > 0,
    }),
  );
}

/** A newer page arrives behind, while the reader is in the past. `reached` = it was the last one. */
export function extend(t: Timeline, page: readonly Entry[], reached: boolean): Timeline {
  let entries: readonly Entry[] = [...t.entries, ...fresh(t.entries, page)];
  if (!reached) return down(bounded({ ...t, entries }));
  entries = [...entries, ...fresh(entries, t.stash)];
  return down(bounded({ ...t, entries, moreAfter: false, stash: [] }));
}

/** Show older rows that are held already. `cut`: rows that leave the DOM at the other end. */
export function up(t: Timeline, cut = 0): Timeline {
  const start = t.start - few(t.entries, t.start - 1, -1);
  const end = Math.min(t.end - Math.min(cut, t.end - t.start), away(t.entries, start, MAX_ROWS, 1));
  return { ...t, start, end, pinned: t.pinned && end === t.end };
}

/** Show newer rows that are held already. `cut`: rows that leave the DOM at the other end. */
export function down(t: Timeline, cut = 0): Timeline {
  const end = t.end + few(t.entries, t.end, 1);
  return { ...t, end, start: Math.max(t.start + Math.min(cut, t.end - t.start), away(t.entries, end, MAX_ROWS, -1)) };
}

/** The reader goes to the end (or leaves it). */
export function pin(t: Timeline, pinned: boolean): Timeline {
  if (t.pinned === pinned) return t;
  return pinned && !showsEnd(t) ? atEnd({ ...t, pinned }) : { ...t, pinned };
}

/** Bring the entry at an index into the window. */
export function around(t: Timeline, index: number): Timeline {
  const start = index - few(t.entries, index - 1, -1);
  return { ...t, pinned: false, start, end: index + few(t.entries, index, 1) };
}

/** True when the newest entry is in the DOM. */
export function showsEnd(t: Timeline): boolean {
  return !t.moreAfter && t.end === t.entries.length;
}
