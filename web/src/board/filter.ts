/** Which cards the board shows, and which are selected. */

import { computed, signal } from "@preact/signals";
import { tasks } from "../state/room";
import { ALL, fits, type Filter } from "./fits";

export const STATES: readonly [Filter["state"], string][] = [
  ["", "All states"], ["pending", "Pending"], ["blocked", "Blocked"], ["in_progress", "In progress"], ["done", "Done"], ["failed", "Failed or given up"],
];

export const filter = signal<Filter>(ALL);
export const filtered = computed(() => filter.value.state !== "" || filter.value.who !== "" || filter.value.words.trim() !== "");

/** By number. What leaves the board or the filter is not selected any more. */
const picked = signal<ReadonlySet<number>>(new Set());
export const shown = computed(() => tasks.value.filter((task) => fits(task, filter.value)));
export const selected = computed(() => shown.value.filter((task) => picked.value.has(task.number)).map((task) => task.number));

export function select(number: number, on = !picked.peek().has(number)): void {
  const next = new Set(picked.peek());
  if (on) next.add(number);
  else next.delete(number);
  picked.value = next;
}

export function selectOnly(numbers: Iterable<number>): void {
  picked.value = new Set(numbers);
}
