/**
 * The room as signals. One signal per (message, concern), so that a receipt that changes redraws one row.
 *
 * Invariant: `applyFrames` is the only way live facts come in, in the order of the socket; `cursor` is moved
 * only after the frame that carried it has been applied.
 */

import { batch, computed, signal, type Signal } from "@preact/signals";
import { api, ApiError, knowStart } from "../api";
import type { Task } from "../coordination_types";
import type { Agent, BoardCounts, Command, Cycle, DispatcherState, Entry, Fleet, Frame, Job, RoomState, StreamPiece } from "../types";
import * as board from "./board";
import { heldAsOf, putLock, putSession } from "./locks";
import * as tl from "./timeline";

export const room = signal<RoomState["room"] | null>(null);
const shellCommands = signal<Required<NonNullable<RoomState["shell"]>>>({ start: "bash scripts/start.sh", install: ".venv/bin/relay mcp install", import: ".venv/bin/relay memory import FILE.jsonl", policies: ".venv/bin/relay verify-policy install" });
/** A command as it works on the room's machine; before the room has said so, as the README has it. */
export const shell = (name: "start" | "install" | "import" | "policies"): string => shellCommands.value[name];
export const tail = signal<RoomState["tail"] | null>(null);
export const agents = signal<Agent[]>([]);
/** The whole board once something has asked for it (`readBoard`); until then what somebody has, and what changed. */
export const tasks = signal<Task[]>([]);
/** What the room counts of the board; null: `tasks` is all of it. */
const counts = signal<BoardCounts | null>({ open: 0, last: 0 });
export const boardRead = computed(() => counts.value === null);
export const openTasks = computed(() => counts.value?.open ?? tasks.value.filter((task) => task.status !== "done").length);
/** Is there a task of that number, as far as is known? */
export const isTask = (number: number): boolean => tasks.peek().some((task) => task.number === number) || (number > 0 && number <= (counts.peek()?.last ?? 0));
export const people = signal<string[]>([]);
/** To which other member of the fleet somebody is connected. */
export const peopleAt = signal<Readonly<Record<string, string>>>({});
export const dispatcher = signal<DispatcherState | null>(null);
/** The relays that share the room; null before the room has said so. */
export const fleet = signal<Fleet | null>(null);
export const commands = signal<Command[]>([]);
/** The commands come when somebody begins to write. */
export async function loadCommands(): Promise<void> {
  if (!commands.value.length) commands.value = await api.commands().catch(() => []);
}
export const timeline = signal<tl.Timeline>(tl.emptyTimeline);
export const jobs = signal<ReadonlyMap<number, Job>>(new Map());
export const streams = signal<ReadonlyMap<number, Stream>>(new Map());
export const loaded = signal(false);
export { clockNow as now } from "./clock";

export interface Stream {
  job: number;
  agent: string;
  message_id: string;
  text: string;
  /** Characters of the answer that came before `text` and were not seen: this page came later, or frames were lost. */
  from: number;
  tool: string;
}

/** The last cursor whose frame has been applied. */
let cursor: string | null = null;
export const lastCursor = (): string | null => cursor;

export const workers = computed(() => agents.value.filter((a) => a.name !== "RELAY"));
export const ready = computed(() => workers.value.filter((a) => a.installed && a.enabled && !a.away));
/** Those whose machine cannot be reached. */
export const away = computed(() => workers.value.filter((a) => a.away));

const jobsOf = new Map<string, Signal<Job[]>>();
const cycleOf = new Map<string, Signal<Cycle | null>>();

export function receiptsOf(message: string): Signal<Job[]> {
  let found = jobsOf.get(message);
  if (!found) jobsOf.set(message, (found = signal<Job[]>([])));
  return found;
}

export function cycle(message: string): Signal<Cycle | null> {
  let found = cycleOf.get(message);
  if (!found) cycleOf.set(message, (found = signal<Cycle | null>(null)));
  return found;
}

const byId = new Map<string, Entry>();
export const entryOf = (id: string): Entry | undefined => byId.get(id);
const amended = signal(0);
/** An entry as it is now: who shows it is drawn anew when its author changes or deletes it. */
export const entryNow = (id: string): Entry | undefined => (amended.value, byId.get(id));
/** The number of the newest entry that this page has seen. */
export const newestNumber = (): number => newest;
let newest = 0;
export const numberOf = (id: string): number | null => byId.get(id)?.number ?? null;

/** Entries that are known beside the run of the transcript, such as those that are quoted; of the rest nothing is kept. */
const KNOWN = 2 * tl.MAX_HELD;

function remember(entries: readonly Entry[]): void {
  for (const entry of entries) {
    byId.set(entry.id, entry);
    newest = Math.max(newest, entry.number);
  }
  if (byId.size > KNOWN + tl.PAGE) forget();
}

/** Of what was told longest ago, all goes that is not in the transcript now and is done with. A later look reads it again. */
function forget(): void {
  const t = timeline.peek();
  const held = new Set([...t.entries, ...t.stash].map((e) => e.id));
  const open = new Set([...jobs.peek().values()].filter((job) => !ENDED.has(job.state)).map((job) => job.message_id));
  for (const id of byId.keys()) {
    if (byId.size <= KNOWN) break;
    if (held.has(id) || open.has(id)) continue;
    byId.delete(id);
    jobsOf.delete(id);
    cycleOf.delete(id);
  }
  jobs.value = new Map([...jobs.peek()].filter(([, job]) => byId.has(job.message_id) || open.has(job.message_id)));
}

function putJobs(changed: readonly Job[]): void {
  if (!changed.length) return;
  const next = new Map(jobs.value);
  const touched = new Map<string, Job[]>();
  for (const job of changed) {
    next.set(job.id, job.asked ? job : { ...job, asked: next.get(job.id)?.asked });
    const list = touched.get(job.message_id) ?? receiptsOf(job.message_id).value;
    touched.set(job.message_id, [...list.filter((j) => j.id !== job.id), job].sort((a, b) => a.id - b.id));
  }
  jobs.value = next;
  for (const [message, list] of touched) receiptsOf(message).value = list;
}

function putStream(streams: Map<number, Stream>, piece: StreamPiece): void {
  const held = streams.get(piece.job) ?? { ...piece, text: "", from: piece.offset, tool: "" };
  const at = piece.offset - held.from;
  // Behind a gap (frames without a cursor may be lost) and before what is held (a new attempt) the text begins anew.
  const joins = at >= 0 && at <= held.text.length;
  const text = (joins ? held.text.slice(0, at) : "") + (piece.text ?? "");
  streams.set(piece.job, { ...held, text, from: joins ? held.from : piece.offset, tool: piece.tool ?? held.tool });
}

/** Entries that were read, not told: their receipts may be older than those that `loadRoom` read. */
function recall(entries: readonly Entry[]): void {
  remember(entries);
  const unknown = entries.filter((e) => !jobsOf.get(e.id)?.value.length && (e.kind === "human" || e.kind === "agent")).map((e) => e.id);
  if (!unknown.length) return;
  // What was told meanwhile is newer. Without an answer the entries stand without receipts, as before.
  api.jobsOf(unknown.slice(-tl.PAGE)).then((found) => putJobs(found.filter((job) => !jobs.value.has(job.id))), () => undefined);
}

/** Entries that say something else now than when they came. */
export function amend(changed: readonly Entry[]): void {
  const now = new Map(changed.filter((entry) => byId.has(entry.id)).map((entry) => [entry.id, entry]));
  for (const [id, entry] of now) byId.set(id, entry);
  amended.value++;
  const anew = (held: readonly Entry[]): readonly Entry[] => (held.some((e) => now.has(e.id)) ? held.map((e) => now.get(e.id) ?? e) : held);
  const t = timeline.value;
  timeline.value = { ...t, entries: anew(t.entries), stash: anew(t.stash) };
}

type Listener = (entries: readonly Entry[]) => void;
const listeners: Listener[] = [];
/** Called with live entries, after they are in the timeline. */
export function onEntries(listener: Listener): () => void {
  listeners.push(listener);
  return () => { listeners.splice(listeners.indexOf(listener), 1); };
}

const frameListeners: ((frames: readonly Frame[]) => void)[] = [];
/** Called with the live frames that are not about the transcript, its queue or its board. */
export function onFrames(listener: (frames: readonly Frame[]) => void): void {
  frameListeners.push(listener);
}

const ENDED = new Set(["done", "failed", "skipped", "dead"]);

export function applyFrames(frames: readonly Frame[]): void {
  const entries: Entry[] = [];
  const changed: Job[] = [];
  const flowing = new Map(streams.value);
  let flows = false;
  const others: Frame[] = [];
  batch(() => {
    for (const frame of frames) {
      switch (frame.type) {
        case "entry": {
          const entry = { ...frame.data, cursor: String(frame.data.cursor), to: frame.data.to ?? [], meta: frame.data.meta ?? {} };
          entries.push(entry);
          if (entry.job !== null) flows = flowing.delete(entry.job) || flows;
          break;
        }
        case "receipt":
          changed.push(frame.data);
          if (ENDED.has(frame.data.state)) flows = flowing.delete(frame.data.id) || flows;
          break;
        case "cycle":
          cycle(frame.data.message_id).value = frame.data;
          break;
        case "agent":
          agents.value = agents.value.some((a) => a.name === frame.data.name)
            ? agents.value.map((a) => (a.name === frame.data.name ? frame.data : a))
            : [...agents.value, frame.data];
          break;
        case "task":
          tasks.value = board.changed(tasks.value, frame.data.changed, frame.data.gone);
          if (counts.value) counts.value = frame.data.board;
          meanwhile?.push(frame.data);
          break;
        case "lock":
          putLock(frame.data.lock, frame.data.change);
          break;
        case "session":
          putSession(frame.data.session, frame.data.change);
          break;
        case "stream":
          putStream(flowing, frame.data);
          flows = true;
          break;
        case "people":
          people.value = frame.data.people;
          peopleAt.value = frame.data.people_at ?? {};
          break;
        case "dispatcher":
          dispatcher.value = frame.data;
          break;
        case "fleet":
          fleet.value = frame.data;
          break;
        default: // types of later versions, and those that another part of the page follows
          others.push(frame);
      }
      if (frame.cursor !== null && frame.cursor !== undefined && frame.type !== "hello") cursor = String(frame.cursor);
    }
    putJobs(changed);
    if (flows) streams.value = flowing;
    if (entries.length) {
      remember(entries);
      timeline.value = tl.arrive(timeline.value, entries);
    }
  });
  if (entries.length) for (const listener of [...listeners]) listener(entries);
  if (others.length) for (const listener of frameListeners) listener(others);
}

function takeState(state: Omit<RoomState, "commands">): void {
  shellCommands.value = { ...shellCommands.peek(), ...state.shell };
  knowStart(shell("start"));
  room.value = state.room;
  agents.value = state.agents;
  if (counts.peek()) counts.value = state.board;
  // A board that somebody wants stands as it was until it comes.
  if (boardWanted) readBoard(true).catch(() => undefined);
  else tasks.value = board.changed([], state.tasks, []);
  heldAsOf(state.locks ?? [], state.sessions ?? [], state.now ?? null);
  people.value = state.people;
  peopleAt.value = state.people_at ?? {};
  dispatcher.value = state.dispatcher;
  fleet.value = state.fleet ?? null;
  tail.value = state.tail;
}

/** What is told of the board while it is read. */
let meanwhile: { changed: Task[]; gone: string[] }[] | null = null;
let boardComes: Promise<void> | null = null;
let boardWanted = false;

/** Have the whole board in `tasks`. `anew`: also where it was read. Raises ApiError. */
export function readBoard(anew = false): Promise<void> {
  if (boardRead.peek() && !anew) return Promise.resolve();
  boardWanted = true;
  meanwhile ??= [];
  boardComes ??= api.tasks().then((all) => {
    // What came while it was read is as new, or newer.
    tasks.value = meanwhile!.reduce((now, one) => board.changed(now, one.changed, one.gone), board.changed([], all, []));
    counts.value = null;
  }).finally(() => { boardComes = meanwhile = null; });
  return boardComes;
}

/** Milliseconds between two looks at how far the room is with its transcript: no frame says that. */
const READING = 1000;
let reading: ReturnType<typeof setTimeout> | undefined;
tail.subscribe((far) => {
  clearTimeout(reading);
  // Without an answer it is asked again, unless a look at all of it has told it meanwhile.
  if (far?.catching_up) reading = setTimeout(() => void api.state().then((state) => { tail.value = state.tail; }, () => { if (tail.peek() === far) tail.value = { ...far }; }), READING);
});

/** Entries that are read at first: a screen of them, and what is near above. Rows of the queue: about as many. */
const FIRST = 32;
const FIRST_JOBS = 32;
/** Rows of the queue that are looked at of one state. */
const MOST_JOBS = 400;

/** Of a long queue what the newest rows leave out: what is open, what the first entries ask, and what given tasks wait for. */
async function readOpenJobs(entries: readonly Entry[]): Promise<void> {
  recall(entries);
  const given = tasks.peek().filter((task) => task.status === "in_progress").flatMap((task) => task.given?.at(-1)?.message ?? []);
  const open = (["active", "pending", "failed"] as const).map((of) => api.queue(MOST_JOBS, of));
  const found = await Promise.all([...open, ...(given.length ? [api.jobsOf(given.slice(0, 100))] : [])]);
  putJobs(found.flat().filter((job) => !jobs.value.has(job.id)));
}

/** The first look: state, newest entries and receipts; the socket goes on from the page's cursor. */
export async function loadRoom(): Promise<void> {
  const [state, page, queue] = await Promise.all([api.state(), api.newest(FIRST), api.queue(FIRST_JOBS)]);
  batch(() => {
    takeState(state);
    putJobs(queue);
    remember(page.entries);
    timeline.value = tl.load(page.entries, page.more);
    loaded.value = true;
  });
  cursor = page.next ?? String(state.room.cursor);
  // Without an answer those rows are missing until they change.
  if (queue.length === FIRST_JOBS) readOpenJobs(page.entries).catch(() => undefined);
}

/** After a reconnection: what has no cursor is read anew. */
export async function refresh(): Promise<void> {
  const [state, queue] = await Promise.all([api.state(), api.queue(MOST_JOBS)]);
  batch(() => {
    takeState(state);
    putJobs(queue);
    const active = new Set(state.agents.map((a) => a.running?.job));
    streams.value = new Map([...streams.value].filter(([job]) => active.has(job)));
  });
}

let paging = false;

/** `cut`: rows that leave the DOM at the other end. */
export async function pageUp(cut = 0): Promise<void> {
  const t = timeline.value;
  if (t.start > 0) {
    timeline.value = tl.up(t, cut);
    return;
  }
  await readOlder();
}

/** A page more of the past is held, and the first rows of it shown. */
export async function readOlder(): Promise<void> {
  const t = timeline.value;
  const first = t.entries[0];
  if (!t.moreBefore || !first || paging) return;
  paging = true;
  try {
    const page = await api.before(first.cursor, tl.PAGE);
    recall(page.entries);
    // The run may have been replaced meanwhile; a page that does not join it is dropped.
    if (timeline.value.entries[0]?.id === first.id) timeline.value = tl.prepend(timeline.value, page.entries, page.more);
  } finally {
    paging = false;
  }
}

export async function pageDown(cut = 0): Promise<void> {
  const t = timeline.value;
  if (t.end < t.entries.length) {
    timeline.value = tl.down(t, cut);
    return;
  }
  const last = t.entries[t.entries.length - 1];
  if (!t.moreAfter || !last || paging) return;
  paging = true;
  try {
    const page = await api.after(last.cursor, tl.PAGE);
    recall(page.entries);
    if (timeline.value.entries.at(-1)?.id === last.id)
      timeline.value = tl.extend(timeline.value, page.entries, page.entries.length < tl.PAGE);
  } finally {
    paging = false;
  }
}

export async function goToEnd(): Promise<void> {
  marked.value = null;
  if (!timeline.value.moreAfter) {
    timeline.value = tl.pin(timeline.value, true);
    return;
  }
  const page = await api.newest(tl.PAGE);
  recall(page.entries);
  const stash = timeline.value.stash;
  timeline.value = tl.arrive(tl.load(page.entries, page.more), stash);
}

/** What opens in the transcript opens below where the reader looks, also at its end. */
export function stay(): void {
  timeline.value = tl.pin(timeline.value, false);
}

export interface Focus {
  id: string;
  /** Changes at every jump, so that the same entry can be jumped to twice. */
  at: number;
}

/** The entry the reader jumped to. */
export const focus = signal<Focus | null>(null);

/** The same entry, marked until the reader goes on: to the end, to another entry, or to another view. */
export const marked = signal<Entry | null>(null);

/** Bring an entry into view, from wherever it is. `target`: an id, or a room number as text. */
export async function jumpTo(target: string): Promise<boolean> {
  const matches = (e: Entry): boolean => e.id === target || String(e.number) === target;
  const t = timeline.value;
  const at = t.entries.findIndex(matches);
  if (at >= 0) {
    batch(() => {
      timeline.value = at >= t.start && at < t.end ? { ...t, pinned: false } : tl.around(t, at);
      focus.value = { id: t.entries[at]!.id, at: Date.now() };
      marked.value = t.entries[at]!;
    });
    return true;
  }
  try {
    const page = await api.around(/^\d+$/.test(target) ? `#${target}` : target, tl.PAGE);
    const found = page.entries.find(matches);
    if (!found) return false;
    recall(page.entries);
    // What came while the page was read is in the run that is left behind.
    const since = page.entries[page.entries.length - 1]!.number;
    const before = timeline.value;
    const arrived = page.moreAfter ? [] : [...before.entries, ...before.stash].filter((e) => e.number > since);
    batch(() => {
      timeline.value = tl.arrive(tl.loadAround(page.entries, found.id, page.more, page.moreAfter), arrived);
      focus.value = { id: found.id, at: Date.now() };
      marked.value = found;
    });
    return true;
  } catch (problem) {
    if (problem instanceof ApiError && problem.status === 404) return false;
    throw problem;
  }
}
