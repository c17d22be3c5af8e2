/** What is said about nearness, from plain values. Pure. */

import type { Advisory, Evidence, Link } from "../airspace_types";
import type { Level, Point } from "../basic_types";

export type Coordinates = Readonly<Record<string, Point>>;

export const RANK: Readonly<Record<Level, number>> = { clear: 0, advisory: 1, resolution: 2 };
export const LEVEL_WORDS: Readonly<Record<Level, string>> = { clear: "clear", advisory: "traffic", resolution: "resolution" };

/** How a link is drawn and called: a clear one may have a collision foretold. */
export type Kind = Level | "ahead";
export const kindOf = (link: Pick<Link, "level" | "ahead">): Kind => (link.level === "clear" && link.ahead ? "ahead" : link.level);
export const KIND_WORDS: Readonly<Record<Kind, string>> = { ...LEVEL_WORDS, ahead: "may collide later" };

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

export const other = (link: Pick<Link, "a" | "b">, name: string): string => (link.a === name ? link.b : link.a);

export const evidence = (one: Evidence | string): Evidence => (typeof one === "string" ? { text: one } : one);

/** Why, in one line a person can check. */
export function why(one: Pick<Advisory, "evidence" | "files" | "text" | "line">): string {
  // The room's sentence, up to who holds and who steers: it stands when the evidence is gone, too.
  const said = (one.line ?? one.text).split(/;|\n/)[0]!.trim();
  const first = one.evidence[0];
  if (said || first) return said || evidence(first!).text;
  return one.files.length ? `both are at ${one.files.slice(0, 3).join(", ")}` : "";
}
