/**
 * Where entries stand around the chosen one, in a box of so many pixels: those that relate to it directly near it, the
 * others behind these; and which of their words there is room for.
 *
 * Invariant: the same entries, relations and box give the same picture, and all of it is in the box, the chosen one in
 * its middle; no word that is shown lies on a spot or on another word, and none is cut that has room. What has no room is left to the list. Pure.
 */

import { forceCollide, forceLink, forceManyBody, forceRadial, forceSimulation, type SimulationLinkDatum, type SimulationNodeDatum } from "d3-force";
import type { KnowledgeEntry, KnowledgeRelation } from "./types";
import { relationWords } from "./words";

/** Pixels of a spot's radius, the chosen one's, and of the square that each spot wants. */
export const RADIUS = 10;
export const CHOSEN = 15;
const ROOM = 44;
/** Entries that are drawn at most: the nearest, as many as the box has room for. */
const MOST = 120;
const LEAST = 12;
/** Between the box and what is in it: beside the spots, above and below them. */
const ASIDE = 30;
const ABOVE = 26;
const BELOW = 38;
/** Between an entry and those one step further out, where there are few. */
const STEP = 110;
/** How far a small picture is stretched to fill its box. */
const STRETCH = 1.6;
const TICKS = 120;
/** Of a word's letter, and of a line of words. */
const LETTER = 6;
export const LINE = 13;
const LETTERS = 26;
/** Of the chosen one's letter; and the most lines of an entry's words, and their length, where there is room. */
const CHOSEN_LETTER = 6.7;
const LINES = 4;
const LONG = 30;
/** How long they are where there is less; and the chosen one's at first, so that the lines at it have room for their words. */
const NARROW = 18;
/** Lines at the chosen one that are named; where there are more their words are a thicket, and the list says them. */
const FEW = 12;
/** Where on its line a relation's word may stand. */
const ALONG = [0.5, 0.4, 0.6, 0.3, 0.7];

export interface Size {
  width: number;
  height: number;
}

export interface Label extends Size {
  /** Its lines. */
  text: string;
  /** Its middle. */
  x: number;
  y: number;
}

export interface Spot extends SimulationNodeDatum {
  entry: KnowledgeEntry;
  steps: number;
  x: number;
  y: number;
  name: Label | null;
}

export interface Line extends SimulationLinkDatum<Spot> {
  relation: string;
  source: Spot;
  target: Spot;
  name: Label | null;
}

export interface Drawing {
  spots: Spot[];
  lines: Line[];
}

export const radius = (spot: Spot): number => (spot.steps === 0 ? CHOSEN : RADIUS);

const stepsTo = (entry: KnowledgeEntry, chosen: string): number => (entry.id === chosen ? 0 : (entry.distance ?? 1));

/** The entries within so many steps of the chosen one (their `distance`), it first, then the nearest. */
export function within(entries: readonly KnowledgeEntry[], chosen: string, steps: number): KnowledgeEntry[] {
  return entries.filter((entry) => stepsTo(entry, chosen) <= steps).sort((a, b) => stepsTo(a, chosen) - stepsTo(b, chosen));
}

/** How many entries this box has room for. */
export function capacity({ width, height }: Size): number {
  return Math.max(LEAST, Math.min(MOST, Math.floor((width * height) / (ROOM * ROOM * 1.6))));
}

export function drawn(entries: readonly KnowledgeEntry[], relations: readonly KnowledgeRelation[], chosen: string, box: Size): Drawing {
  const shown = entries.slice(0, capacity(box));
  const ring = rings(shown.map((entry) => stepsTo(entry, chosen)));
  const angle = angles(shown, relations, chosen);
  const spots: Spot[] = shown.map((entry) => {
    const steps = stepsTo(entry, chosen);
    const [at, away] = [angle(entry.id), ring(steps)];
    return { entry, steps, x: Math.cos(at) * away, y: Math.sin(at) * away, name: null, ...(steps === 0 ? { fx: 0, fy: 0 } : {}) };
  });
  const places = new Map(spots.map((spot) => [spot.entry.id, spot]));
  const lines: Line[] = [];
  for (const { source, relation, target } of relations) {
    const [from, to] = [places.get(source), places.get(target)];
    if (from && to && from !== to) lines.push({ relation, source: from, target: to, name: null });
  }
  forceSimulation(spots)
    .force("link", forceLink<Spot, Line>(lines).distance(STEP).strength(0.12))
    .force("ring", forceRadial<Spot>((spot) => ring(spot.steps)).strength(0.4))
    .force("apart", forceManyBody<Spot>().strength(-90))
    .force("room", forceCollide<Spot>(ROOM / 2))
    .alphaDecay(1 - 0.001 ** (1 / TICKS))
    .stop()
    .tick(TICKS);
  fit(spots, box);
  name(spots, lines, box);
  return { spots, lines };
}

/** Where each begins: the direct ones all around, the others behind the one that leads to them, so that few lines cross. */
function angles(shown: readonly KnowledgeEntry[], relations: readonly KnowledgeRelation[], chosen: string): (id: string) => number {
  const steps = new Map(shown.map((entry) => [entry.id, stepsTo(entry, chosen)]));
  const before = new Map<string, string>();
  for (const { source, target } of relations)
    for (const [id, other] of [[source, target], [target, source]] as const)
      if ((steps.get(other) ?? 9) < (steps.get(id) ?? 0) && !before.has(id)) before.set(id, other);
  const direct = shown.filter((entry) => steps.get(entry.id) === 1).length;
  const children = new Map<string, number>();
  const found = new Map<string, number>();
  let next = 0;
  for (const { id } of shown) {
    const leader = before.get(id);
    if (steps.get(id)! < 2 || leader === undefined || !found.has(leader)) {
      found.set(id, (2 * Math.PI * next) / Math.max(1, direct) + 0.4);
      if (steps.get(id) === 1) next += 1;
      continue;
    }
    const nth = children.get(leader) ?? 0;
    children.set(leader, nth + 1);
    found.set(id, found.get(leader)! + Math.ceil(nth / 2) * (nth % 2 ? 0.14 : -0.14) + 0.01);
  }
  return (id) => found.get(id)!;
}

/** The distance from the middle of each step: many fill a ring by its area, so that they take no more room than they need. */
function rings(steps: readonly number[]): (step: number) => number {
  const radii = [0];
  let inside = 1;
  for (let step = 1; step <= 3; step++) {
    const here = steps.filter((other) => other === step).length;
    const [inner, outer] = [Math.sqrt(inside), Math.sqrt(inside + here)].map((of) => of * ROOM * 0.62);
    radii.push(Math.max(radii[step - 1]! + STEP * (here > 24 ? 0.5 : 1), (inner! + outer!) / 2));
    inside += here;
  }
  return (step) => radii[Math.min(step, 3)]!;
}

/** Move all into the box, around its middle; a small picture is stretched to fill it. */
function fit(spots: readonly Spot[], { width, height }: Size): void {
  const axis = (of: "x" | "y", from: number, to: number): void => {
    const far = Math.max(1, ...spots.map((spot) => Math.abs(spot[of])));
    const scale = Math.min(STRETCH, Math.max(1, to - from) / 2 / far);
    for (const spot of spots) spot[of] = (from + to) / 2 + spot[of] * scale;
  };
  axis("x", ASIDE, width - ASIDE);
  axis("y", ABOVE, height - BELOW);
}

const cut = (text: string): string => (text.length > LETTERS ? `${text.slice(0, LETTERS - 1).trimEnd()}…` : text);
/** A text in so many lines at most; what does not fit is cut off. */
export function wrapped(text: string, letters: number, most: number): string {
  const lines = [""];
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const longer = `${lines.at(-1)!} ${word}`.trim();
    if (longer.length <= letters || lines.at(-1) === "") lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  const shown = lines.slice(0, most).map((line) => (line.length > letters ? `${line.slice(0, letters - 1)}…` : line));
  if (lines.length > most) shown[most - 1] = `${shown.at(-1)!.slice(0, letters - 1).trimEnd().replace(/…$/, "")}…`;
  return shown.join("\n");
}

const apart = (a: Label, b: Label): boolean => Math.abs(a.x - b.x) * 2 >= a.width + b.width || Math.abs(a.y - b.y) * 2 >= a.height + b.height;

/** A label around this place, moved into the box sideways. */
function label(text: string, x: number, y: number, letter: number, box: Size): Label {
  const lines = text.split("\n");
  const width = Math.max(...lines.map((line) => line.length)) * letter + 4;
  return { text, x: Math.max(width / 2 + 2, Math.min(box.width - width / 2 - 2, x)), y, width, height: lines.length * LINE };
}

/** Give words to what has room for them: the chosen one, the lines that touch it, then the others, the nearest first;
 * then the rest of their words to those that were cut. */
function name(spots: readonly Spot[], lines: readonly Line[], box: Size): void {
  const taken: Label[] = spots.map((spot) => ({ text: "", x: spot.x, y: spot.y, width: 2 * radius(spot), height: 2 * radius(spot) }));
  const place = (labels: readonly Label[], must = false): Label | null => {
    const free = labels.find((one) => taken.every((other) => apart(one, other))) ?? (must ? labels[0]! : null);
    if (free) taken.push(free);
    return free;
  };
  const at = (spot: Spot, text: string, side: number): Label => {
    const away = radius(spot) + 3 + (text.split("\n").length * LINE) / 2;
    return label(text, spot.x, spot.y + side * away, spot.steps === 0 ? CHOSEN_LETTER : LETTER, box);
  };
  const beside = (spot: Spot, text: string, must = false): Label | null => {
    const ends = lines.flatMap(({ source, target }) => (source === spot ? [target] : target === spot ? [source] : []));
    const pull = ends.reduce((sum, end) => sum + (end.y - spot.y) / (Math.hypot(end.x - spot.x, end.y - spot.y) || 1), 0);
    // On the side where fewer lines are; that is below where neither is better.
    const side = pull > 0.2 ? -1 : 1;
    return place([at(spot, text, side), at(spot, text, -side)], must);
  };
  for (const spot of spots) if (spot.steps <= 1) spot.name = spot.steps === 0 ? beside(spot, wrapped(spot.entry.content, NARROW, 2), true) : beside(spot, cut(spot.entry.content));
  const direct = lines.filter(({ source, target }) => source.steps === 0 || target.steps === 0);
  for (const line of direct.length <= FEW ? direct : []) {
    const { source: a, target: b } = line;
    line.name = place(ALONG.map((part) => label(relationWords(line.relation), a.x + (b.x - a.x) * part, a.y + (b.y - a.y) * part, LETTER, box)));
  }
  for (const spot of spots) if (spot.steps > 1) spot.name = beside(spot, cut(spot.entry.content));
  const inBox = ({ y, height }: Label): boolean => y >= height / 2 && y + height / 2 <= box.height;
  for (const spot of spots) {
    const short = spot.name;
    if (!short?.text.endsWith("…")) continue;
    const others = taken.filter((other) => other !== short);
    const side = short.y < spot.y ? -1 : 1;
    const longer = [LINES, 3, 2].flatMap((most) => [LONG, NARROW].flatMap((letters) => [side, -side].map((there) => at(spot, wrapped(spot.entry.content, letters, most), there))));
    const free = longer.find((one) => inBox(one) && others.every((other) => apart(one, other)));
    if (free) taken[taken.indexOf(short)] = spot.name = free;
  }
}
