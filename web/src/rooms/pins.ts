/** What is pinned: read at the start, and when the room says that it changed. */

import { computed, signal } from "@preact/signals";
import { api, ApiError } from "../api";
import { onLive } from "../state/live";
import { reading } from "../state/reading";
import { onEntries } from "../state/room";
import type { Pin } from "../types";

export const pins = signal<readonly Pin[]>([]);
export const pinnedIds = computed<ReadonlySet<string>>(() => new Set(pins.value.map((pin) => pin.id)));

const CHANGING = /^\/(?:pin|unpin|edit|delete)$/i;
const list = reading(async () => {
  try {
    pins.value = await api.pins();
  } catch (problem) {
    if (!(problem instanceof ApiError)) throw problem; // what is shown stays, until it can be read
  }
});

onLive(() => void list.now());
onEntries((entries) => {
  if (entries.some((entry) => entry.kind === "system" && CHANGING.test(String(entry.meta.command)))) void list.now();
});
