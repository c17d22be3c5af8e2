/** What a task led to: the messages, what their turns changed, the branch, what was verified, what it cost. */

import { requestOf } from "../state/permissions";
import { agents, jobs, now } from "../state/room";
import { verifications } from "../state/landing";
import { roomNow } from "../state/locks";
import { follow, showWorktree, taskOpen } from "../state/view";
import { ago, amount, counted, full, receipt, span } from "../text/format";
import { dollars } from "../text/usage";
import { plainLine } from "../text/markdown";
import { ref } from "../text/reference";
import type { TaskWork } from "../coordination_types";
import { Icon } from "../ui/bits";
import { Path } from "../ui/copyable";
import { Diffstat } from "../ui/diffstat";
import { Who } from "../ui/proximity";
import { VerificationMark } from "../ui/verified";

/** Files of a branch that are listed. */
const SHOWN = 50;

/** The dialog gives way to what is shown. */
function leave(to: () => void): void {
  taskOpen.value = null;
  to();
}

function Message({ number }: { number: number }) {
  const name = ref("m", number);
  return <button type="button" class="link mono" aria-label={`Show ${name} in the room`} onClick={() => leave(() => void follow(name))}>{name}</button>;
}

function Conversation({ of }: { of: TaskWork["conversation"] }) {
  return (
    <section>
      <h3>Conversation</h3>
      <ol class="task-said" data-testid="task-conversation">
        {of.map((one) => (
          <li key={one.id}>
            <p><Message number={one.number} /> <Who name={one.speaker} /> <time class="muted" dateTime={String(one.at)} data-tip={full(one.at)}>{ago(one.at, roomNow.value)}</time></p>
            <p class="said-text">{plainLine(one.text, 600)}</p>
            {one.jobs.map((told) => {
              const job = jobs.value.get(told.id) ?? told;
              const state = receipt(job, now.value, () => null, agents.value.find((agent) => agent.name === job.agent && agent.away), requestOf(job.agent));
              return <p key={job.id} class="said-job" data-tip={state.detail}><Who name={job.agent} /> <span class={`state state-${state.tone}`}>{state.label}</span></p>;
            })}
          </li>
        ))}
      </ol>
    </section>
  );
}

function Changes({ changes, branch }: Pick<TaskWork, "changes" | "branch">) {
  if (!changes.length && !branch) return null;
  return (
    <section>
      <h3>Changes</h3>
      {changes.length > 0 && (
        <ul class="task-changes" data-testid="task-changes">
          {changes.map((one) => <li key={one.message}><Message number={Number(one.message.slice(1))} /> <Diffstat of={one} files /> <span class="muted">on</span> <code>{one.branch}</code></li>)}
        </ul>
      )}
      {branch && (
        <div class="task-branch" data-testid="task-branch">
          <p>
            <Icon name="branch" size={14} />
            <button type="button" class="link" onClick={() => leave(() => showWorktree(branch.agent))}>{branch.branch ?? `${branch.agent}'s worktree`}</button>
            <Diffstat of={branch} files />
            <span class="muted">{branch.files ? "against the main branch now" : "no changes"}</span>
          </p>
          {branch.changed.length > 0 && (
            <details>
              <summary>{counted(branch.files, "file")}</summary>
              <ul>{branch.changed.slice(0, SHOWN).map((file) => <li key={file.path}><Path path={file.path} /> <Diffstat of={{ ...file, files: 1 }} /></li>)}</ul>
              {branch.files > SHOWN && <p class="muted">and {branch.files - SHOWN} more</p>}
            </details>
          )}
        </div>
      )}
    </section>
  );
}

function Cost({ of }: { of: TaskWork["cost"] }) {
  if (!of.turns) return null;
  const fresh = of.input + of.cache_write;
  return (
    <section>
      <h3>Cost</h3>
      <p class="task-cost" data-testid="task-cost">
        <b>{dollars(of) || "no price told"}</b>
        <span>{counted(of.turns, "turn")}, {span(of.seconds * 1000)}</span>
        <span data-tip="New input and cache writes">{amount(fresh)} new</span>
        <span>{amount(of.cache_read)} cached</span>
        <span>{amount(of.output)} output</span>
        {of.shared > 0 && <span class="muted">{of.shared === of.turns ? "shared with other messages" : `${of.shared} shared with other messages`}</span>}
      </p>
    </section>
  );
}

export function Work({ work }: { work: TaskWork }) {
  const verified = work.verifications.map((one) => verifications.value.get(one.number) ?? one);
  return (
    <>
      {work.conversation.length > 0 && <Conversation of={work.conversation} />}
      <Changes {...work} />
      {verified.length > 0 && <section><h3>Verified</h3><ul class="verified-list" data-testid="task-verified">{verified.map((one) => <li key={one.number}><VerificationMark of={one} /> <span class="muted">{ago(one.at, roomNow.value)}</span> {one.reason && <span>{one.reason}</span>}</li>)}</ul></section>}
      <Cost of={work.cost} />
    </>
  );
}
