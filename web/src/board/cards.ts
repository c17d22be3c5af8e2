/** What the board shows of its tasks. Pure; `now` is always given, in milliseconds. */

import { instant, span } from "../text/format";
import { ref } from "../text/reference";
import type { Task } from "../coordination_types";
import type { Job, JobState, Need } from "../types";

/** Seconds that one step of priority is worth (docs/coordination.md, "Work"). */
const STEP_S = 900;
const rank = (task: Task): number => (instant(task.created_at) ?? 0) / 1000 + (task.priority ?? 5) * STEP_S;

/** What waits, as it will be given out: the blocked last. What is done: the latest first. */
export function ordered(tasks: readonly Task[], status: Task["status"]): Task[] {
  const list = [...tasks];
  if (status === "pending")
    return list.sort((a, b) => Number(a.badge === "blocked") - Number(b.badge === "blocked") || rank(a) - rank(b) || a.number - b.number);
  return list;
}

/** What the badge of a task means. */
export const BADGES: Readonly<Record<string, string>> = {
  blocked: "It waits until other tasks are done.",
  failed: "An agent said that it could not do it.",
  dead: "Each of its attempts was lost, so no agent is given it again.",
};

/** How the message stands by which a task was given to who has it now; null = it was not given, or that is not known. */
export function givenState(task: Task, jobs: ReadonlyMap<number, Job>): JobState | null {
  const last = task.given?.at(-1);
  if (!last || task.status !== "in_progress" || last.agent !== task.assignee) return null;
  for (const job of jobs.values()) if (job.message_id === last.message && job.agent === last.agent) return job.state;
  return null;
}

/** Is what its agent's branch has, and whom it collides with, of this task? While a session has claimed it or the agent's turn for
 *  it runs, and as long as what was changed for it is in the branch and has not landed (`landed`, relay/app/tasks/landed.py).
 *  `given`: of `givenState`. */
export function inHand(task: Pick<Task, "status" | "given" | "landed" | "in_branch">, given: JobState | null): boolean {
  if (task.status === "in_progress" && (given === "active" || !task.given?.length)) return true;
  return !task.landed && task.in_branch === true;
}

/** What the inbox says of a task that was answered; "" = it has nothing of it. */
export const asks = (task: Task, needs: readonly Need[]): string => needs.flatMap((need) => need.tasks ?? []).find((one) => one.ref === ref("t", task.number))?.says ?? "";

/** What a card says under its title: short pieces, the ones that call for somebody marked. `given`: of `givenState`; `says`: of `asks`. */
export function remarks(task: Task, all: readonly Task[], now: number, given: JobState | null = null, says = ""): { text: string; tone: "" | "warn" | "bad"; tip?: string }[] {
  const said: ReturnType<typeof remarks> = [];
  if (task.landed) said.push({ text: `landed as ${task.landed.slice(0, 7)}`, tone: "", tip: "The main branch has what was changed for it." });
  if (given === "done") said.push({ text: says || `${task.assignee} has answered`, tone: "warn", tip: "An answer ends no task. Its agent does, or a person." });
  if (given === "pending") said.push({ text: `waits for ${task.assignee}`, tone: "" });
  // Who had it gave it up: why it is open again.
  if (task.status === "pending" && !task.badge && task.given?.length && task.note) said.push({ text: task.note, tone: "warn", tip: task.note });
  const attempts = task.attempts ?? 0;
  const most = task.max_attempts ?? 0;
  if (task.badge === "blocked") {
    said.push({ text: blockedBy(task, all), tone: "warn", tip: task.note ?? undefined });
  }
  if (task.badge === "failed" || task.badge === "dead") {
    const why = task.error_message || task.note;
    if (why) said.push({ text: why, tone: "bad", tip: why });
  }
  if (task.status !== "done") {
    const running = task.status === "in_progress";
    const nth = attempts + (running ? 1 : 0);
    if (nth > (running ? 1 : 0) && most) said.push({ text: running ? `attempt ${nth} of ${most}` : `${attempts} of ${most} attempts made`, tone: nth >= most ? "warn" : "" });
    const until = instant(task.lease_until);
    if (running && until !== null) said.push(until > now ? { text: `lease ${span(until - now)}`, tone: "", tip: "The claim ends then, unless its session gives a sign of life." } : { text: "lease ran out", tone: "warn", tip: "The next agent that asks for work gets it." });
    const due = instant(task.not_before);
    if (task.status === "pending" && due !== null && due > now) said.push({ text: `again in ${span(due - now)}`, tone: "" });
  }
  return said;
}

/** `waits for t3, t5`: of a blocked task; "" = it is not blocked. */
export function blockedBy(task: Task, all: readonly Task[]): string {
  if (task.badge !== "blocked") return "";
  const by = waitsFor(task, all);
  return by.length ? `waits for ${by.join(", ")}` : task.note || "waits for others";
}

/** `t3`, `t5`: what a blocked task still waits for; a failed one says so, and what left the board is none to wait for. */
export function waitsFor(task: Task, all: readonly Task[]): string[] {
  const board = new Map(all.map((other) => [other.id, other]));
  return (task.depends_on ?? []).flatMap(({ id, number }) => {
    const other = board.get(id);
    if (!other || (other.status === "done" && !other.badge)) return [];
    return [`${ref("t", number)}${other.badge === "failed" || other.badge === "dead" ? ` (${other.badge})` : ""}`];
  });
}
