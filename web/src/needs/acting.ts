/** What a person does about a need. */

import { api, ApiError } from "../api";
import { loadNeeds } from "../state/needs";
import { personName, uuid } from "../state/prefs";
import type { Need } from "../types";

/** Does it; gives what the room says, whether it did it, and the command that takes it back, where there is one. */
export async function actOn(need: Need, action: string, text = ""): Promise<{ said: string; done: boolean; undo?: string | null }> {
  try {
    const answer = await api.actOnNeed(need.id, action, text);
    return { said: answer.reason ?? "Done.", done: true, undo: answer.undo };
  } catch (problem) {
    if (!(problem instanceof ApiError)) throw problem;
    return { said: [problem.message, problem.fix].filter(Boolean).join(" "), done: false };
  } finally {
    await loadNeeds();
  }
}

/** Says the command in the room, as a person does who types it; its answer stands there. */
export async function takeBack(command: string): Promise<void> {
  await api.post({ body: command, name: personName.peek(), client_id: uuid() });
  void loadNeeds();
}
