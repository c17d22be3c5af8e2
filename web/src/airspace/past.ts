/** The replay: the samples that were read, and where in them the slider stands. */

import { batch, computed, effect, signal } from "@preact/signals";
import { api } from "../api_views";
import { airspace } from "../state/airspace";
import { now } from "../state/room";
import { appended, inOrder, stillAt, type Still } from "./replay";

export const HOURS = [1, 4, 12] as const;
export const SPEEDS = [10, 60, 300] as const;
const HOUR = 3_600_000;

export const stills = signal<readonly Still[]>([]);
export const hours = signal<number>(4);
/** The time that is looked at; null = live. */
export const pastAt = signal<number | null>(null);
export const playing = signal(false);
export const speed = signal<number>(SPEEDS[1]);
export const problem = signal("");

/** The slider's ends: not before the first sample, and to the present. */
export const ends = computed(() => {
  const to = Math.floor(now.value / 5000) * 5000 + 5000;
  const from = to - hours.value * HOUR;
  const first = stills.value.find((s) => s.at >= from)?.at;
  // With little past, the little there is takes the whole width; but a minute at least.
  return { from: first === undefined ? from : Math.min(Math.max(from, first), to - 60_000), to };
});

export const still = computed(() => (pastAt.value === null ? null : stillAt(stills.value, pastAt.value)));

export async function loadPast(): Promise<void> {
  const to = Date.now();
  try {
    const samples = await api.airspaceHistory(new Date(to - hours.value * HOUR).toISOString(), new Date(to + 1000).toISOString());
    stills.value = inOrder(samples);
    problem.value = "";
  } catch (reason) {
    problem.value = (reason as Error).message;
  }
}

/** What is told live is the newest past. */
export function followLive(): () => void {
  return effect(() => {
    const state = airspace.value;
    if (state) stills.value = appended(stills.peek(), state);
  });
}

export function live(): void {
  batch(() => {
    pastAt.value = null;
    playing.value = false;
  });
}

export function seek(at: number): void {
  if (at >= ends.value.to - 1) live();
  else pastAt.value = at;
}

let frame = 0;
let last = 0;

function step(time: number): void {
  frame = 0;
  const at = pastAt.value;
  if (!playing.value || at === null) return;
  const next = at + Math.min(250, time - last) * speed.value;
  last = time;
  // Where the present is reached, it goes on live.
  if (next >= Date.now()) return live();
  pastAt.value = next;
  frame = requestAnimationFrame(step);
}

export function play(): void {
  batch(() => {
    pastAt.value ??= ends.value.from;
    playing.value = true;
  });
  last = performance.now();
  frame ||= requestAnimationFrame(step);
}

export function pause(): void {
  playing.value = false;
  cancelAnimationFrame(frame);
  frame = 0;
}
