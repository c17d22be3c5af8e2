/**
 * The timeline as signals: the loaded heads, what of them is shown, and what is picked.
 *
 * Invariant: what an event did, what its author knew, how the files stood: the room says it, and is asked when somebody
 * looks. The heads are read while the view is open only.
 */

import { computed, effect, signal } from "@preact/signals";
import { api, ApiError } from "../api";
import { onLive } from "../state/live";
import { toast } from "../ui/bits";
import { onEntries, onFrames } from "../state/room";
import { timelineWords, type TimelineWords } from "../state/view";
import { EventTable, PAGE } from "./columns";
import { kindNumber, KINDS } from "./kinds";
import type { Shown } from "./levels";
import type { Picture } from "./picture";
import type { Stretch } from "./scale";
import { isNobody } from "./words";

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
    if (timelineWords.peek().file) void readPath();
  }
}

/** One reader at a time, so that no page comes twice. */
function read(): Promise<void> {
  return (busy ??= quiet(async () => {
    reading.value = "yes";
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

/** The place of the wanted name, -1 while no event of it is held; -2 = everybody. */
const whoWanted = computed(() => (void version.value, agentWanted.value ? table.who.find(agentWanted.value) : -2));

export const shown = computed<Shown>(() => {
  const kind = kindNumber(kindWanted.value);
  // A change over another's is a change too.
  const kinds = kind < 0 ? (1 << KINDS.length) - 1 : kindWanted.value === "write" ? (1 << kind) | (1 << kindNumber("unseen")) : 1 << kind;
  return { kinds, who: whoWanted.value === -2 ? null : new Set([whoWanted.value]), numbers: pathNumbers.value };
});

/** How many names and lanes are known: the rows change with these alone. */
const known = computed(() => (void version.value, `${table.who.texts.length} ${table.lanes.texts.length}`));

/** Whose they are: agents first, then people, then what nobody did. */
export const rows = computed<number[]>(() => {
  void known.value;
  const people = new Set(table.lanes.texts.filter((lane) => lane.includes("/human:")).map((lane) => lane.slice(lane.indexOf("/human:") + 7)));
  const rank = (name: string): number => (isNobody(name) ? 2 : people.has(name) ? 1 : 0);
  const names = table.who.texts;
  const only = agentWanted.value;
  return names
    .map((_, who) => who)
    .filter((who) => !only || names[who] === only)
    .sort((a, b) => rank(names[a]!) - rank(names[b]!) || names[a]!.localeCompare(names[b]!));
});

/** The agents that there are rows of. */
export const agentNames = (): string[] => rows.value.map((who) => table.who.texts[who]!).filter((name) => !isNobody(name) && !isPerson(name));
/** The name in a lane's key. */
export const nameIn = (lane: string): string => lane.slice(lane.indexOf("/") + 1).replace(/^human:/, "");
export const isPerson = (name: string): boolean => table.lanes.texts.some((lane) => lane.endsWith(`/human:${name}`));
/** The keys of the lanes of a name. */
export const lanesOf = (name: string): string[] => table.lanes.texts.filter((lane) => nameIn(lane) === name);

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
