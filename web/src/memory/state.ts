/**
 * What is remembered, as signals: what was asked for, what was found, and what was forgotten here meanwhile.
 *
 * Invariant: the room finds and weighs; the page shows the answer to the last question only, whatever comes when. The
 * question stands in the address.
 */

import { effect, signal, untracked, type ReadonlySignal } from "@preact/signals";
import { ApiError } from "../api";
import { api } from "../api_views";
import { line } from "../state/live";
import { onEntries } from "../state/room";
import { memoryWords, show, showEntry, taskOpen, timelineWords, NO_WORDS, type MemoryWords } from "../state/view";
import { ref } from "../text/reference";
import { toast } from "../ui/bits";
import type { Choices, Feedback, Memory, Source } from "./types";
import { since } from "./words";

/** Milliseconds without a key before the room is asked; and that what is said in the room is gathered. */
const TYPING_MS = 180;
const GATHER_MS = 1500;
/** Memories at first, with each "more", and at most (the room's own bound). */
const FIRST = 25;
const MOST = 100;

export const memories = signal<readonly Memory[] | null>(null);
export const choices = signal<Choices>({ agents: [], kinds: [], tags: [] });
export const more = signal(false);
/** The memory that was asked for by its number, and is forgotten. */
export const gone = signal<string | null>(null);
export const reading = signal(false);
export const problem = signal("");
const limit = signal(FIRST);

/** What was forgotten on this page: `r14`, or the id of an entry of the knowledge. */
export const forgotten = signal<ReadonlySet<string>>(new Set());

/** What a memory is forgotten by: its number, or the id of knowledge; null of a skill. */
export const nameOf = (memory: { memory_type: string; number?: number | null; memory_id: string }): string | null =>
  memory.memory_type === "procedural" ? null : memory.number ? ref("r", memory.number) : memory.memory_type === "knowledge" ? memory.memory_id : null;

export function set(words: Partial<MemoryWords>): void {
  memoryWords.value = { ...memoryWords.peek(), ...words };
}

export const isFiltered = (words: MemoryWords): boolean => Boolean(words.agent || words.kind || words.tag || words.time);

export function showMore(): void {
  limit.value = Math.min(MOST, limit.peek() + FIRST);
}
export const canShowMore = (): boolean => more.value && limit.value < MOST;

/** What the room refused, or that it is not there, with what to do. Throws on what is neither. */
export const wentWrong = (caught: unknown): string => {
  if (!(caught instanceof ApiError)) throw caught;
  return [caught.message, caught.fix].filter(Boolean).join(" ");
};

/** Asks again what failed when the line to the room is back. Gives what ends it. */
export function againWhenBack(problem: ReadonlySignal<string>, ask: () => void): () => void {
  return effect(() => {
    if (line.value.state === "live" && untracked(() => problem.value)) ask();
  });
}

let asked = 0;

async function read(words: MemoryWords): Promise<void> {
  const mine = ++asked;
  reading.value = true;
  try {
    const found = await api.memory({ q: words.q.trim(), agent: words.agent, kind: words.kind, tag: words.tag, since: since(words.time, Date.now()), limit: limit.peek() });
    if (mine !== asked) return;
    memories.value = found.memories;
    more.value = found.more;
    gone.value = found.forgotten;
    choices.value = found.choices;
    problem.value = "";
  } catch (caught) {
    const said = wentWrong(caught);
    if (mine === asked) problem.value = said;
  } finally {
    if (mine === asked) reading.value = false;
  }
}

let open = 0;
let soon: ReturnType<typeof setTimeout> | undefined;

/** Follow what is asked for while the view is open. Gives what ends it. */
export function follow(): () => void {
  open += 1;
  let before: MemoryWords | null = null;
  let most = limit.peek();
  const end = effect(() => {
    const words = memoryWords.value;
    // Read each time, as the effect follows what it read last.
    const wanted = limit.value;
    const same = before !== null && words.q === before.q && words.agent === before.agent && words.kind === before.kind && words.tag === before.tag && words.time === before.time;
    if (same && most === wanted) return;
    if (!same) limit.value = FIRST;
    const typed = before !== null && words.q !== before.q;
    before = words;
    most = limit.peek();
    clearTimeout(soon);
    soon = setTimeout(() => void read(words), typed ? TYPING_MS : 0);
  });
  const endAgain = againWhenBack(problem, () => void read(memoryWords.peek()));
  return () => {
    open -= 1;
    clearTimeout(soon);
    end();
    endAgain();
  };
}

let gathering: ReturnType<typeof setTimeout> | undefined;
// What is said now is remembered soon: the newest are read again. What answers a question is left where it stands.
onEntries(() => {
  if (!open || memoryWords.peek().q.trim()) return;
  clearTimeout(gathering);
  gathering = setTimeout(() => void (open && !document.hidden && read(memoryWords.peek())), GATHER_MS);
});

/** Forget it for everybody. Raises ApiError. */
export async function forget(name: string): Promise<void> {
  await api.forgetMemory(name);
  forgotten.value = new Set([...forgotten.peek(), name]);
  memories.value = memories.peek()?.filter((memory) => nameOf(memory) !== name) ?? null;
}

/** Say whether it helped; the last word counts. Raises ApiError. */
export async function judge(id: string, useful: boolean): Promise<Feedback> {
  const { useful: yes, useless: no } = await api.judgeMemory(id, useful);
  const said = { useful: yes, useless: no, mine: useful };
  memories.value = memories.peek()?.map((other) => (other.memory_id === id ? { ...other, feedback: said } : other)) ?? null;
  return said;
}

/** Show where a memory comes from. */
export async function openSource(source: Source): Promise<void> {
  if (source.message) {
    if (!(await showEntry(source.message))) toast("That message is not here any more.", { tone: "problem" });
  } else if (source.task !== null) {
    taskOpen.value = source.task;
  } else {
    timelineWords.value = source.event === null ? { ...NO_WORDS, at: String(source.moment) } : { ...NO_WORDS, event: String(source.event) };
    show("timeline");
  }
}

/** Show where what was made of an event comes from. Raises ApiError. */
export async function openEvent(event: string): Promise<void> {
  await openSource(await api.memorySource(event));
}
