/** The board. A card moves by dragging, by its buttons, or with Shift and an arrow key. */

import "../style/views.css";
import "../style/board.css";
import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api";
import { api } from "../api_views";
import { FilterBar, SelectedBar } from "../board/bar";
import { asks, BADGES, givenState, inHand, ordered, remarks } from "../board/cards";
import { inTurn, toSome, undo } from "../board/doing";
import { filter, filtered, select, selected, selectOnly, shown as inFilter } from "../board/filter";
import { ALL, fits } from "../board/fits";
import { roomNow } from "../state/locks";
import { reading } from "../state/reading";
import { needs } from "../state/needs";
import { boardRead, jobs, now, readBoard, tasks } from "../state/room";
import { giveOpen, phone, taskFocus, taskOpen } from "../state/view";
import { ago, counted } from "../text/format";
import { ref } from "../text/reference";
import type { Task, TaskStatus } from "../coordination_types";
import { attempt, hued, Icon, IconButton, toast } from "./bits";
import { ProximityBadge } from "./near";
import { TaskMark } from "./verified";

const COLUMNS: readonly { status: TaskStatus; name: string; empty: string }[] = [
  { status: "pending", name: "Pending", empty: "Nothing waits. Add a task above, or write /task in the room." },
  { status: "in_progress", name: "In progress", empty: "Drag a task here when somebody starts on it." },
  { status: "done", name: "Done", empty: "Finished tasks are here." },
];

/** Milliseconds within which a second click makes a double one: what desktops take for it, or less. */
const DOUBLE = 300;

/** Cards of a column that are drawn at once: agents may leave thousands. */
const SHOWN = 100;

/** Where cards stand whose move the room has not answered yet: what it tells meanwhile is older than that. */
const moving = signal<ReadonlyMap<number, { to: TaskStatus }>>(new Map());
const statusOf = (task: Task): TaskStatus => moving.value.get(task.number)?.to ?? task.status;

/** The card that the keyboard moves. It is drawn anew in another column, and takes the focus along. */
let carried = { number: 0, until: 0 };

/** Shown at once, taken back when the room says no. */
async function move(task: Task, to: TaskStatus): Promise<void> {
  if (statusOf(task) === to) return;
  const mine = { to };
  moving.value = new Map(moving.value).set(task.number, mine);
  const name = COLUMNS.find((c) => c.status === to)!.name.toLowerCase();
  let back = "";
  const done = await attempt(inTurn(async () => void (back = (await api.setTask(task.number, { status: to })).undo ?? "")));
  if (moving.value.get(task.number) !== mine) return;
  if (done) tasks.value = tasks.value.map((t) => (t.number === task.number ? { ...t, status: to } : t));
  const rest = new Map(moving.value);
  rest.delete(task.number);
  moving.value = rest;
  if (done) toast(`${ref("t", task.number)} is ${name} now.`, back ? { action: { label: "Undo", run: () => void undo(back) } } : {});
}

/** The title that is being rewritten. It is the task's, since its card is drawn anew where the room's answer moves it. */
const renaming = signal<{ id: string; title: string } | null>(null);

const intoText = (element: HTMLTextAreaElement | null): void => {
  element?.focus();
  element?.setSelectionRange(element.value.length, element.value.length);
};

function Card({ task }: { task: Task }) {
  const draft = renaming.value?.id === task.id ? renaming.value : null;
  const card = useRef<HTMLLIElement>(null);
  const opening = useRef(0);
  const status = statusOf(task);
  const at = COLUMNS.findIndex((c) => c.status === status);
  const step = (by: number): void => {
    const next = COLUMNS[at + by];
    if (!next) return;
    carried = { number: task.number, until: Date.now() + 3000 };
    void move(task, next.status);
  };
  useLayoutEffect(() => {
    if (!draft && carried.number === task.number && Date.now() < carried.until) card.current?.focus();
  }, []);
  useEffect(() => {
    if (taskFocus.value === task.number) {
      card.current?.focus();
      card.current?.scrollIntoView({ block: "center" });
      taskFocus.value = null;
    }
  }, [taskFocus.value]);
  const given = givenState(task, jobs.value);
  const said = remarks(task, tasks.value, roomNow.value, given, asks(task, needs.value));
  const chosen = selected.value.includes(task.number);
  const waits = status !== "done" && task.badge !== "blocked" && !task.assignee;
  // In a moment: the focus also leaves a card that is drawn anew, and is in the new one then.
  const rename = (): void => void setTimeout(() => {
    if (renaming.value?.id !== task.id || document.activeElement?.closest(`[data-task="${task.number}"] textarea`)) return;
    const title = renaming.value.title.trim();
    renaming.value = null;
    if (title && title !== task.title) void attempt(inTurn(() => api.setTask(task.number, { title })));
  });
  useEffect(() => () => clearTimeout(opening.current), []);
  const rewrite = (): void => {
    clearTimeout(opening.current);
    renaming.value = { id: task.id, title: task.title };
  };
  const open = (event: MouseEvent): void => {
    const on = event.target as Element;
    if (on.closest("button, a, textarea, label") || event.detail > 1) return;
    if (event.metaKey || event.ctrlKey) return select(task.number);
    clearTimeout(opening.current);
    // A second click on the title rewrites it, so that one waits for it.
    opening.current = window.setTimeout(() => (taskOpen.value = task.number), on.closest(".task-title") ? DOUBLE : 0);
  };
  return (
    <li
      ref={card}
      onClick={open}
      class={`task task-${status} ${chosen ? "task-chosen" : ""}`}
      draggable={!draft}
      tabIndex={0}
      data-task={task.number}
      data-testid="task"
      aria-label={`Task ${task.number}: ${task.title}. ${COLUMNS[at]?.name ?? ""}. ${task.badge ? `${task.badge}. ` : ""}${chosen ? "Selected. " : ""}Shift and an arrow key move it, Space opens it, x selects it.`}
      onDragStart={(event) => {
        event.dataTransfer!.setData("text/plain", String(task.number));
        event.dataTransfer!.effectAllowed = "move";
      }}
      onKeyDown={(event) => {
        if (event.target !== card.current) return;
        if (event.shiftKey && (event.key === "ArrowRight" || event.key === "ArrowLeft")) {
          event.preventDefault();
          step(event.key === "ArrowRight" ? 1 : -1);
        } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
          event.preventDefault();
          const other = event.key === "ArrowDown" ? card.current!.nextElementSibling : card.current!.previousElementSibling;
          (other as HTMLElement | null)?.focus();
        } else if (event.key === " ") {
          event.preventDefault();
          taskOpen.value = task.number;
        } else if (event.key === "Enter") {
          event.preventDefault();
          rewrite();
        } else if (event.key === "x") {
          select(task.number);
        } else if (event.key === "G") {
          giveOpen.value = true;
          taskOpen.value = task.number;
        } else if (event.key === "Escape" && selected.value.length) {
          selectOnly([]);
        }
      }}
    >
      <div class="task-top">
        <label class="task-pick" data-tip="Select it  x"><input type="checkbox" checked={chosen} tabIndex={-1} aria-label={`Select ${ref("t", task.number)}`} data-testid="task-pick" onChange={() => select(task.number)} /></label>
        <button type="button" class="task-number" aria-label={`Open ${ref("t", task.number)}`} data-tip="Everything about it" onClick={() => (taskOpen.value = task.number)} data-testid="task-open">{ref("t", task.number)}</button>
        {task.task_type && task.task_type !== "task" && <span class="task-type">{task.task_type}</span>}
        {task.priority !== null && task.priority !== undefined && task.priority !== 5 && task.priority > 0 && <span class={`priority ${task.priority < 5 ? "high" : ""}`} data-tip={`Priority ${task.priority}: 1 is first, 10 last`}>P{task.priority}</span>}
        {task.badge && <span class={`badge badge-${task.badge}`} data-tip={BADGES[task.badge]}>{task.badge}</span>}
        <span class="task-moves">
          {waits && <IconButton icon="route" label={`Give ${ref("t", task.number)} to whoever is free`} onClick={() => void toSome([task.number], "give", null)} testid="give-any" />}
          <IconButton icon="left" label={`Move ${ref("t", task.number)} back`} disabled={at <= 0} onClick={() => step(-1)} />
          <IconButton icon="right" label={`Move ${ref("t", task.number)} on`} disabled={at >= COLUMNS.length - 1} onClick={() => step(1)} />
        </span>
      </div>
      {draft ? (
        <textarea
          class="task-edit"
          aria-label={`Title of task ${task.number}`}
          ref={intoText}
          value={draft.title}
          onInput={(event) => (renaming.value = { id: task.id, title: event.currentTarget.value })}
          onBlur={rename}
          onKeyDown={(event) => {
            event.stopPropagation();
            if (event.key === "Enter") { event.preventDefault(); event.currentTarget.blur(); }
            if (event.key === "Escape") renaming.value = null;
          }}
        />
      ) : (
        <p class="task-title" onDblClick={rewrite}>{task.title}</p>
      )}
      {said.length > 0 && <p class="remarks">{said.map((one) => <span key={one.text} class={`remark remark-${one.tone}`} data-tip={one.tip}>{one.text}</span>)}</p>}
      <div class="task-meta">
        {task.assignee ? <b style={hued(task.assignee)} class="who">{task.assignee}</b> : null}
        <span>{task.assignee ? "" : `by ${task.created_by}`}</span>
        {!!task.depends_on?.length && task.badge !== "blocked" && <span>{task.depends_on.length > 2 ? `after ${task.depends_on.length} tasks` : `after ${task.depends_on.map((need) => ref("t", need.number)).join(" and ")}`}</span>}
        {!!task.files?.length && <span data-tip={task.files.join("\n")}>{counted(task.files.length, "file")}</span>}
        <span class="muted">{ago(task.updated_at ?? task.created_at, now.value)}</span>
      </div>
      <TaskMark task={{ ...task, status }} />
      {status !== "done" && inHand(task, given) && <ProximityBadge name={task.assignee} />}
    </li>
  );
}

function Column({ status, name, empty }: (typeof COLUMNS)[number]) {
  const [over, setOver] = useState(false);
  const [most, setMost] = useState(SHOWN);
  const list = ordered(inFilter.value.filter((t) => statusOf(t) === status), status);
  const all = list.length > 0 && list.every((task) => selected.value.includes(task.number));
  const selectAll = (): void => selectOnly(all ? selected.value.filter((number) => !list.some((task) => task.number === number)) : [...selected.value, ...list.map((task) => task.number)]);
  // The one that was pointed at is among the shown, wherever it stands.
  const asked = taskFocus.value === null ? -1 : list.findIndex((t) => t.number === taskFocus.value);
  const shown = list.slice(0, Math.max(most, asked + 1));
  return (
    <section
      class={`column ${over ? "over" : ""}`}
      aria-label={`${name}, ${list.length}`}
      data-testid={`column-${status}`}
      onDragOver={(event) => { event.preventDefault(); event.dataTransfer!.dropEffect = "move"; setOver(true); }}
      onDragLeave={(event) => { if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setOver(false); }}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        const number = Number(event.dataTransfer!.getData("text/plain"));
        const task = tasks.value.find((t) => t.number === number);
        if (task) void move(task, status);
      }}
    >
      <header><i class={`status status-${status}`} aria-hidden="true" /><h2>{name}</h2><span class="muted">{list.length}</span>
        {list.length > 0 && <button type="button" class="link column-all" onClick={selectAll} data-testid={`select-${status}`}>{all ? "Select none" : "Select all"}</button>}
      </header>
      {!list.length && <p class="column-empty">{filtered.value ? "None of these is here." : empty}</p>}
      <ul>
        {shown.map((task) => <Card key={task.number} task={task} />)}
        {shown.length < list.length && <li><button type="button" class="button small" onClick={() => setMost(shown.length + SHOWN)}>{(list.length - shown.length).toLocaleString("en")} more</button></li>}
      </ul>
    </section>
  );
}

/** Milliseconds between two looks at the claims' leases: a heartbeat extends them without a word. */
const LOOK = 20_000;

function useLeases(): void {
  useEffect(() => {
    const look = (): void => {
      if (document.hidden || !tasks.value.some((task) => task.lease_until && task.status === "in_progress")) return;
      api.claimed().then(({ tasks: claimed }) => {
        // Whatever was told meanwhile is newer; only the leases of the same claims are taken over.
        const leases = new Map(claimed.map((task) => [`${task.id} ${task.updated_at}`, task.lease_until]));
        tasks.value = tasks.value.map((task) => {
          const lease = leases.get(`${task.id} ${task.updated_at}`);
          return lease && lease !== task.lease_until ? { ...task, lease_until: lease } : task;
        });
      }, () => undefined);
    };
    look();
    const timer = setInterval(look, LOOK);
    return () => clearInterval(timer);
  }, []);
}

/** A card that somebody points at is shown, whatever the filter says. */
function useFound(): void {
  useEffect(() => {
    const task = tasks.value.find((one) => one.number === taskFocus.value);
    if (task && !fits(task, filter.value)) filter.value = ALL;
  }, [taskFocus.value]);
}

/** On a phone one column is seen at a time: the first that has something. */
function useFirst(): void {
  useLayoutEffect(() => {
    const first = COLUMNS.find(({ status }) => inFilter.peek().some((task) => statusOf(task) === status));
    if (phone.peek() && first) document.querySelector(`[data-testid="column-${first.status}"]`)?.scrollIntoView({ inline: "start", block: "nearest", behavior: "instant" });
  }, []);
}

/** What the board's undo would take back; null: not known yet. */
const undoable = signal<string | null>(null);
const lookAtUndo = reading(() => api.claimed().then(({ undo: said }) => { undoable.value = said ?? null; }, () => undefined));

function Undo() {
  useEffect(() => tasks.subscribe(() => lookAtUndo.soon()), []);
  const said = undoable.value;
  return (
    <button type="button" class="button small" disabled={said === ""} aria-description={said ? `Takes back: ${said}` : undefined} data-tip={said ? `Takes back: ${said}` : undefined} onClick={() => void undo()} data-testid="undo">
      <Icon name="undo" size={14} /> Undo
      {said && !phone.value && <span class="undo-what" aria-hidden="true">{said}</span>}
    </button>
  );
}

export default function BoardView() {
  const [problem, setProblem] = useState("");
  useEffect(() => {
    readBoard().catch((caught) => {
      if (!(caught instanceof ApiError)) throw caught;
      setProblem([caught.message, caught.fix].filter(Boolean).join(" "));
    });
  }, []);
  if (boardRead.value) return <Board />;
  return <section class="view board-view" aria-label="Board" aria-busy={!problem}>{problem && <p class="problem" role="alert">{problem}</p>}</section>;
}

function Board() {
  const [title, setTitle] = useState("");
  useFirst();
  useLeases();
  useFound();
  return (
    <section class="view board-view" aria-label="Board">
      <header class="view-head">
        <h1>Board</h1>
        <form
          class="add-task"
          onSubmit={(event) => {
            event.preventDefault();
            const wanted = title.trim();
            if (!wanted) return;
            setTitle("");
            void attempt(inTurn(() => api.addTask(wanted))).then((ok) => { if (!ok) setTitle(wanted); });
          }}
        >
          <Icon name="plus" />
          <input value={title} onInput={(e) => setTitle(e.currentTarget.value)} onKeyDown={(e) => { if (e.key === "Escape") e.currentTarget.blur(); }} placeholder="Add a task" aria-label="Add a task" data-testid="add-task" />
        </form>
        <Undo />
      </header>
      <FilterBar />
      <div class="columns">{COLUMNS.map((column) => <Column key={column.status} {...column} />)}</div>
      <SelectedBar />
    </section>
  );
}
