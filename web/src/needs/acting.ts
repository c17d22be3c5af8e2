/** What a person does about a need. */

import { ApiError } from "../api";
import { api } from "../api_views";
import { loadNeeds } from "../state/needs";
import { personName, uuid } from "../state/prefs";
import { onEntries } from "../state/room";
import type { Entry, Need } from "../types";

/** Does it; gives what the room says, whether it did it, the command that takes it back, where there is one, and the conflict that the person settles now. */
export async function actOn(need: Need, action: string, text = ""): Promise<{ said: string; done: boolean; undo?: string | null; opens?: string | null }> {
  try {
    const answer = await api.actOnNeed(need.id, action, text);
    return { said: answer.reason ?? "Done.", done: true, undo: answer.undo, opens: answer.opens };
  } catch (problem) {
    if (!(problem instanceof ApiError)) throw problem;
    return { said: [problem.message, problem.fix].filter(Boolean).join(" "), done: false };
  } finally {
    await loadNeeds();
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
    void loadNeeds();
  }
}
