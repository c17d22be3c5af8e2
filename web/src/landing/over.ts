/** What the first load asks of verifications and of what they print. Pure. */

import type { Landing, State, Verification } from "./types";

const OVER: readonly State[] = ["passed", "failed", "error", "not_tested", "cancelled"];
export const isOver = (one: Pick<Verification, "state">): boolean => OVER.includes(one.state);

/** Would anything test what lands? */
export const testsAnything = (landing: Pick<Landing, "policies" | "merge_test">): boolean => landing.policies > 0 || landing.merge_test;

/** The last lines of an output that grows, within bounds. */
export function lastLines(text: string, most = 200, characters = 16_000): string {
  const end = text.slice(-characters).replace(/\n+$/, "");
  const lines = end.split("\n");
  // Where characters were cut off, the first line is not whole.
  if (text.length > characters && lines.length > 1) lines.shift();
  return lines.slice(-most).join("\n");
}

/** Control characters, colours among them, that a terminal would take: the page shows the text. */
export const plain = (text: string): string => text.replace(/\u001b\[[0-9;?]*[ -/]*[@-~]/g, "").replace(/\r(?!\n)/g, "\n").replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, "");
