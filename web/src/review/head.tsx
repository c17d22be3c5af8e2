/** What one has to know of a branch before it lands, in one line; every fact as the room, or the side bar, has it. */

import { useEffect } from "preact/hooks";
import { standing } from "../state/glance";
import { needs } from "../state/needs";
import { readBoard, tasks } from "../state/room";
import { usage } from "../state/usage";
import { worktreeFor } from "../state/worktrees";
import { follow, show, taskOpen } from "../state/view";
import { ref } from "../text/reference";
import { said, short } from "../text/usage";
import { Words } from "../ui/bits";
import { AgentMark } from "../ui/verified";

/** Tasks that are named. */
const TASKS = 2;
/** Needs that are about what an agent did or asks, not about the agent itself. */
const OF_BRANCH: ReadonlySet<string> = new Set(["collision", "conflict", "not_landed", "settled", "answered", "question", "approval", "handoff"]);

function About({ agent }: { agent: string }) {
  const about = worktreeFor(agent)?.about;
  // Of its tasks, the one that it was given with that message, or took; where nobody knows what the branch is about, all.
  const own = tasks.value.filter((task) => task.assignee === agent && task.status !== "done" && (!about || task.title === about.text || task.given?.some((one) => one.number === about.number)));
  if (own.length)
    return <>{own.slice(0, TASKS).map((task) => <button key={task.number} type="button" class="link" data-testid="review-task" onClick={() => (taskOpen.value = task.number)}>{ref("t", task.number)} {task.title}</button>)}{own.length > TASKS && <span>and {own.length - TASKS} more</span>}</>;
  if (!about) return null;
  if (!about.number) return <span data-testid="review-task">{about.text}</span>;
  return <button type="button" class="link" data-testid="review-task" onClick={() => void follow(ref("m", about.number))}>{ref("m", about.number)} {about.text}</button>;
}

export function BranchLine({ agent }: { agent: string }) {
  useEffect(() => { readBoard().catch(() => undefined); }, []);
  const how = standing(agent);
  const used = usage.value?.agents[agent];
  return (
    <div class="rv-line" role="group" aria-label="What is known of the branch" data-testid="review-line">
      <About agent={agent} />
      <AgentMark name={agent} />
      {how && !how.tests && <span class={`rv-how rv-how-${how.kind}`} data-testid="review-standing">{how.text}</span>}
      {used && <span class="muted" data-tip={said(used)} data-testid="review-cost">{short(used) || "no price told"} today</span>}
    </div>
  );
}

/** Whether a merge into the branch is under way, what of it waits for a person, and where other lines land than it has. */
export function BranchNotes({ agent, underWay, settled }: { agent: string; underWay: string; settled: readonly string[] }) {
  const waits = needs.value.filter((need) => OF_BRANCH.has(need.kind) && need.about.split(" and ").includes(agent));
  return (
    <>
      {underWay && <p class="diff-note diff-note-warn" role="status" data-testid="review-under-way">{underWay}</p>}
      {waits.map((need) => <p key={need.id} class="diff-note diff-note-warn" data-testid="review-waits"><Words text={need.text} /> <button type="button" class="link" onClick={() => show("needs")}>Decide</button></p>)}
      {settled.map((text) => <p key={text} class="diff-note diff-note-warn" data-testid="review-settled">{text}</p>)}
    </>
  );
}
