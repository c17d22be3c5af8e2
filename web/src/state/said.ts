/**
 * What a reader of the screen is told: one polite region, a summary at a time. What comes within GATHER is one
 * sentence, and the next one waits until the last could be heard.
 */

import { signal } from "@preact/signals";
import { counted } from "../text/format";
import { plainLine } from "../text/markdown";
import type { Entry } from "../types";

export const said = signal("");

const GATHER = 800;
/** Milliseconds in which a sentence is heard. */
const HEARD = 3000;

let texts: string[] = [];
let entries: Entry[] = [];
let timer: ReturnType<typeof setTimeout> | undefined;
let last = 0;

/** "AVA: It is done." or "5 new messages: AVA 3, BEN 2". What the room itself says beside one answer is only counted. */
export function summary(came: readonly Pick<Entry, "speaker" | "body" | "kind">[]): string {
  const voices = came.filter((one) => one.kind === "agent" || one.kind === "human");
  const [only, second] = voices.length ? voices : came;
  if (!only) return "";
  if (!second) return `${only.speaker}: ${plainLine(only.body, 160)}${came.length > 1 ? ` And ${counted(came.length - 1, "other message")}.` : ""}`;
  const by = new Map<string, number>();
  for (const { speaker } of came) by.set(speaker, (by.get(speaker) ?? 0) + 1);
  return `${counted(came.length, "new message")}: ${[...by].map(([who, n]) => `${who} ${n}`).join(", ")}`;
}

function tell(): void {
  timer = undefined;
  last = Date.now();
  const next = [...new Set(texts), summary(entries)].filter(Boolean).join(" ");
  // The same words again are a change too.
  said.value = next === said.value ? `${next}\u00a0` : next;
  texts = [];
  entries = [];
}

const soon = (): void => {
  timer ??= setTimeout(tell, Math.max(GATHER, last + HEARD - Date.now()));
};

export function say(text: string): void {
  texts = [...texts.slice(-2), text];
  soon();
}

export function sayOf(came: readonly Entry[]): void {
  entries.push(...came);
  if (came.length) soon();
}
