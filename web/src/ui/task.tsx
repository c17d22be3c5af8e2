/** One task, whole: what it is, what came of it, and what happened to it. Comes as a file of its own. */

import "../style/views.css";
import { useEffect, useState } from "preact/hooks";
import { ApiError } from "../api";
import { api } from "../api_views";
import { BADGES, remarks } from "../state/board";
import { roomNow } from "../state/locks";
import { put, verifications } from "../state/landing";
import { tasks } from "../state/room";
import { taskOpen } from "../state/view";
import "../style/task.css";
import { ago, full } from "../text/format";
import { ref } from "../text/reference";
import type { Task, TaskDetail } from "../coordination_types";
import { attempt, Icon, IconButton, Layer, toast, Words } from "./bits";
import { Who } from "./proximity";
import { VerificationMark } from "./verified";

const STATUS: Readonly<Record<Task["status"], string>> = { pending: "Pending", in_progress: "In progress", done: "Done" };

/** It ended, and nothing came of it. */
const lost = (task: Task): boolean => task.badge === "failed" || task.badge === "dead";

function Value({ name, value, testid }: { name: string; value: unknown; testid: string }) {
  if (value === null || value === undefined) return null;
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return <section><h3>{name}</h3><pre class="value" tabIndex={0} aria-label={name} data-testid={testid}>{text}</pre></section>;
}

/** A task that another one needs: its number, when the board has it. */
function Needs({ id, number }: { id: string; number: number }) {
  const other = tasks.value.find((task) => task.id === id);
  if (!other) return <span class="muted">{ref("t", number)} left the board</span>;
  return <button type="button" class="link" data-tip={other.title} onClick={() => (taskOpen.value = other.number)}>{ref("t", other.number)} <span class="muted">{other.badge ?? STATUS[other.status].toLowerCase()}</span></button>;
}

function Facts({ task }: { task: Task }) {
  const facts: [string, preact.ComponentChildren][] = [
    ["State", <><i class={`status status-${lost(task) ? "lost" : task.status}`} aria-hidden="true" /> {lost(task) ? "Ended" : STATUS[task.status]}{task.badge && <span class={`badge badge-${task.badge}`} data-tip={BADGES[task.badge]}>{task.badge}</span>}</>],
    ["Created by", <><Who name={task.created_by} /> <span class="muted" data-tip={full(task.created_at)}>{ago(task.created_at, roomNow.value)}</span></>],
  ];
  if (task.assignee) facts.push([task.status === "done" ? "Ended by" : "Claimed by", <Who name={task.assignee} />]);
  if (task.task_type && task.task_type !== "task") facts.push(["Type", <code>{task.task_type}</code>]);
  if (task.priority) facts.push(["Priority", <>{task.priority} <span class="muted">(1 is first, 10 last)</span></>]);
  if (task.depends_on?.length) facts.push(["Needs", <span class="needs">{task.depends_on.map((need) => <Needs key={need.id} {...need} />)}</span>]);
  if (task.files?.length) facts.push(["Locks with it", <span class="needs">{task.files.map((path) => <code key={path}>{path}</code>)}</span>]);
  return <dl class="facts">{facts.map(([name, what]) => <div key={name}><dt>{name}</dt><dd>{what}</dd></div>)}</dl>;
}

export default function TaskPanel() {
  const number = taskOpen.value;
  const [told, setTold] = useState<TaskDetail | null>(null);
  const [problem, setProblem] = useState("");
  const live = tasks.value.find((task) => task.number === number);
  const seen = `${live?.updated_at} ${live?.status} ${live?.attempts}`;
  useEffect(() => {
    if (number === null) return;
    let gone = false;
    setProblem("");
    api.task(number).then(
      (detail) => { if (!gone) setTold(detail); },
      (caught) => {
        if (!(caught instanceof ApiError)) throw caught;
        if (!gone) setProblem([caught.message, caught.fix].filter(Boolean).join(" "));
      },
    );
    return () => { gone = true; };
  }, [number, seen]);
  const whole = told?.number === number ? told : null;
  const task = live ?? whole;
  const verified = [...verifications.value.values()].filter((one) => one.task !== null && one.task === task?.id).sort((a, b) => b.number - a.number);
  useEffect(() => {
    if (task) api.verifications({ task: task.id }).then(put, () => undefined);
  }, [task?.id]);
  const close = (): void => { taskOpen.value = null; };
  // What went wrong stands below, whole.
  const said = task ? remarks(task, tasks.value, roomNow.value).filter((remark) => remark.tone !== "bad") : [];
  const reopen = async (): Promise<void> => {
    if (number !== null && (await attempt(api.setTask(number, { status: "pending" })))) toast(`${ref("t", number)} is pending again: a new attempt.`);
  };
  return (
    <Layer label={`Task ${number}`} class="task-dialog" onClose={close} testid="task-dialog">
      <header>
        <span class="task-number">{number === null ? "" : ref("t", number)}</span>
        <h2>{task?.title ?? "Reading it…"}</h2>
        <IconButton icon="close" label="Close" onClick={close} />
      </header>
      <div class="task-body">
        {problem && <p class="problem" role="alert"><Words text={problem} /></p>}
        {task && <Facts task={task} />}
        {said.length > 0 && <p class="remarks">{said.map((remark) => <span key={remark.text} class={`remark remark-${remark.tone}`}>{remark.text}</span>)}</p>}
        {task?.description && task.description.trim() !== task.title && <pre class="value" tabIndex={0} aria-label="Description" data-testid="task-description">{task.description}</pre>}
        {task?.note && task.note !== task.error_message && <p class="note" data-testid="task-note"><Words text={task.note} /></p>}
        {task?.error_message && <section><h3>Error</h3><pre class="value value-bad" tabIndex={0} aria-label="Error" data-testid="task-error">{task.error_message}</pre></section>}
        {verified.length > 0 && <section><h3>Verified</h3><ul class="verified-list" data-testid="task-verified">{verified.map((one) => <li key={one.number}><VerificationMark of={one} /> <span class="muted">{ago(one.at, roomNow.value)}</span> {one.reason && <span>{one.reason}</span>}</li>)}</ul></section>}
        {whole && <Value name="Input" value={whole.input_data} testid="task-input" />}
        {whole && <Value name="Result" value={whole.result} testid="task-result" />}
        {whole && whole.history.length > 0 && (
          <section>
            <h3>What happened</h3>
            <ol class="history" data-testid="task-history">
              {whole.more && <li class="muted">Earlier changes are in the log.</li>}
              {whole.history.map((event) => (
                <li key={event.id}>
                  <time dateTime={event.at} data-tip={full(event.at)}>{ago(event.at, roomNow.value)}</time>
                  <span>{event.by ? <><Who name={event.by} /> </> : null}{event.change.replace(/_/g, " ")}{event.note && <small>{event.note}</small>}</span>
                </li>
              ))}
            </ol>
          </section>
        )}
      </div>
      {task?.status === "done" && (
        <footer class="dialog-act">
          <button type="button" class="button" onClick={() => void reopen()} data-tip="Make it pending again: a new attempt, without the old result" data-testid="reopen"><Icon name="retry" size={14} /> Reopen</button>
        </footer>
      )}
    </Layer>
  );
}
