/**
 * The scrolling transcript. The DOM holds a window of entries (state/timeline.ts); this file keeps the reader's eye
 * where it is: before rows change it notes one row on the screen and where it stands, afterwards it scrolls so that it
 * stands there again. A pinned reader stays at the end. Rows come in a few in each frame, until NEAR pixels of them
 * stand on both sides, and leave where FAR pixels of them do: so no frame is long, and the DOM stays small.
 */

import { Fragment, type ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { behind, folds, isTold } from "../state/folds";
import { outbox } from "../state/outbox";
import { personName } from "../state/prefs";
import { focus, goToEnd, loaded, marked, pageDown, pageUp, streams, timeline } from "../state/room";
import { clearMarker, marker, since, unread } from "../state/unread";
import { showsEnd, pin, STEP } from "../state/timeline";
import { dayKey, dayName, moment } from "../text/format";
import type { Entry } from "../types";
import { Icon } from "./bits";
import { EntryRow, OutgoingRow, StreamRow } from "./entry";
import { Fold } from "./fold";
import { Lazy } from "./lazy";

const NEAR = 900;
const FAR = 1800;
const AT_END = 48;
const welcome = () => import("./welcome").then((all) => ({ default: all.Welcome }));
/** The jump that was made last: coming back from another view does not make it again. */
let jumped = 0;

interface Anchor {
  id: string;
  top: number;
}

function anchorOf(box: HTMLElement): Anchor | null {
  const top = box.getBoundingClientRect().top;
  const rows = box.querySelectorAll<HTMLElement>(".entry[id]");
  let first = 0;
  for (let end = rows.length; first < end; ) {
    const middle = (first + end) >> 1;
    if (rows[middle]!.getBoundingClientRect().bottom > top + 4) end = middle;
    else first = middle + 1;
  }
  const row = rows[first];
  return row ? { id: row.id, top: row.getBoundingClientRect().top - top } : null;
}

/** What is selected or has the focus stays, however far the reader scrolls: up to MAX_ROWS. */
function inHand(box: HTMLElement): boolean {
  const chosen = getSelection();
  const active = document.activeElement;
  return (active !== box && box.contains(active)) || (chosen !== null && !chosen.isCollapsed && box.contains(chosen.anchorNode));
}

function firstUnread(shown: readonly Entry[], from: number | null): string | null {
  if (from === null) return null;
  return shown.find((e) => e.number > from && e.speaker !== personName.value)?.id ?? null;
}

export function Transcript() {
  const box = useRef<HTMLDivElement>(null);
  const anchor = useRef<Anchor | null>(null);
  /** Where this file scrolled to last: a scroll that ends there is not the reader's. */
  const placed = useRef(-1);
  const filling = useRef(0);
  const [lit, setLit] = useState<string | null>(null);
  const t = timeline.value;
  const shown = t.entries.slice(t.start, t.end);
  const atEnd = showsEnd(t) || t.pinned;
  const flowing = [...streams.value.values()].sort((a, b) => a.job - b.job);
  const outgoing = outbox.value.filter((o) => !o.seen);
  const newId = firstUnread(shown, marker.value);

  const fill = (): void => {
    filling.current ||= requestAnimationFrame(() => {
      filling.current = 0;
      const element = box.current;
      if (!element) return;
      const current = timeline.value;
      const above = element.scrollTop;
      const below = element.scrollHeight - above - element.clientHeight;
      const leave = (pixels: number): number => (pixels > FAR && !inHand(element) ? STEP : 0);
      if (above < NEAR && (current.start > 0 || current.moreBefore)) void pageUp(leave(below));
      else if (below < NEAR && !showsEnd(current)) void pageDown(leave(above));
    });
  };

  const place = (): void => {
    const element = box.current;
    if (!element) return;
    if (timeline.value.pinned) element.scrollTop = element.scrollHeight;
    else if (anchor.current) {
      const row = document.getElementById(anchor.current.id);
      if (row) element.scrollTop += row.getBoundingClientRect().top - element.getBoundingClientRect().top - anchor.current.top;
    }
    placed.current = element.scrollTop;
    anchor.current = anchorOf(element);
    fill();
  };

  useLayoutEffect(place);

  // Pictures, fonts and colours change heights after the rows are in place.
  useEffect(() => {
    const element = box.current!;
    const watcher = new ResizeObserver(place);
    watcher.observe(element);
    watcher.observe(element.firstElementChild!);
    return () => watcher.disconnect();
  }, []);

  const target = focus.value;
  useLayoutEffect(() => {
    if (!target || target.at === jumped) return;
    jumped = target.at;
    const row = document.getElementById(`e-${target.id}`);
    if (!row) return;
    row.scrollIntoView({ block: "center" });
    placed.current = box.current!.scrollTop;
    anchor.current = anchorOf(box.current!);
    row.focus({ preventScroll: true });
    setLit(target.id);
    const timer = setTimeout(() => setLit(null), 2400);
    return () => clearTimeout(timer);
  }, [target?.at]);

  const onScroll = (): void => {
    const element = box.current;
    // A scroll that was under way when the view was left comes in after it.
    if (!element || element.scrollTop === placed.current) return;
    anchor.current = anchorOf(element);
    const below = element.scrollHeight - element.scrollTop - element.clientHeight;
    const current = timeline.value;
    const end = below < AT_END && showsEnd(current);
    if (end !== current.pinned) timeline.value = end ? pin(current, true) : { ...current, pinned: false };
    fill();
  };

  const wanted = (entry: Entry): boolean => entry.id === marked.value?.id || entry.id === focus.value?.id;
  const rows: ComponentChildren[] = [];
  let first = t.start;
  while (first > 0 && folds(t.entries, first)) first--;
  let day = first > 0 ? dayKey(t.entries[first - 1]!.ts) : "";
  // A row that stands for itself; behind what is folded the next one begins anew.
  let previous: Entry | undefined = first > 0 && !folds(t.entries, first - 1) ? t.entries[first - 1] : undefined;
  for (let next; first < t.end; first = next) {
    next = behind(t.entries, first);
    const entry = t.entries[first]!;
    const group = t.entries.slice(first, next).filter((one, i) => i === 0 || wanted(one) || !isTold(t.entries, first + i));
    const key = dayKey(entry.ts);
    const isNew = group.some((one) => one.id === newId);
    if (key !== day || isNew) previous = undefined;
    const row = (one: Entry, before: Entry | undefined) => <EntryRow key={one.id} entry={one} previous={before} lit={lit === one.id} found={marked.value?.id === one.id} />;
    rows.push(
      <Fragment key={entry.id}>
        {key !== day && <div class="day" role="separator"><span>{dayName(entry.ts, Date.now())}</span></div>}
        {isNew && <div class="new-line" role="separator" data-testid="new-line"><span>New since {moment(new Date(since.value).toISOString(), Date.now())}</span></div>}
        {group.length > 1 ? <Fold group={group} wanted={group.some(wanted)}>{() => group.map((one, i) => row(one, group[i - 1]))}</Fold> : row(entry, previous)}
      </Fragment>,
    );
    day = key;
    previous = group.length > 1 ? undefined : entry;
  }
  /** The button that leads there goes; what it stood in has the focus. */
  const end = (): void => { box.current?.focus(); void goToEnd(); };
  return (
    <div class="transcript-wrap">
      <div class="transcript" ref={box} onScroll={onScroll} tabIndex={0} aria-label="Transcript" data-testid="transcript" data-pinned={t.pinned}>
        {/* Rows come and go with the reader too: what is new is told by state/said.ts. */}
        <div class="rows" role="log" aria-live="off" aria-label="Entries">
          {loaded.value && !t.moreBefore && t.start === 0 && shown.length > 0 && <div class="beginning">The beginning of the room</div>}
          {(t.moreBefore || t.start > 0) && <div class="loading-older" aria-hidden="true">older entries…</div>}
          {loaded.value && t.entries.length === 0 && outgoing.length === 0 && <Lazy load={welcome} over />}
          {rows}
          {atEnd && flowing.map((stream) => <StreamRow key={`s${stream.job}`} stream={stream} />)}
          {atEnd && outgoing.map((item) => <OutgoingRow key={item.client_id} item={item} />)}
        </div>
      </div>
      {!t.pinned && (
        <div class="jump">
          <button type="button" class="button jump-button" data-testid="jump-latest" onClick={() => end()}>
            <Icon name="down" size={14} />
            {unread.value > 0 ? `${unread.value} new` : "Latest"}
          </button>
          {marker.value !== null && unread.value > 0 && (
            <button type="button" class="icon-button jump-clear" aria-label="Mark all as read" data-tip="Mark all as read" onClick={() => { clearMarker(); end(); }}>
              <Icon name="check" size={14} />
            </button>
          )}
        </div>
      )}
    </div>
  );
}
