/** What the agents' turns used today. Read when a turn has ended, and now and then, since the day goes on. */

import { effect, signal } from "@preact/signals";
import { api, ApiError } from "../api";
import type { Usage } from "../text/usage";
import { onLive } from "./live";
import { reading } from "./reading";
import { jobs, loaded } from "./room";

export const usage = signal<Usage | null>(null);

const read = reading(async () => {
  try {
    usage.value = await api.usage();
  } catch (problem) {
    // What was read last stands; the next turn's end asks again.
    if (!(problem instanceof ApiError)) throw problem;
  }
});
/** Milliseconds between two looks while no turn ends. */
const LOOK = 600_000;

// A quick turn is never seen running, so its end is what counts. Times are ISO 8601 of one zone: they sort as text.
// Of those that the first look at the room tells of, the first reading knows.
let ended: string | null = null;
effect(() => {
  const all = jobs.value.values();
  if (!loaded.value) return;
  let newest = ended ?? "";
  // The room's own answers use nothing.
  for (const job of all) if (job.agent !== "RELAY" && typeof job.ended_at === "string" && job.ended_at > newest) newest = job.ended_at;
  if (ended !== null && newest !== ended) read.soon();
  ended = newest;
});
onLive(() => void read.now());
setInterval(read.soon, LOOK);
