/**
 * What is looked at, as the address: `#/VIEW`, and behind a `?` what lies open over it or is picked in it.
 *
 * Invariant: whoever opens an address sees what its giver saw, as far as it is there; going back and forward never
 * makes an address of its own. Entries and cards have theirs beside these: `#m12`, which is the address of the room as
 * long as that entry is marked in it, `#t3`, `#j4`.
 */

import { batch, effect } from "@preact/signals";
import { readRef, ref } from "../text/reference";
import { marked } from "./room";
import { agentPanel, approvalFocus, conflictOf, memoryWords, NO_MEMORY_WORDS, NO_WORDS, picked, reviewOf, show, taskOpen, timelineWords, verificationShown, view, VIEWS, worktreeOf, type MemoryWords, type Picked, type TimelineWords, type View } from "./view";

/** What the address says of a place in the airspace, by the field of `Picked`. */
const PICKS = { agent: "near", link: "link", advisory: "advisory" } as const;

function pickOf(words: URLSearchParams): Picked {
  const [near, link, advisory] = [words.get("near"), words.get("link"), words.get("advisory")];
  return advisory ? { advisory } : link ? { link } : near ? { agent: near } : null;
}

/** What of the timeline is a number of an event. */
const NUMBERS: readonly string[] = ["event", "at", "with"];
/** Fields whose name is taken in an address. */
const SAID: Readonly<Record<string, string>> = { agent: "who" };

function timelineOf(words: URLSearchParams): TimelineWords {
  const read = (field: string): string => words.get(SAID[field] ?? field) ?? "";
  const fields = Object.keys(NO_WORDS).map((field) => [field, NUMBERS.includes(field) && !/^\d{1,15}$/.test(read(field)) ? "" : read(field)]);
  return Object.fromEntries(fields) as TimelineWords;
}

function memoryOf(words: URLSearchParams): MemoryWords {
  return Object.fromEntries(Object.keys(NO_MEMORY_WORDS).map((field) => [field, words.get(SAID[field] ?? field) ?? ""])) as unknown as MemoryWords;
}

export function addressNow(): string {
  const words = new URLSearchParams();
  if (view.value === "worktrees" && worktreeOf.value) words.set("of", worktreeOf.value);
  if (view.value === "review" && reviewOf.value) words.set("of", reviewOf.value);
  if (view.value === "conflicts" && conflictOf.value !== null) words.set("of", ref("c", conflictOf.value));
  if (view.value === "approvals" && approvalFocus.value !== null) words.set("of", ref("a", approvalFocus.value));
  if (view.value === "airspace" && picked.value)
    for (const [field, what] of Object.entries(picked.value)) words.set(PICKS[field as keyof typeof PICKS], what);
  if (view.value === "timeline")
    for (const [field, what] of Object.entries(timelineWords.value)) if (what) words.set(SAID[field] ?? field, what);
  if (view.value === "memory")
    for (const [field, what] of Object.entries(memoryWords.value)) if (what) words.set(SAID[field] ?? field, what);
  if (verificationShown.value !== null) words.set("results", ref("v", verificationShown.value));
  if (taskOpen.value !== null) words.set("task", String(taskOpen.value));
  if (agentPanel.value) words.set("agent", agentPanel.value);
  const said = words.toString();
  if (view.value === "room" && marked.value && !said) return `#${ref("m", marked.value.number)}`;
  return `#/${view.value}${said && `?${said}`}`;
}

/** The view that an address names; null for one that is no view's. No address at all is the room. */
function viewOf(hash: string): { view: View; words: URLSearchParams } | null {
  const [, name = "room", said = ""] = /^(?:#\/?)?(?:([a-z]+)(?:\?(.*))?)?$/.exec(hash.replace(/^(#\/review)\/([\w-]+)$/, "$1?of=$2")) ?? [, ""];
  return (VIEWS as readonly string[]).includes(name) ? { view: name as View, words: new URLSearchParams(said) } : null;
}

/** The address of what is shown now. */
let shown = "";

/** Show what the address says. False when it is none of a view's. */
export function takeAddress(hash: string): boolean {
  const found = viewOf(hash);
  if (!found) return false;
  const task = found.words.get("task");
  quietly(() => {
    show(found.view);
    marked.value = null;
    taskOpen.value = task && /^\d{1,9}$/.test(task) ? Number(task) : null;
    agentPanel.value = found.words.get("agent");
    if (found.view === "worktrees") worktreeOf.value = found.words.get("of");
    if (found.view === "review") reviewOf.value = found.words.get("of");
    if (found.view === "conflicts") conflictOf.value = readRef(found.words.get("of") ?? "", "c")?.number ?? null;
    if (found.view === "approvals") approvalFocus.value = readRef(found.words.get("of") ?? "", "a")?.number ?? null;
    verificationShown.value = readRef(found.words.get("results") ?? "", "v")?.number ?? null;
    if (found.view === "timeline") timelineWords.value = timelineOf(found.words);
    if (found.view === "memory") memoryWords.value = memoryOf(found.words);
    if (found.view === "airspace") picked.value = pickOf(found.words);
  });
  return true;
}

/** What this shows is what the address, whatever it is, says already. */
export function quietly<T>(change: () => T): T {
  return batch(() => {
    const done = change();
    shown = addressNow();
    return done;
  });
}

/** An address without which event, or which moment, of the timeline is picked; and without what is asked of the memory. */
function steady(address: string): string {
  // An entry of the room is a place in it.
  if (readRef(address)) return "#/room";
  if (address.startsWith("#/timeline")) return address.replace(/\b(event|at|with)=\d+/g, "$1=");
  if (!address.startsWith("#/memory")) return address;
  const [path, said] = address.split("?");
  const words = new URLSearchParams(said);
  for (const field of ["q", "who", "kind", "tag", "time", "steps"]) words.delete(field);
  return `${path}?${words}`;
}

/** From now on what is shown goes into the address, each step one to go back from. */
export function keepAddress(): void {
  shown = addressNow();
  effect(() => {
    const next = addressNow();
    if (next === shown) return;
    // From event to event is one step, and so is what is typed: going back leaves the view, not each letter.
    const same = steady(next) === steady(shown);
    shown = next;
    if (same) history.replaceState(null, "", next);
    else history.pushState(null, "", next);
  });
}
