/**
 * The airspace as the page knows it: the newest whole state, and every advisory heard of.
 *
 * Invariant: a frame replaces the state as a whole; the file cloud is replaced only when a coordinate differs, so
 * that a tick moves agents and never the map.
 */

import { batch, computed, signal } from "@preact/signals";
import { api, ApiError } from "../api";
import { instant } from "../text/format";
import type { Advisory, AirspaceState, Entry, Evidence, Frame, Level, Link, Point, Precision, Reading } from "../types";
import { onLive } from "./live";
import { onFrames } from "./room";

export const airspace = signal<AirspaceState | null>(null);
/** Why there is no state: the room's own words. */
export const airspaceProblem = signal("");
export const advisories = signal<ReadonlyMap<string, Advisory>>(new Map());
export const precision = signal<Precision | null>(null);
export type Coordinates = Readonly<Record<string, Point>>;
export const coordinates = signal<Coordinates>({});

export const RANK: Readonly<Record<Level, number>> = { clear: 0, advisory: 1, resolution: 2 };
export const LEVEL_WORDS: Readonly<Record<Level, string>> = { clear: "clear", advisory: "traffic", resolution: "resolution" };

export const linkKey = (a: string, b: string): string => [a, b].sort().join(" ↔ ");
export const isOpen = (one: Advisory): boolean => one.closed_at === null && one.level !== "clear";

export function sameCoordinates(a: Coordinates, b: Coordinates): boolean {
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  return keys.every((path) => {
    const [p, q] = [a[path]!, b[path]];
    return q !== undefined && p[0] === q[0] && p[1] === q[1] && p[2] === q[2];
  });
}

function putAdvisories(changed: readonly Advisory[]): void {
  if (!changed.length) return;
  const next = new Map(advisories.value);
  for (const one of changed) next.set(one.id, one);
  advisories.value = next;
}

/** The whole state, as it was read or told. */
export function takeAirspace(state: AirspaceState): void {
  batch(() => {
    airspace.value = state;
    airspaceProblem.value = "";
    const cloud = state.fileCoordinates;
    if (cloud && !sameCoordinates(coordinates.value, cloud)) coordinates.value = cloud;
    putAdvisories(state.advisories);
    precision.value = state.precision ?? null;
  });
}

export function takeFrames(frames: readonly Frame[]): void {
  batch(() => {
    for (const frame of frames) if (frame.type === "airspace") takeAirspace(frame.data);
    putAdvisories(frames.filter((f) => f.type === "advisory").map((f) => f.data));
  });
}

export async function loadAirspace(): Promise<void> {
  try {
    takeAirspace(await api.airspace());
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
onLive(() => void loadAirspace());

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

export const other = (link: Pick<Link, "a" | "b">, name: string): string => (link.a === name ? link.b : link.a);

/** Channels of a link, the greatest share of risk first. Without readings only the risk is known. */
export function readings(link: Link): [string, Partial<Reading> & { risk: number }][] {
  const named = Object.entries(link.channels).map(([name, risk]): [string, Partial<Reading> & { risk: number }] => [
    name,
    { risk, ...link.readings?.[name] },
  ]);
  return named.sort(([, x], [, y]) => y.risk * (y.weight ?? 1) - x.risk * (x.weight ?? 1));
}

export const evidence = (one: Evidence | string): Evidence => (typeof one === "string" ? { text: one } : one);

/** Why, in one line a person can check. */
export function why(one: Pick<Advisory, "evidence" | "files" | "text">): string {
  const first = one.evidence[0];
  if (first) return evidence(first).text;
  return one.files.length ? `both are at ${one.files.slice(0, 3).join(", ")}` : one.text;
}

/** "12 of 13 true, 3 averted, 2 open". Counts, and no rate of nothing. */
export function precisionLine(p: Precision | null): string {
  if (!p) return "no outcome known yet";
  const known = p.true + p.false;
  const parts = [
    known ? `${p.true} of ${known} true` : "no outcome known yet",
    p.averted ? `${p.averted} averted` : "",
    p.open ? `${p.open} open` : "",
    p.useful ? `${p.useful} marked useful` : "",
    p.noise ? `${p.noise} marked noise` : "",
  ];
  return parts.filter(Boolean).join(", ");
}

/** The advisory an entry speaks of: what is known of it now, else what the entry says itself. */
export function advisoryOf(entry: Entry): Partial<Advisory> | null {
  const said = entry.meta.advisory;
  const id = typeof said === "string" ? said : said?.id;
  const known = id ? advisories.value.get(id) : [...advisories.value.values()].find((one) => one.message_id === entry.id);
  return known ?? (typeof said === "object" ? said : id ? { id } : null);
}
