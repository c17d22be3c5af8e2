/** What stands above and below the columns: the filter, the import, and what is done to the selected cards. */

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api";
import { api } from "../api_views";
import { tasks } from "../state/room";
import { counted } from "../text/format";
import type { Imported, TaskStatus } from "../coordination_types";
import { Icon, IconButton, Layer, toast, Words } from "../ui/bits";
import { inTurn, toSome, undo } from "./doing";
import { filter, filtered, selected, selectOnly, shown, STATES } from "./filter";
import { ALL, NOBODY, type Filter } from "./fits";
import { Give } from "./give";

export function FilterBar() {
  const by = filter.value;
  const set = (patch: Partial<Filter>): void => { filter.value = { ...filter.value, ...patch }; };
  const who = [...new Set(tasks.value.map((task) => task.assignee).filter((name): name is string => !!name))].sort();
  return (
    <div class="board-filter" role="search" aria-label="Filter the board">
      <label class="board-search">
        <Icon name="search" />
        <input
          type="search"
          value={by.words}
          placeholder="Search"
          aria-label="Search the tasks"
          data-testid="board-search"
          onInput={(event) => set({ words: event.currentTarget.value })}
          onKeyDown={(event) => {
            if (event.key === "Escape") { set({ words: "" }); event.currentTarget.blur(); }
            if (event.key === "ArrowDown") document.querySelector<HTMLElement>(".board-view .task")?.focus();
          }}
        />
      </label>
      <select value={by.state} aria-label="State" data-testid="filter-state" onChange={(event) => set({ state: event.currentTarget.value as Filter["state"] })}>
        {STATES.map(([state, name]) => <option key={state} value={state}>{name}</option>)}
      </select>
      <select value={by.who} aria-label="Who has it" data-testid="filter-who" onChange={(event) => set({ who: event.currentTarget.value })}>
        <option value="">Anybody's</option>
        <option value={NOBODY}>Nobody's</option>
        {who.map((name) => <option key={name} value={name}>{name}</option>)}
      </select>
      {filtered.value && (
        <span class="board-found" role="status">
          {counted(shown.value.length, "task")} of {tasks.value.length}
          <button type="button" class="link" onClick={() => (filter.value = ALL)} data-testid="filter-none">Show all</button>
        </span>
      )}
      <Import />
    </div>
  );
}

const COLUMNS: readonly [TaskStatus, string][] = [["pending", "Pending"], ["in_progress", "In progress"], ["done", "Done"]];

/** What is done to all selected cards at once; in one step, which one undo takes back. */
export function SelectedBar() {
  const numbers = selected.value;
  const [to, setTo] = useState<TaskStatus>("done");
  const [priority, setPriority] = useState("1");
  if (!numbers.length) return null;
  const none = (): void => selectOnly([]);
  return (
    <div class="selected-bar" role="region" aria-label="Selected tasks" data-testid="selected-bar">
      <b>{counted(numbers.length, "task")} selected</b>
      <Give numbers={numbers} given={none} />
      <form onSubmit={(event) => { event.preventDefault(); void toSome(numbers, "move", to); }}>
        <select value={to} aria-label="Column" data-testid="some-column" onChange={(event) => setTo(event.currentTarget.value as TaskStatus)}>
          {COLUMNS.map(([status, name]) => <option key={status} value={status}>{name}</option>)}
        </select>
        <button type="submit" class="button small" data-testid="some-move">Move</button>
      </form>
      <form onSubmit={(event) => { event.preventDefault(); void toSome(numbers, "priority", priority); }}>
        <select value={priority} aria-label="Priority" data-testid="some-level" onChange={(event) => setPriority(event.currentTarget.value)}>
          {Array.from({ length: 10 }, (_, at) => <option key={at} value={String(at + 1)}>P{at + 1}{at === 0 ? ", first" : at === 9 ? ", last" : ""}</option>)}
        </select>
        <button type="submit" class="button small" data-testid="some-priority">Set</button>
      </form>
      <button type="button" class="button small danger" data-testid="some-archive" onClick={() => void toSome(numbers, "archive", null)}>Archive</button>
      <IconButton icon="close" label="Select none" onClick={none} testid="select-none" />
    </div>
  );
}

/** The issues of a file: JSON, or one JSON value a line. A line that is none is sent as it is, and refused with its reason. */
function issuesOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text.split("\n").filter((line) => line.trim()).map((line) => {
      try {
        return JSON.parse(line) as unknown;
      } catch {
        return line;
      }
    });
  }
}

function Import() {
  const file = useRef<HTMLInputElement>(null);
  const [told, setTold] = useState<Imported | null>(null);
  const take = async (given: File): Promise<void> => {
    try {
      const text = await given.text();
      const done = await inTurn(() => api.importIssues(issuesOf(text)));
      if (done.refused.length) setTold(done);
      toast(done.reason, done.undo ? { action: { label: "Undo", run: () => void undo(done.undo) } } : {});
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      toast([problem.message, problem.fix].filter(Boolean).join(" "), { tone: "problem" });
    }
  };
  return (
    <>
      <input
        ref={file}
        type="file"
        accept=".json,.jsonl,.ndjson,application/json"
        class="offscreen"
        tabIndex={-1}
        aria-label="A file of issues"
        data-testid="import-file"
        onChange={(event) => {
          const given = event.currentTarget.files?.[0];
          event.currentTarget.value = "";
          if (given) void take(given);
        }}
      />
      <button type="button" class="button small import" data-tip="Issues, as gh issue list --json number,title,body,labels,url,state,assignees writes them" onClick={() => file.current?.click()} data-testid="import">
        <Icon name="down" size={14} /> Import issues
      </button>
      {told && <Told of={told} close={() => setTold(null)} />}
    </>
  );
}

function Told({ of, close }: { of: Imported; close: () => void }) {
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => button.current?.focus(), []);
  return (
    <Layer label="Import" class="import-told" onClose={close} testid="import-told">
      <h2>{of.reason}</h2>
      <p class="muted">These were not taken over:</p>
      <ul>{of.refused.map((one, at) => <li key={at}><code>{typeof one.entry === "number" ? `${one.entry}.` : one.entry}</code> <Words text={one.reason} /></li>)}</ul>
      <button ref={button} type="button" class="button" onClick={close}>Close</button>
    </Layer>
  );
}
