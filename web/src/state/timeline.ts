/**
 * The transcript as the page holds it: one contiguous run of entries and the window of it that is in the DOM.
 *
 * Invariant: `entries` has no gap and no double; `start..end` never spans more than MAX_ROWS. Everything here
 * is pure, so the rules can be tested as a table. When `moreAfter` is set the run does not reach the present
 * (the reader jumped far back): live entries wait in `stash` until paging forward meets them.
 */

import type { Entry } from "../types";

export const PAGE = 100;
/** Rows that come into the DOM in one frame. What an entry costs is what a frame may take by then. */
export const STEP = 2;
export const MAX_ROWS = 240;
/** Rows below which a pinned reader's window is not cut. */
const FOLLOWED = 120;
/** Entries kept in memory; older ones are paged in again when somebody scrolls there. */
export const MAX_HELD = 20_000;

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

/** The newest rows; the page adds the ones before them, frame by frame, as far as it needs them. */
function atEnd(t: Timeline): Timeline {
  const end = t.entries.length;
  return { ...t, end, start: Math.max(0, end - STEP * 2) };
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
  let next: Timeline = { ...t, entries: [...t.entries, ...added] };
  if (next.pinned) {
    const spare = next.entries.length - MAX_HELD;
    if (spare > 0) next = { ...next, entries: next.entries.slice(spare), moreBefore: true, start: Math.max(0, next.start - spare) };
    // Fewer than MAX_ROWS, so that a busy room does not rebuild a long list; and no more new ones than a frame can take.
    const end = next.entries.length;
    const start = end - next.start <= FOLLOWED ? next.start : end - FOLLOWED;
    return added.length > STEP * 2 ? atEnd(next) : { ...next, end, start };
  }
  // A short room that is not scrolled yet: the new rows come into the DOM below the reader.
  if (t.end === t.entries.length && next.entries.length - t.start <= MAX_ROWS) next.end = next.entries.length;
  return next;
}

/** An older page arrives in front. */
export function prepend(t: Timeline, page: readonly Entry[], more: boolean): Timeline {
  const added = fresh(t.entries, page);
  return up({
    ...t,
    entries: [...added, ...t.entries],
    start: t.start + added.length,
    end: t.end + added.length,
    moreBefore: more && page.length > 0,
  });
}

/** A newer page arrives behind, while the reader is in the past. `reached` = it was the last one. */
export function extend(t: Timeline, page: readonly Entry[], reached: boolean): Timeline {
  let entries: readonly Entry[] = [...t.entries, ...fresh(t.entries, page)];
  if (!reached) return down({ ...t, entries });
  entries = [...entries, ...fresh(entries, t.stash)];
  return down({ ...t, entries, moreAfter: false, stash: [] });
}

/** Show older rows that are held already. */
export function up(t: Timeline): Timeline {
  const start = Math.max(0, t.start - STEP);
  const end = Math.min(t.end, start + MAX_ROWS);
  return { ...t, start, end, pinned: t.pinned && end === t.end };
}

/** Show newer rows that are held already. */
export function down(t: Timeline): Timeline {
  const end = Math.min(t.entries.length, t.end + STEP);
  return { ...t, end, start: Math.max(t.start, end - MAX_ROWS) };
}

/** The reader goes to the end (or leaves it). */
export function pin(t: Timeline, pinned: boolean): Timeline {
  if (t.pinned === pinned) return t;
  return pinned && !showsEnd(t) ? atEnd({ ...t, pinned }) : { ...t, pinned };
}

/** Bring the entry at an index into the window. */
export function around(t: Timeline, index: number): Timeline {
  const start = Math.max(0, index - STEP);
  return { ...t, pinned: false, start, end: Math.min(t.entries.length, start + STEP * 2) };
}

/** True when the newest entry is in the DOM. */
export function showsEnd(t: Timeline): boolean {
  return !t.moreAfter && t.end === t.entries.length;
}
