/** What the board asks of the room: one request after another, since the next may be about what the last one makes. */

import { ApiError } from "../api";
import { api } from "../api_views";
import { tell, toast, toasts, wentWell } from "../ui/bits";

let last: Promise<unknown> = Promise.resolve();
export function inTurn<T>(ask: () => Promise<T>): Promise<T> {
  const mine = last.catch(() => undefined).then(ask);
  last = mine;
  return mine;
}

/** `command`: of the change that is meant; without it the last one, whoever made it. The room says what was taken back, and an
 *  older answer that offers to take something back goes. */
export function undo(command = ""): Promise<void> {
  toasts.value = toasts.value.filter((one) => one.action?.label !== "Undo");
  return tell(inTurn(() => api.undoTasks(command)));
}

/** What the room says, in one line. */
const firstLine = (said: string): string => said.replace(/`/g, "").split("\n").map((line) => line.replace(/^- /, "")).filter(Boolean).join(" · ");

/** Does it to all of these, and offers to take it back. True when it went well. */
export async function toSome(numbers: readonly number[], action: "give" | "move" | "priority" | "archive", to: string | null): Promise<boolean> {
  try {
    // A refusal of the room's is an ApiError too.
    const done = await inTurn(() => api.someTasks(numbers, action, to));
    wentWell();
    toast(firstLine(done.reason ?? "") || "Done.", done.undo ? { action: { label: "Undo", run: () => void undo(done.undo) } } : {});
    return true;
  } catch (problem) {
    if (!(problem instanceof ApiError)) throw problem;
    toast(firstLine([problem.message, problem.fix].filter(Boolean).join(" ")), { tone: "problem" });
    return false;
  }
}
