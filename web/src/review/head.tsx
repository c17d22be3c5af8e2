/** What one has to know of a branch before it lands, in one line; every fact as the room, or the side bar, has it. */

import { useEffect } from "preact/hooks";
import { standing, turnAsked } from "../state/glance";
import { needs } from "../state/needs";
import { agents, readBoard, tasks } from "../state/room";
import { usage } from "../state/usage";
import { follow, show, taskOpen } from "../state/view";
import { ref } from "../text/reference";
import { said, short } from "../text/usage";
import { Words } from "../ui/bits";
import { AgentMark } from "../ui/verified";

/** Tasks that are named. */
const TASKS = 2;
/** Needs that say what becomes of a branch. */
const OF_BRANCH: ReadonlySet<string> = new Set(["conflict", "not_landed", "settled"]);

function About({ agent }: { agent: string }) {
  const own = tasks.value.filter((task) => task.assignee === agent && task.status !== "done");
  const last = agents.value.find((one) => one.name === agent)?.last;
  if (own.length)
    return <>{own.slice(0, TASKS).map((task) => <button key={task.number} type="button" class="link" data-testid="review-task" onClick={() => (taskOpen.value = task.number)}>{ref("t", task.number)} {task.title}</button>)}{own.length > TASKS && <span>and {own.length - TASKS} more</span>}</>;
  if (!last) return null;
  return <button type="button" class="link" data-testid="review-task" onClick={() => void follow(ref("m", last.number))}>{ref("m", last.number)} {turnAsked(last.message_id, last.asked)}</button>;
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

/** What of the branch waits for a person, and where other lines land than it has. */
export function BranchNotes({ agent, settled }: { agent: string; settled: readonly string[] }) {
  const waits = needs.value.filter((need) => OF_BRANCH.has(need.kind) && need.about.split(" and ").includes(agent));
  return (
    <>
      {waits.map((need) => <p key={need.id} class="diff-note diff-note-warn" data-testid="review-waits"><Words text={need.text} /> <button type="button" class="link" onClick={() => show("needs")}>Decide</button></p>)}
      {settled.map((text) => <p key={text} class="diff-note diff-note-warn" data-testid="review-settled">{text}</p>)}
    </>
  );
}
