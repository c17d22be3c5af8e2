/** Which tasks a filter lets through. Pure. */

import type { Task, TaskStatus } from "../coordination_types";

/** `state`: a column, a badge, or "" = all. `who`: a name, `NOBODY`, or "" = all. `words`: each has to be in it. */
export interface Filter {
  state: "" | TaskStatus | "blocked" | "failed";
  who: string;
  words: string;
}

export const NOBODY = "\u0000nobody";
export const ALL: Filter = { state: "", who: "", words: "" };

export function fits(task: Task, by: Filter): boolean {
  if (by.state === "failed" && task.badge !== "failed" && task.badge !== "dead") return false;
  if (by.state === "blocked" && task.badge !== "blocked") return false;
  if ((by.state === "pending" || by.state === "in_progress" || by.state === "done") && task.status !== by.state) return false;
  if (by.who === NOBODY && task.assignee) return false;
  if (by.who && by.who !== NOBODY && task.assignee !== by.who) return false;
  const words = by.words.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return true;
  const text = [`t${task.number}`, `#${task.number}`, task.description ?? task.title, task.task_type, task.assignee, task.created_by, ...(task.files ?? []), task.source]
    .filter(Boolean).join("\n").toLocaleLowerCase();
  return words.every((word) => text.includes(word));
}
