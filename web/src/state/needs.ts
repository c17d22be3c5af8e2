/** What needs a person: read when the room says that something changed, and now and then while agents work. */

import { signal } from "@preact/signals";
import { api, ApiError } from "../api";
import type { Entry, Need } from "../types";
import { onLive } from "./live";
import { memory, personName, uuid } from "./prefs";
import { reading } from "./reading";
import { agents, loaded, onEntries, onFrames } from "./room";

export const needs = signal<readonly Need[]>([]);
export const needsProblem = signal("");
/** Frames that change nothing about it. */
const QUIET: ReadonlySet<string> = new Set(["stream", "output", "worktree", "people", "airspace", "hello", "dispatcher", "fleet", "lock", "session"]);
/** Milliseconds between two looks while an agent works: that nothing is heard of it is said by no frame. */
const LOOK = 60_000;

const list = reading(async () => {
  try {
    needs.value = await api.needs();
    needsProblem.value = "";
  } catch (problem) {
    if (!(problem instanceof ApiError)) throw problem;
    needsProblem.value = [problem.message, problem.fix].filter(Boolean).join(" ");
  }
}, { unseen: true });
export const loadNeeds = list.now;

/** Does it; gives what the room says, whether it did it, and the command that takes it back, where there is one. */
export async function actOn(need: Need, action: string, text = ""): Promise<{ said: string; done: boolean; undo?: string | null }> {
  try {
    const answer = await api.actOnNeed(need.id, action, text);
    return { said: answer.reason ?? "Done.", done: true, undo: answer.undo };
  } catch (problem) {
    if (!(problem instanceof ApiError)) throw problem;
    return { said: [problem.message, problem.fix].filter(Boolean).join(" "), done: false };
  } finally {
    await list.now();
  }
}

/** Milliseconds that the room may take to answer a command. */
const ANSWER = 20_000;

/** Says the command in the room, as a person does who types it; gives what the room answers. Throws ApiError where it refuses. */
export async function takeBack(command: string): Promise<{ reason?: string }> {
  const answers: Entry[] = [];
  let heard = (): void => undefined;
  const stop = onEntries((entries) => { answers.push(...entries.filter((entry) => entry.kind === "system" && entry.in_reply_to)); heard(); });
  try {
    const { id } = await api.post({ body: command, name: personName.peek(), client_id: uuid() });
    const found = (): Entry | undefined => answers.find((entry) => entry.in_reply_to === id);
    // The answer may have come before the post's own.
    if (!found()) await new Promise<void>((done) => { heard = () => { if (found()) done(); }; setTimeout(done, ANSWER); });
    const answer = found();
    if (answer?.meta.error) throw new ApiError(200, "refused", answer.body.replace(/`/g, ""));
    return { reason: answer?.body ?? "The room has not answered yet." };
  } finally {
    stop();
    list.soon();
  }
}

onFrames((frames) => {
  // What runs in a worktree is told often: it is of interest while the inbox says that it does not run.
  const runs = needs.peek().some((need) => need.kind === "setup_failed" || need.kind === "app_ended");
  if (frames.some((frame) => !QUIET.has(frame.type) || (runs && frame.type === "worktree"))) list.soon();
});
onEntries(() => list.soon());
onLive(() => void list.now());
setInterval(() => {
  if (loaded.peek() && agents.peek().some((agent) => agent.running)) list.soon();
}, LOOK);

/** Notifications come as a file of their own, for whoever has turned them on. */
if (memory.get("notify")) void import("../needs/notify");
