/** What a person writes of a branch and has not sent: kept in the browser with each letter, so that a reload loses nothing. */

import { signal } from "@preact/signals";
import { memory } from "../state/prefs";
import type { Draft } from "./types";

const key = (agent: string): string => `review:${agent}`;

function read(agent: string): Draft[] {
  try {
    const kept: unknown = JSON.parse(memory.get(key(agent)) ?? "[]");
    return Array.isArray(kept) ? kept.filter((one): one is Draft => typeof one?.path === "string" && typeof one.text === "string" && Array.isArray(one.lines)) : [];
  } catch {
    return [];
  }
}

/** The drafts of the agent that is looked at. */
export const drafts = signal<readonly Draft[]>([]);
let of = "";

export function openDrafts(agent: string): void {
  of = agent;
  drafts.value = read(agent);
}

export function keepDrafts(next: readonly Draft[]): void {
  drafts.value = next;
  memory.set(key(of), next.length ? JSON.stringify(next) : null);
}

export const putDraft = (draft: Draft): void =>
  keepDrafts(drafts.value.some((one) => one.id === draft.id) ? drafts.value.map((one) => (one.id === draft.id ? draft : one)) : [...drafts.value, draft]);

export const dropDraft = (id: string): void => keepDrafts(drafts.value.filter((one) => one.id !== id));

// Another tab has written: what is shown is what is kept.
addEventListener("storage", () => { if (of) drafts.value = read(of); });
