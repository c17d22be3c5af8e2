/** What agents ask to be allowed. A frame says that something changed; the list itself is then read. */

import { computed, signal } from "@preact/signals";
import { api, ApiError } from "../api";
import { instant } from "../text/format";
import type { PermissionRequest } from "../types";
import { onLive } from "./live";
import { say } from "./said";
import { now, onFrames } from "./room";

const asked = signal<PermissionRequest[]>([]);
/** The list was read. */
export const known = signal(false);
/** Answered by this page, and not yet told back by the room. */
const settled = signal<ReadonlySet<string>>(new Set());

const NONE: readonly PermissionRequest[] = [];

/** Those that still wait for an answer; one whose deadline is past was denied by the room. */
export const permissions = computed((): readonly PermissionRequest[] => {
  // Without a request nothing hangs on the clock.
  if (!asked.value.length) return NONE;
  const waiting = asked.value.filter((one) => !settled.value.has(one.id) && (instant(one.deadline_at) ?? Infinity) > now.value);
  return waiting.length ? waiting : NONE;
});

/** What an agent waits for. */
export const requestOf = (agent: string): PermissionRequest | undefined => permissions.value.find((request) => request.agent === agent);

let reading = false;
let again = false;

export async function loadPermissions(): Promise<void> {
  if (reading) {
    again = true;
    return;
  }
  reading = true;
  try {
    do {
      again = false;
      const before = new Set(asked.value.map((one) => one.id));
      asked.value = await api.permissions();
      known.value = true;
      for (const one of asked.value) if (!before.has(one.id)) say(`${one.agent} asks: ${one.title}. A person decides.`);
    } while (again);
  } catch (problem) {
    // A room without such requests, or none to be reached: the line says the latter.
    if (!(problem instanceof ApiError)) throw problem;
  } finally {
    reading = false;
  }
}

/** The room's words when it was too late or refused; empty when it took the answer. */
export async function decide(request: PermissionRequest, option: string): Promise<string> {
  try {
    await api.decide(request.id, option);
    settled.value = new Set([...settled.value, request.id]);
    return "";
  } catch (problem) {
    if (!(problem instanceof ApiError)) throw problem;
    void loadPermissions();
    return [problem.message, problem.fix].filter(Boolean).join(" ");
  }
}

onFrames((frames) => {
  if (frames.some((f) => f.type === "permission")) void loadPermissions();
});
onLive(() => void loadPermissions());
