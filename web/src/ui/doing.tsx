/** One agent in a line or two: what it does, how its branch stands, what it cost today. */

import "../style/glance.css";
import { aboutOf, standing, taskLine, toolOf, turnAsked, waitsFor } from "../state/glance";
import { now } from "../state/room";
import { usage } from "../state/usage";
import { agentPanel, landingOf, phone, showReview } from "../state/view";
import { worktreeFor } from "../state/worktrees";
import { ago } from "../text/format";
import { said, short } from "../text/usage";
import type { Agent } from "../types";
import { Icon } from "./bits";
import { Diffstat } from "./diffstat";

/** What an agent used today, in the fewest words. */
export function Cost({ name }: { name: string }) {
  const used = usage.value?.agents[name];
  const words = used && short(used);
  return words ? <span class="cost" data-tip={`Today: ${said(used)}`} data-testid={`cost-${name}`}>{words}</span> : null;
}

/** Something of it waits for a person. */
export function NeedsMark({ name }: { name: string }) {
  const need = waitsFor(name);
  return need ? <span class="needs-mark" role="img" aria-label="needs you" data-tip={need.text} data-testid={`needs-${name}`}><Icon name="inbox" size={13} /></span> : null;
}

/** What it works on and with what, or how its branch stands. */
export function Doing({ agent, many = false }: { agent: Agent; many?: boolean }) {
  const turn = agent.running;
  if (turn && !agent.away) {
    const tool = toolOf(agent);
    const asked = turn.asked && turnAsked(turn.message_id, turn.asked);
    return (
      <>
        {turn.asked && <span class="doing" data-testid={`doing-${agent.name}`} data-tip={`${turn.asked.by}: ${asked}${tool ? `\n${tool}` : ""}`}>{asked}</span>}
        <Alarm name={agent.name} />
        {tool && <span class="doing-tool mono" data-testid={`tool-${agent.name}`}>{tool}</span>}
      </>
    );
  }
  // Of many, how its branch stands is the second line, and there is no third.
  const more = !(many && standing(agent.name));
  const task = more && taskLine(agent);
  return (
    <>
      <BranchLine name={agent.name} />
      {task && <span class="doing" data-testid={`task-${agent.name}`} data-tip={task}>{task}</span>}
      {more && <Last agent={agent} />}
    </>
  );
}

/** What the branch of an agent that waits for work is about; where it changes nothing, what it did last, in its person's words. */
export function Last({ agent }: { agent: Agent }) {
  const last = agent.last;
  const about = aboutOf(agent.name);
  if (about) return <span class="doing doing-last" data-testid={`about-${agent.name}`} data-tip={about.text}>{about.text}</span>;
  if (!last) return null;
  const asked = turnAsked(last.message_id, last.asked);
  return (
    <span class="doing doing-last" data-testid={`last-${agent.name}`} data-tip={`${last.asked.by}: ${asked}`}>
      <span>Last: {asked},</span>{" "}<span>{ago(last.at, now.value)}</span>
    </span>
  );
}

/** What is wrong with its branch while it works. */
function Alarm({ name }: { name: string }) {
  const stands = standing(name);
  if (stands?.kind !== "collides" && stands?.kind !== "conflicts") return null;
  return <span class={`doing stands-${stands.kind}`} data-testid={`stands-${name}`} data-kind={stands.kind}>{stands.text}</span>;
}

/** What a person does with a branch: read it, and land it where it can land now. */
export function BranchWays({ name }: { name: string }) {
  const tree = worktreeFor(name);
  const ready = standing(name)?.kind === "ready";
  if (!tree || tree.member || !tree.files) return null;
  const leave = (): void => { if (phone.value) agentPanel.value = null; };
  return (
    <span class="branch-ways">
      <button type="button" class="button small" aria-label={`Review the branch of ${name}`} data-testid={`ways-review-${name}`} onClick={() => { leave(); showReview(name); }}>Review</button>
      {ready && <button type="button" class="button small" aria-label={`Land the branch of ${name}…`} data-testid={`ways-land-${name}`} onClick={() => { leave(); landingOf.value = name; }}>Land…</button>}
    </span>
  );
}

export function BranchLine({ name }: { name: string }) {
  const tree = worktreeFor(name);
  const stands = standing(name);
  if (!stands) return null;
  return (
    <span class="doing" data-testid={`stands-${name}`} data-kind={stands.kind}>
      <span class={`stands stands-${stands.kind}`}>{stands.text}</span>{tree && tree.files > 0 && <span class="stands-figures"> · <Diffstat of={tree} files /></span>}
    </span>
  );
}
