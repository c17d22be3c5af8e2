/** Who is behind the lines of a file (docs/merge.md): by line, and in words. Pure. */

import type { BlamedLines } from "../worktree_types";

/** What the mark means, in words. */
export function meaning(of: BlamedLines): string {
  const from = `${of.commit.slice(0, 9)}, ${of.at.slice(0, 10)}: ${of.subject}`;
  const who = { agent: `Agent ${of.who}`, person: of.who, merged: `Made of both sides when ${of.who}’s work was joined`, ai_resolved: `Written by ${of.who} where both sides had changed the same` };
  return `${who[of.kind]} (${from})`;
}

export const byLine = (lines: readonly BlamedLines[]): ReadonlyMap<number, BlamedLines> =>
  new Map(lines.flatMap((one) => Array.from({ length: one.last - one.first + 1 }, (_, i): [number, BlamedLines] => [one.first + i, one])));
