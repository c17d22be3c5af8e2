/** What the agents' turns used today. Read when a turn has ended, and now and then, since the day goes on. */

import { signal } from "@preact/signals";
import { api, ApiError } from "../api";
import type { Usage } from "../text/usage";
import { onLive } from "./live";
import { reading } from "./reading";
import { agents } from "./room";

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

let running = "";
agents.subscribe((all) => {
  const now = all.map((agent) => agent.running?.job ?? "").join();
  if (running && now !== running) read.soon();
  running = now;
});
onLive(() => void read.now());
setInterval(read.soon, LOOK);
