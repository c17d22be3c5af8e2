/** The board as the room's entries and frames change it. Pure. */

import type { Task } from "../coordination_types";
import type { Entry } from "../types";

/** The board after some tasks changed and others left it, by number. */
export function changed(tasks: readonly Task[], those: readonly Task[], gone: readonly string[]): Task[] {
  const kept = new Map(tasks.map((task) => [task.id, task]));
  for (const id of gone) kept.delete(id);
  for (const task of those) kept.set(task.id, task);
  return [...kept.values()].sort((a, b) => a.number - b.number);
}

const BOARD_COMMAND = /^\/(?:task|tasks|give|move|moveall|archive|clearall|undo)\b/i;

/** Is `#3` a task in it? In a command for the board, in the room's answer to one (`asked`), in its notice of a task. */
export function aboutTasks(entry: Pick<Entry, "kind" | "speaker" | "body" | "meta">, asked: { body: string } | undefined): boolean {
  if (entry.kind === "human") return BOARD_COMMAND.test(entry.body);
  return entry.speaker === "RELAY" && (entry.meta.coordination === "task.changed" || BOARD_COMMAND.test(asked?.body ?? ""));
}
