/** One task, whole: what it is, what came of it, and what happened to it. Comes as a file of its own. */

import "../style/views.css";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api";
import { api } from "../api_views";
import { inTurn } from "../board/doing";
import { Editable } from "../board/editable";
import { Give } from "../board/give";
import { Work } from "../board/work";
import { asks, BADGES, blockedBy, givenState, remarks } from "../board/cards";
import { roomNow } from "../state/locks";
import { put } from "../state/landing";
import { needs } from "../state/needs";
import { jobs, readBoard, tasks } from "../state/room";
import { follow, giveOpen, taskOpen } from "../state/view";
import "../style/board.css";
import "../style/task.css";
import { ago, full } from "../text/format";
import { readRef, ref } from "../text/reference";
import type { Task, TaskDetail, TaskPatch } from "../coordination_types";
import { attempt, Icon, IconButton, Layer, toast, Words } from "./bits";
import { Path } from "./copyable";
import { Markdown } from "./markdown";
import { PermissionBar } from "./permission_stack";
import { Who } from "./proximity";
import { TaskMark } from "./verified";

const STATUS: Readonly<Record<Task["status"], string>> = { pending: "Pending", in_progress: "In progress", done: "Done" };

/** It ended, and nothing came of it. */
const lost = (task: Task): boolean => task.badge === "failed" || task.badge === "dead";

/** `labels: P1, bug` for each that says something; null: it is more than names with values. */
function listed(value: unknown): string | null {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
  const lines: string[] = [];
  for (const [name, of] of Object.entries(value)) {
    const all: unknown[] = Array.isArray(of) ? of : [of];
    const within = all.length === 1 && typeof of === "object" ? listed(of) : null;
    if (within === null && all.some((one) => typeof one === "object" && one !== null)) return null;
    const said = within ?? all.join(", ");
    if (said) lines.push(within === null ? `${name}: ${said}` : `${name}:\n${said.replace(/^/gm, "  ")}`);
  }
  return lines.join("\n");
}

function Value({ name, value, testid }: { name: string; value: unknown; testid: string }) {
  if (value === null || value === undefined) return null;
  const text = typeof value === "string" ? value : listed(value) ?? JSON.stringify(value, null, 2);
  return <section><h3>{name}</h3><pre class="value" tabIndex={0} aria-label={name} data-testid={testid}>{text}</pre></section>;
}

/** A task that another one needs: its number, when the board has it. */
function Needs({ id, number }: { id: string; number: number }) {
  const other = tasks.value.find((task) => task.id === id);
  if (!other) return <span class="muted">{ref("t", number)} left the board</span>;
  return <button type="button" class="link" data-tip={other.title} onClick={() => (taskOpen.value = other.number)}>{ref("t", other.number)} <span class="muted">{other.badge ?? STATUS[other.status].toLowerCase()}</span></button>;
}

/** `t3, #4 5` as numbers; null: something else stands there. */
function numbersOf(text: string): number[] | null {
  const found = text.split(/[\s,]+/).filter(Boolean).map((word) => readRef(word, "t"));
  return found.every((one) => one?.thing === "t") ? found.map((one) => one!.number) : null;
}

const save = (task: Task, patch: TaskPatch): Promise<boolean> => attempt(inTurn(() => api.setTask(task.number, patch)));

function Priority({ task }: { task: Task }) {
  return (
    <select value={String(task.priority ?? 5)} aria-label="Priority" data-testid="task-priority" onChange={(event) => void save(task, { priority: Number(event.currentTarget.value) })}>
      {Array.from({ length: 10 }, (_, at) => <option key={at} value={String(at + 1)}>{at + 1}{at === 0 ? ", first" : at === 4 ? ", as usual" : at === 9 ? ", last" : ""}</option>)}
    </select>
  );
}

function Depends({ task }: { task: Task }) {
  const needs = task.depends_on ?? [];
  const put = async (text: string): Promise<boolean> => {
    const numbers = numbersOf(text);
    if (numbers === null) {
      toast("Give the numbers of tasks, like t3 t5.", { tone: "problem" });
      return false;
    }
    return save(task, { depends_on: numbers });
  };
  return (
    <Editable name="tasks that it depends on" text={needs.map((need) => ref("t", need.number)).join(" ")} hint="t3 t5" save={put} testid="task-depends">
      {needs.length ? <span class="task-needs">{needs.map((need) => <Needs key={need.id} {...need} />)}</span> : <span class="muted">nothing</span>}
    </Editable>
  );
}

function Files({ task }: { task: Task }) {
  const files = task.files ?? [];
  return (
    <Editable name="files" text={files.join("\n")} hint="One path or pattern a line: src/app.py, docs/**" lines={3} save={(text) => save(task, { files: text.split("\n").map((line) => line.trim()).filter(Boolean) })} testid="task-files">
      {files.length ? <span class="task-needs">{files.map((path) => <Path key={path} path={path} />)}</span> : <span class="muted">none named</span>}
    </Editable>
  );
}

/** What somebody did to it, behind their name. */
const DID: Readonly<Record<string, string>> = {
  created: "made it", submitted: "made it", imported: "imported it", moved: "moved it", moved_all: "moved all tasks", renamed: "renamed it",
  edited: "changed it", given: "gave it to an agent", archived: "took it off the board", cleared: "took all tasks off the board",
  undone: "took a change back", claimed: "took it", completed: "completed it", failed: "failed at it", released: "gave it back", gave_up: "gave it up",
};

/** The message by which who has it was given it. */
function Since({ task }: { task: Task }) {
  const last = task.given?.at(-1);
  if (!last || last.agent !== task.assignee) return null;
  const name = ref("m", last.number);
  return <span class="muted">in <button type="button" class="link mono" aria-label={`Show ${name} in the room`} onClick={() => { taskOpen.value = null; void follow(name); }}>{name}</button></span>;
}

function Facts({ task }: { task: Task }) {
  const facts: [string, preact.ComponentChildren][] = [
    ["State", <><i class={`status status-${lost(task) ? "lost" : task.status}`} aria-hidden="true" /> {lost(task) ? "Ended" : STATUS[task.status]}{task.badge && <span class={`badge badge-${task.badge}`} data-tip={BADGES[task.badge]}>{task.badge}</span>}</>],
    ["Created by", <><Who name={task.created_by} /> <span class="muted" data-tip={full(task.created_at)}>{ago(task.created_at, roomNow.value)}</span></>],
  ];
  if (task.assignee) facts.push([task.status === "done" ? "Ended by" : task.given?.at(-1)?.agent === task.assignee ? "Given to" : "Taken by", <><Who name={task.assignee} /> <Since task={task} /></>]);
  facts.push(["Priority", <Priority task={task} />]);
  if (task.task_type && task.task_type !== "task") facts.push(["Type", <code>{task.task_type}</code>]);
  if (task.source) facts.push(["Issue", <a href={task.source} target="_blank" rel="noreferrer noopener" data-testid="task-source">{task.source.replace(/^https?:\/\//, "")}</a>]);
  facts.push(["Depends on", <Depends task={task} />], ["Files", <Files task={task} />]);
  return <dl class="facts">{facts.map(([name, what]) => <div key={name}><dt>{name}</dt><dd>{what}</dd></div>)}</dl>;
}

function GiveIt({ task }: { task: Task }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!giveOpen.value) return;
    giveOpen.value = false;
    box.current?.querySelector("select")?.focus();
  }, []);
  const last = task.given?.at(-1);
  const has = task.status === "in_progress" && last !== undefined && last.agent === task.assignee;
  return <div class="give-it" ref={box} data-testid="give-it"><Give numbers={[task.number]} first={has ? last.agent : ""} again={has} blocked={blockedBy(task, tasks.value)} /></div>;
}

export default function TaskPanel() {
  const number = taskOpen.value;
  const [told, setTold] = useState<TaskDetail | null>(null);
  const [problem, setProblem] = useState("");
  const live = tasks.value.find((task) => task.number === number);
  // Its line names others.
  useEffect(() => { readBoard().catch(() => undefined); }, []);
  const asked = new Set((live?.given ?? []).map((one) => one.message));
  const states = [...jobs.value.values()].filter((job) => asked.has(job.message_id)).map((job) => job.state).join();
  const seen = `${live?.updated_at} ${live?.status} ${live?.attempts} ${live?.landed} ${states}`;
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
  useEffect(() => {
    if (whole?.work.verifications.length) put(whole.work.verifications);
  }, [whole]);
  const close = (): void => { taskOpen.value = null; };
  // What went wrong stands below, whole.
  const said = task ? remarks(task, tasks.value, roomNow.value, givenState(task, jobs.value), asks(task, needs.value)).filter((remark) => remark.tone !== "bad") : [];
  const reopen = async (): Promise<void> => {
    if (number !== null && (await attempt(api.setTask(number, { status: "pending" })))) toast(`${ref("t", number)} is pending again: a new attempt.`);
  };
  return (
    <Layer label={`Task ${number}`} class="task-dialog" onClose={close} testid="task-dialog">
      <header>
        <span class="task-number">{number === null ? "" : ref("t", number)}</span>
        {task ? <Editable name="title" text={task.title} hint="What is to be done" save={(title) => save(task, { title })} testid="task-name">{/* The focus begins on what is read, not on what would rewrite it. */}<h2 tabIndex={-1} autofocus>{task.title}</h2></Editable> : <h2>Reading it…</h2>}
        {task && <TaskMark task={task} />}
        <IconButton icon="close" label="Close" onClick={close} />
      </header>
      <div class="task-body">
        {problem && <p class="problem" role="alert"><Words text={problem} /></p>}
        {task && <Facts task={task} />}
        {said.length > 0 && <p class="remarks">{said.map((remark) => <span key={remark.text} class={`remark remark-${remark.tone}`}>{remark.text}</span>)}</p>}
        {whole && (
          <section>
            <h3>Description</h3>
            {/* The board's list has only the beginning of it. */}
            <Editable name="description" text={whole.body ?? ""} hint="Markdown. Ctrl Enter saves." lines={10} save={(description) => save(whole, { description })} testid="task-description">
              {whole.body ? <Markdown text={whole.body} /> : <span class="muted">none</span>}
            </Editable>
          </section>
        )}
        {task?.note && task.note !== task.error_message && <p class="note" data-testid="task-note"><Words text={task.note} /></p>}
        {task?.error_message && <section><h3>Error</h3><pre class="value value-bad" tabIndex={0} aria-label="Error" data-testid="task-error">{task.error_message}</pre></section>}
        {whole && <Work work={whole.work} />}
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
                  <span>{event.by ? <><Who name={event.by} /> </> : null}{event.by && event.to ? <>gave it to <Who name={event.to} /></> : (event.by && DID[event.change]) || event.change.replace(/_/g, " ")}{event.note && <small>{event.note}</small>}</span>
                </li>
              ))}
            </ol>
          </section>
        )}
      </div>
      <PermissionBar inTask />
      {task && task.status !== "done" && (
        <footer class="dialog-act">
          <GiveIt key={`${task.number} ${task.assignee}`} task={task} />
          <span class="dialog-moves">
            {task.status === "in_progress" && <button type="button" class="button small" onClick={() => void save(task, { status: "pending" })} data-testid="task-back">Take it back</button>}
            <button type="button" class="button small" onClick={() => void save(task, { status: "done" })} data-testid="task-done"><Icon name="check" size={14} /> It is done</button>
          </span>
        </footer>
      )}
      {task?.status === "done" && (
        <footer class="dialog-act">
          <button type="button" class="button" onClick={() => void reopen()} data-tip="Make it pending again: a new attempt, without the old result" data-testid="reopen"><Icon name="retry" size={14} /> Reopen</button>
        </footer>
      )}
    </Layer>
  );
}
