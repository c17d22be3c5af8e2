/** What was verified, in the small: a mark with its state in a word, which opens all results. */

import { useEffect } from "preact/hooks";
import { decisionSaid, stateSaid, type Said } from "../landing/said";
import { verdictOf } from "../state/glance";
import { approvals, newest, verificationOf, verifications, wantVerification } from "../state/landing";
import { worktreeFor } from "../state/worktrees";
import { show, showApproval, verificationShown } from "../state/view";
import "../style/verified.css";
import { readRef, ref } from "../text/reference";
import type { Task } from "../coordination_types";
import type { Entry } from "../types";
import type { Verdict } from "../worktree_types";
import { Icon } from "./bits";

/** A state: sign, word and tone. */
export function StateWord({ said, testid }: { said: Said; testid?: string }) {
  return <span class={`said said-tone-${said.tone}`} data-testid={testid}><i aria-hidden="true">{said.sign}</i>{said.word}</span>;
}

/** `v12 passed`: opens its results. */
export function VerificationMark({ of }: { of: Omit<Verdict, "present" | "said"> & Partial<Pick<Verdict, "present">> }) {
  const changed = of.present === false;
  const told = stateSaid(of.state);
  // A verdict belongs to the files that were tested: of others it is no good news.
  const said = changed ? { word: `${told.word}, changed since`, sign: told.tone === "good" ? "–" : told.sign, tone: told.tone === "good" ? "warn" as const : told.tone } : told;
  return (
    <button
      type="button"
      class={`vmark vmark-${said.tone}`}
      data-testid="vmark"
      data-state={of.state}
      data-changed={changed || undefined}
      data-tip={of.reason || `${of.reference}: ${of.summary || `${of.agent}'s work`}`}
      aria-label={`${of.reference} ${said.word}: show the results`}
      onClick={(event) => { event.stopPropagation(); verificationShown.value = of.number; }}
    >
      <span class="mono">{of.reference}</span> <StateWord said={said} />
    </button>
  );
}

/** The same from its reference; without a word as long as its state is not known. */
export function MarkOf({ reference }: { reference: string }) {
  const held = verificationOf(reference);
  const number = readRef(reference, "v")?.number ?? 0;
  useEffect(() => { if (number) wantVerification(number); }, [number]);
  if (held) return <VerificationMark of={held} />;
  return <button type="button" class="vmark" onClick={() => (verificationShown.value = number)}><span class="mono">{reference}</span></button>;
}

/** The reference alone, where its state is not what matters. */
export function RefTo({ reference }: { reference: string }) {
  return <button type="button" class="link mono" aria-label={`${reference}: show the results`} onClick={() => (verificationShown.value = readRef(reference, "v")?.number ?? null)}>{reference}</button>;
}

/** Of an agent's newest work. */
export function AgentMark({ name }: { name: string }) {
  const one = verdictOf(name);
  return one ? <VerificationMark of={one} /> : null;
}

type Marked = Pick<Task, "id" | "status" | "assignee" | "given" | "landed" | "in_branch">;

/** Of a task: while a session has claimed it, or its work is in its agent's branch and has not landed, that of the branch as it stands,
 *  as in Worktrees, unless the agent worked on another task then; else the newest of the task: what was tested before says nothing
 *  of one that was just given. The room has the same rule
 *  (`verdict`, relay/app/tasks/card.py). */
function taskVerdict(task: Marked): Parameters<typeof VerificationMark>[0]["of"] | null {
  const own = newest.value.tasks.get(task.id) ?? null;
  const agent = task.status === "in_progress" && !task.given?.length ? task.assignee : task.in_branch ? task.given?.at(-1)?.agent : null;
  const tree = agent && !task.landed ? worktreeFor(agent) : undefined;
  if (!tree) return own;
  // Nothing of it is to land: no verdict speaks of that.
  if (!tree.files) return null;
  const now = verdictOf(tree.agent);
  const tested = now && verifications.value.get(now.number);
  const of = tested && (tested.task ?? tested.about.task);
  return now && of && of !== task.id ? own && { ...own, present: false } : now ?? own;
}

export function TaskMark({ task }: { task: Marked }) {
  const one = taskVerdict(task);
  const lost = one?.state === "failed" && one.present !== false && task.status === "done" && !task.landed;
  return one ? <>{lost && <span class="remark remark-bad">done, not landed, tests failed</span>}<VerificationMark of={one} /></> : null;
}

/** Of what an answer changed. */
export function AnswerMark({ job }: { job: number | null }) {
  const one = job === null ? undefined : newest.value.jobs.get(job);
  return one ? <VerificationMark of={one} /> : null;
}

/** Below the room's notices of approvals, verifications and landings: the way to what they are about. */
export function NoticeOf({ entry }: { entry: Entry }) {
  const { notice, approval, verification } = entry.meta;
  const asked = approval === undefined ? undefined : approvals.value.find((one) => one.number === approval);
  if (notice === "approval" && approval !== undefined)
    return (
      <div class="choices" data-testid="approval-asked" data-approval={ref("a", approval)} data-state={asked?.state}>
        <button type="button" class={`button small ${asked?.state === "waiting" ? "primary" : ""}`} onClick={() => showApproval(approval)}>{asked?.state === "waiting" ? "Look at it and decide" : "Show it"}</button>
        {asked && asked.state !== "waiting" && <span class="muted choices-state">{decisionSaid(asked)}</span>}
      </div>
    );
  const held = verification === undefined ? undefined : verifications.value.get(verification);
  if (notice === "verification" && held) return <div class="choices"><VerificationMark of={held} /></div>;
  if (notice === "landing")
    return <div class="choices"><button type="button" class="button small" onClick={() => show("landing")} data-testid="show-landing"><Icon name="landing" size={14} /> Show the landing queue</button></div>;
  return null;
}
