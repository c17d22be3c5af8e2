/**
 * Ten colours for names, which differ in both themes and for eyes that see red and green, or blue and yellow, alike:
 * hue, lightness and chroma were chosen together, so that the least difference of two of them is as great as possible
 * (tests/colours.test.ts). Pure.
 */

/** Hue in degrees, lightness and chroma of oklch. */
export type Shade = readonly [hue: number, lightness: number, chroma: number];
export interface Colour {
  light: Shade;
  dark: Shade;
}

export const COLOURS: readonly Colour[] = [
  { light: [225, 0.52, 0.06], dark: [210, 0.86, 0.12] },
  { light: [350, 0.42, 0.16], dark: [5, 0.66, 0.18] },
  { light: [125, 0.48, 0.12], dark: [135, 0.7, 0.18] },
  { light: [305, 0.54, 0.18], dark: [305, 0.7, 0.18] },
  { light: [75, 0.4, 0.08], dark: [90, 0.94, 0.06] },
  { light: [270, 0.32, 0.18], dark: [255, 0.78, 0.1] },
  { light: [5, 0.54, 0.18], dark: [10, 0.86, 0.06] },
  { light: [115, 0.3, 0.06], dark: [125, 0.86, 0.18] },
  { light: [280, 0.42, 0.1], dark: [285, 0.64, 0.08] },
  { light: [330, 0.3, 0.12], dark: [345, 0.76, 0.1] },
];

/** The colour that a name has where nobody else has it. */
export function preferred(name: string): number {
  let hash = 2166136261;
  for (const char of name.toUpperCase()) hash = Math.imul(hash ^ char.codePointAt(0)!, 16777619);
  hash ^= hash >>> 15;
  return (hash >>> 0) % COLOURS.length;
}

/** The place of one more name: the one that it prefers, or the next that nobody has. Where all are taken, the one that it prefers. */
export function beside(name: string, taken: ReadonlySet<number>): number {
  let place = preferred(name);
  for (let tried = 0; tried < COLOURS.length && taken.has(place); tried++) place = (place + 1) % COLOURS.length;
  return place;
}

/** Places of those who came (`came`: each with the place that it had, null: none yet), beside the agents' (`own`). A place stays
 * theirs whoever comes and goes, but where an agent has it. Behind ten names they begin again. */
export function kept(own: ReadonlyMap<string, number>, came: ReadonlyMap<string, number | null>): ReadonlyMap<string, number> {
  const places = new Map(own);
  const agents = new Set(own.values());
  // What an agent has is nobody else's, where there is any other.
  const never = agents.size === COLOURS.length ? [] : agents;
  let taken = new Set(never);
  for (const [name, had] of came) {
    const key = name.toUpperCase();
    if (places.has(key)) continue;
    const stays = had !== null && (agents.size === COLOURS.length || !agents.has(had));
    if (taken.size === COLOURS.length) taken = new Set(never);
    const place = stays ? had : beside(key, taken);
    taken.add(place);
    places.set(key, place);
  }
  return places;
}

/** Places in `COLOURS` by name in capitals. Each name has the one that it prefers, or the next that nobody before it has;
 * behind ten names they begin again. */
export function shared(names: readonly string[]): ReadonlyMap<string, number> {
  const places = new Map<string, number>();
  let taken = new Set<number>();
  for (const name of names) {
    const key = name.toUpperCase();
    if (places.has(key)) continue;
    if (taken.size === COLOURS.length) taken = new Set();
    const place = beside(key, taken);
    taken.add(place);
    places.set(key, place);
  }
  return places;
}

/** As CSS. */
export const css = ([hue, lightness, chroma]: Shade): string => `oklch(${lightness} ${chroma} ${hue})`;
