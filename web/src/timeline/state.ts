/**
 * The timeline as signals: the loaded heads, what of them is shown, and what is picked.
 *
 * Invariant: what an event did, what its author knew, how the files stood: the room says it, and is asked when somebody
 * looks. The heads are read while the view is open only.
 */

import { computed, effect, signal } from "@preact/signals";
import { ApiError } from "../api";
import { api } from "../api_views";
import { onLive } from "../state/live";
import { toast } from "../ui/bits";
import { onEntries, onFrames } from "../state/room";
import { timelineWords, type TimelineWords } from "../state/view";
import type { StandingRewind, TakenBack } from "../timeline_types";
import { EventTable, PAGE, type Place } from "./columns";
import { kindNumber, KINDS } from "./kinds";
import type { Shown } from "./levels";
import type { Picture } from "./picture";
import type { Stretch } from "./scale";
import { isNobody, sentence } from "./words";

/** Events that are read without being asked for. */
const MOST = 200_000;
/** The first page is small: something is there at once. */
const FIRST = 256;
const EVERY_MS = 2500;
/** Milliseconds that what happens in the room is gathered before the newest are read. */
const GATHER_MS = 400;

export const table = new EventTable();
/** Bumped whenever the table has changed. */
export const version = signal(0);
export const reading = signal<"no" | "yes">("no");
export const problem = signal("");
export const hasOlder = signal(false);

let most = MOST;
let open = 0;
let poll: ReturnType<typeof setInterval> | undefined;
let soon: ReturnType<typeof setTimeout> | undefined;
let busy: Promise<void> | null = null;

const NEWEST = Number.MAX_SAFE_INTEGER;

async function quiet(work: () => Promise<void>): Promise<void> {
  try {
    await work();
    problem.value = "";
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    problem.value = [error.message, error.fix].filter(Boolean).join(" ");
  }
}

async function readOlder(): Promise<void> {
  while (table.older && table.size < most && open) {
    table.putOlder(await api.timelineHeads({ before: table.first ?? NEWEST, limit: table.size ? PAGE : FIRST }));
    hasOlder.value = table.older;
    version.value += 1;
  }
}

async function readNewer(): Promise<void> {
  for (let more = true; more && open; ) {
    const page = await api.timelineHeads({ after: table.last ?? 0, limit: PAGE });
    more = page.more;
    if (!page.number.length) return;
    table.putNewer(page);
    version.value += 1;
    if (page.types.some((type) => OPERATIONS.has(type))) void loadTakenBack();
    if (timelineWords.peek().file) void readPath();
  }
}

/** One reader at a time, so that no page comes twice. */
function read(): Promise<void> {
  return (busy ??= quiet(async () => {
    reading.value = "yes";
    if (!table.size) void loadTakenBack();
    if (table.size || !table.older) await readNewer();
    await readOlder();
  }).finally(() => {
    busy = null;
    reading.value = "no";
  }));
}

export function loadOlder(): void {
  most = table.size + MOST;
  void read();
}

function nudge(): void {
  if (!open || document.hidden) return;
  soon ??= setTimeout(() => {
    soon = undefined;
    void read();
  }, GATHER_MS);
}
onEntries(nudge);
onFrames(nudge);
onLive(nudge);

/** Read on as long as it is looked at; the answer ends that. */
export function follow(): () => void {
  open += 1;
  void read();
  poll ??= setInterval(nudge, EVERY_MS);
  return () => {
    open -= 1;
    if (open) return;
    clearInterval(poll);
    poll = undefined;
  };
}

/** Read at once, and say when it is done. */
export async function readNow(): Promise<void> {
  await busy;
  await read();
  await loadTakenBack();
}

// -- what is taken back: the room says it, and is asked when somebody took something back or brought it back

const OPERATIONS = new Set(["timeline.rewound", "timeline.undone", "timeline.redone", "timeline.given_up"]);
export const taken = signal<TakenBack>({ rewinds: [], undo: null, redo: null });

export async function loadTakenBack(): Promise<void> {
  await quiet(async () => {
    const found = await api.takenBack();
    if (JSON.stringify(found) !== JSON.stringify(taken.peek())) taken.value = found;
  });
}

/** By the number of each event that is taken back: the rewind. */
export const gone = computed<ReadonlyMap<number, StandingRewind>>(() => new Map(taken.value.rewinds.flatMap((rewind) => rewind.events.map((number) => [number, rewind] as const))));

const PLACES = { worktree: (rewind: StandingRewind) => ` in the worktree of ${rewind.lane}`, main: () => " on the main branch", branch: (rewind: StandingRewind) => ` on the branch ${rewind.branch}` };
/** "taken back by ann on the main branch, #12"; empty for what stands. */
export function takenWords(number: number): string {
  const rewind = gone.value.get(number);
  return rewind ? `taken back by ${rewind.by}${PLACES[rewind.into](rewind)}, #${rewind.number}` : "";
}

// -- what is shown

export const words = timelineWords;
export function set(change: Partial<TimelineWords>): void {
  timelineWords.value = { ...timelineWords.peek(), ...change };
}

/** The numbers of the events that changed the file or folder of the filter; null = there is no such filter. */
export const pathNumbers = signal<ReadonlySet<number> | null>(null);
let asked = "";

async function readPath(): Promise<void> {
  const file = timelineWords.peek().file;
  asked = file;
  if (!file) {
    pathNumbers.value = null;
    return;
  }
  const found = new Set<number>();
  await quiet(async () => {
    for (let after = 0, more = true; more; ) {
      const page = await api.timelineHeads({ after, path: file, limit: PAGE });
      for (const number of page.number) found.add(number);
      more = page.more && page.number.length > 0;
      after = page.number.at(-1) ?? 0;
    }
    if (asked === file) pathNumbers.value = found;
  });
}

const fileWanted = computed(() => timelineWords.value.file);
effect(() => {
  void fileWanted.value;
  void readPath();
});

const [agentWanted, kindWanted] = [computed(() => timelineWords.value.agent), computed(() => timelineWords.value.kind)];

/** How many rows are of other rooms. */
export const othersCount = computed(() => (void version.value, table.others.size));
/** What other rooms recorded is left out. */
const hereOnly = computed(() => timelineWords.value.here === "1");
/** The place of the wanted name, -1 while no event of it is held; -2 = everybody. */
const whoWanted = computed(() => (void version.value, agentWanted.value ? table.who.find(agentWanted.value) : -2));

const whoShown = computed<ReadonlySet<number> | null>(() => {
  if (whoWanted.value !== -2) return new Set([whoWanted.value]);
  if (!hereOnly.value || !othersCount.value) return null;
  return new Set(table.who.texts.map((_, who) => who).filter((who) => !table.others.has(who)));
});

export const shown = computed<Shown>(() => {
  const kind = kindNumber(kindWanted.value);
  // A change over another's is a change too.
  const kinds = kind < 0 ? (1 << KINDS.length) - 1 : kindWanted.value === "write" ? (1 << kind) | (1 << kindNumber("unseen")) : 1 << kind;
  return { kinds, who: whoShown.value, numbers: pathNumbers.value, gone: gone.value };
});

/** How many names and lanes are known: the rows change with these alone. */
const known = computed(() => (void version.value, `${table.who.texts.length} ${table.lanes.texts.length} ${table.others.size}`));

/** Whose they are: agents first, then people, then what nobody did, then other rooms'. */
export const rows = computed<number[]>(() => {
  void known.value;
  const people = new Set(table.lanes.texts.filter((lane) => lane.includes("/human:")).map((lane) => lane.slice(lane.indexOf("/human:") + 7)));
  const rank = (who: number): number => (table.others.has(who) ? 3 : isNobody(names[who]!) ? 2 : people.has(names[who]!) ? 1 : 0);
  const names = table.who.texts;
  const only = agentWanted.value;
  return names
    .map((_, who) => who)
    .filter((who) => (!only || names[who] === only) && (only || !hereOnly.value || !table.others.has(who)))
    .sort((a, b) => rank(a) - rank(b) || names[a]!.localeCompare(names[b]!));
});

/** The agents that there are rows of. */
export const agentNames = (): string[] => rows.value.filter((who) => !table.others.has(who)).map((who) => table.who.texts[who]!).filter((name) => !isNobody(name) && !isPerson(name));
/** The name in a lane's key, as the room says it. */
export const nameIn = (lane: string): string => lane === "room/unknown" ? "someone unknown" : lane.slice(lane.indexOf("/") + 1).replace(/^human:/, "");
const lanesHere = (): string[] => table.lanes.texts.filter((_, lane) => !table.othersLanes.has(lane));
export const isPerson = (name: string): boolean => lanesHere().some((lane) => lane.endsWith(`/human:${name}`));
/** The keys of this room's lanes of a name. */
export const lanesOf = (name: string): string[] => lanesHere().filter((lane) => nameIn(lane) === name);
/** The room that recorded it; null = this one. */
export const replicaOf = ({ block, i }: Place): string | null => table.others.get(block.who[i]!) ?? null;
/** An event in words, with what became of it. */
export const story = (place: Place): string => [sentence(table, place), takenWords(place.block.number[place.i]!)].filter(Boolean).join("; ");

// -- the picture, and the moments that are looked at

export interface Look {
  view: Stretch;
  width: number;
  /** Events on the screen. */
  events: number;
}
export const viewNow = signal<Look | null>(null);
export const picture: { current: Picture | null } = { current: null };

const timeOf = (number: string): number | null => {
  void version.value;
  const place = number ? table.find(Number(number)) : null;
  return place ? place.block.at[place.i]! : null;
};
/** When the moments are, in milliseconds; null = none is chosen, or its event is not held. */
export const momentAt = computed(() => timeOf(words.value.at));
export const withAt = computed(() => timeOf(words.value.with));

/** Look at the files as they stood at a time. */
export function look(at: number): void {
  const place = table.treeAt(at);
  if (place) set({ at: String(place.block.number[place.i]!) });
  else toast("The log knows no files before that.");
}
