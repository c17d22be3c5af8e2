/** The newest explorations. Read when the room says something of one, and each second while variants are at work and somebody
 * looks. */

import { signal } from "@preact/signals";
import { api, ApiError } from "../api";
import type { Exploration } from "../explore/types";
import { moving } from "../explore/moving";
import { onLive } from "./live";
import { onEntries } from "./room";
import { view } from "./view";

export const explorations = signal<readonly Exploration[]>([]);
export const explorationsProblem = signal("");
const EACH_MS = 1000;
let timer: ReturnType<typeof setTimeout> | undefined;

export async function loadExplorations(): Promise<void> {
  clearTimeout(timer);
  timer = undefined;
  try {
    explorations.value = await api.explorations();
    explorationsProblem.value = "";
  } catch (problem) {
    if (!(problem instanceof ApiError)) throw problem;
    explorationsProblem.value = [problem.message, problem.fix].filter(Boolean).join(" ");
  }
  soon();
}

function soon(): void {
  if (timer !== undefined || view.peek() !== "explore" || document.hidden || !explorations.peek().some(moving)) return;
  timer = setTimeout(() => void loadExplorations(), EACH_MS);
}

onEntries((entries) => {
  if (entries.some((entry) => entry.meta.exploration !== undefined || entry.meta.command === "/explore")) void loadExplorations();
});
onLive(() => void loadExplorations());
view.subscribe((now) => {
  if (now === "explore" && explorations.peek().some(moving)) void loadExplorations();
});
document.addEventListener("visibilitychange", soon);
