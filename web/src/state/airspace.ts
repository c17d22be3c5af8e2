/**
 * The airspace as the page knows it: the newest whole state, and every advisory heard of.
 *
 * Invariant: a frame replaces the state as a whole; the file cloud is replaced only when a coordinate differs, so
 * that a tick moves agents and never the map.
 */

import { batch, computed, signal } from "@preact/signals";
import { api, ApiError } from "../api";
import { instant } from "../text/format";
import type { Advisory, AirspaceState, Link, Precision } from "../airspace_types";
import type { Entry, Frame } from "../types";
import { onLive } from "./live";
import { isOpen, RANK, sameCoordinates, type Coordinates } from "./nearness";
import { onFrames } from "./room";

export * from "./nearness";

export const airspace = signal<AirspaceState | null>(null);
/** Why there is no state: the room's own words. */
export const airspaceProblem = signal("");
export const advisories = signal<ReadonlyMap<string, Advisory>>(new Map());
export const precision = signal<Precision | null>(null);
export const coordinates = signal<Coordinates>({});

function putAdvisories(changed: readonly Advisory[]): void {
  if (!changed.length) return;
  const next = new Map(advisories.value);
  for (const one of changed) next.set(one.id, one);
  advisories.value = next;
}

/** The whole state. `all` = with the coordinates of all files; a frame has those that somebody works on, or none. */
function takeAirspace(state: AirspaceState, all: boolean): void {
  batch(() => {
    airspace.value = state;
    airspaceProblem.value = "";
    if (state.fileCoordinates) {
      const cloud = all ? state.fileCoordinates : { ...coordinates.value, ...state.fileCoordinates };
      if (!sameCoordinates(coordinates.value, cloud)) coordinates.value = cloud;
    }
    putAdvisories(state.advisories);
    precision.value = state.precision ?? null;
  });
}

/** Files in the graph when all coordinates were read. */
let graphOf = "";
const graphNow = (state: AirspaceState): string => `${state.graph.files} ${state.graph.building}`;
let reading: ReturnType<typeof setTimeout> | undefined;
/** Milliseconds between two readings of all coordinates while the graph grows. */
const READ_AGAIN = 3000;

export function takeFrames(frames: readonly Frame[]): void {
  batch(() => {
    for (const frame of frames) {
      if (frame.type !== "airspace") continue;
      told = true;
      takeAirspace(frame.data, false);
      if (cloudShown && graphNow(frame.data) !== graphOf)
        reading ??= setTimeout(() => {
          reading = undefined;
          void loadAirspace();
        }, READ_AGAIN);
    }
    putAdvisories(frames.filter((f) => f.type === "advisory").map((f) => f.data));
  });
}

/** Is the cloud looked at? Of a large repository it is megabytes, and no other view shows it. */
let cloudShown = false;

export function showCloud(shown: boolean): void {
  cloudShown = shown;
  if (shown) void loadAirspace();
}

export async function loadAirspace(): Promise<void> {
  const all = cloudShown;
  try {
    const state = await api.airspace(all ? "all" : "touched");
    if (all) graphOf = graphNow(state);
    takeAirspace(state, all);
  } catch (problem) {
    if (!(problem instanceof ApiError)) throw problem;
    if (!airspace.value) airspaceProblem.value = [problem.message, problem.fix].filter(Boolean).join(" ");
  }
}

/** The advisories of the past, and what became of them. */
export async function loadAdvisories(): Promise<void> {
  const told = await api.advisories(200);
  batch(() => {
    putAdvisories(told.advisories);
    precision.value = told.precision;
  });
}

onFrames(takeFrames);
/** Whoever comes first to the room is told the whole of it unasked; it is asked for where that does not come. */
let told = false;
/** Milliseconds until then. */
const UNTOLD = 400;
onLive(() => {
  told = false;
  if (cloudShown) void loadAirspace();
  else setTimeout(() => told || void loadAirspace(), UNTOLD);
});

/** Open first, the gravest first; then the newest. */
export const advisoryList = computed(() =>
  [...advisories.value.values()].sort(
    (x, y) =>
      Number(isOpen(y)) - Number(isOpen(x)) ||
      (isOpen(x) ? RANK[y.level] - RANK[x.level] || y.risk - x.risk : 0) ||
      (instant(y.opened_at) ?? 0) - (instant(x.opened_at) ?? 0),
  ),
);
export const openAdvisories = computed(() => advisoryList.value.filter(isOpen));

/** The open advisories that concern an agent or a person, the gravest first. */
export function warningsOf(name: string | null): Advisory[] {
  if (!name) return [];
  const wanted = name.toUpperCase();
  return openAdvisories.value.filter((one) => one.agents.some((a) => a.toUpperCase() === wanted));
}

/** The link of greatest risk that an agent has. */
export function nearest(name: string): Link | null {
  const mine = (airspace.value?.links ?? []).filter((l) => l.a === name || l.b === name);
  return mine.reduce<Link | null>((best, l) => (best === null || l.risk > best.risk ? l : best), null);
}

/** The advisory an entry speaks of: what is known of it now, else what the entry says itself. */
export function advisoryOf(entry: Entry): Partial<Advisory> | null {
  const said = entry.meta.advisory;
  const id = typeof said === "string" ? said : said?.id;
  const known = id ? advisories.value.get(id) : [...advisories.value.values()].find((one) => one.message_id === entry.id);
  return known ?? (typeof said === "object" ? said : id ? { id } : null);
}
