/** The timeline view: who did what when, what each had seen, how the files stood, and the way back. */

import { useEffect } from "preact/hooks";
import { room } from "../state/room";
import "../style/airspace.css";
import "../style/timeline.css";
import { counted } from "../text/format";
import { Icon, Words } from "../ui/bits";
import { EventPanel } from "./event";
import { CHOICES, KINDS, kindNumber } from "./kinds";
import { Legend } from "./legend";
import { EventList } from "./list";
import { MomentPanel } from "./moment";
import { RewindDialog, startUndo } from "./rewind";
import { Scrubber } from "./scrubber";
import { Stage } from "./stage";
import { follow, hasOlder, loadOlder, problem, reading, set, table, version, words } from "./state";

function Filters() {
  void version.value;
  const { agent, kind, file } = words.value;
  const names = [...new Set([...table.who.texts, ...(agent ? [agent] : [])])].sort((a, b) => a.localeCompare(b));
  return (
    <form class="tl-filters" role="search" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
      <select aria-label="Agent or person" value={agent} onChange={(e) => set({ agent: e.currentTarget.value })} data-testid="tl-agent">
        <option value="">Everybody</option>
        {names.map((name) => <option key={name} value={name}>{name}</option>)}
      </select>
      <select aria-label="Type of event" value={kind} onChange={(e) => set({ kind: e.currentTarget.value })} data-testid="tl-kind">
        <option value="">All events</option>
        {CHOICES.map((id) => <option key={id} value={id}>{KINDS[kindNumber(id)]!.name}</option>)}
      </select>
      <input key={file} type="search" aria-label="File or folder" placeholder="File or folder" defaultValue={file} list="tl-paths" onChange={(e) => set({ file: e.currentTarget.value.trim() })} data-testid="tl-path" />
      <datalist id="tl-paths">{table.paths.texts.slice(0, 400).map((path) => <option key={path} value={path} />)}</datalist>
      {(agent || kind || file) && <button type="button" class="link" onClick={() => set({ agent: "", kind: "", file: "" })} data-testid="tl-clear">Clear</button>}
    </form>
  );
}

function Counts() {
  void version.value;
  return <p data-testid="tl-counts" data-count={table.size}>{counted(table.size, "event")}{reading.value === "yes" && table.older ? ", reading…" : ""}{hasOlder.value && reading.value === "no" && <> · <button type="button" class="link" onClick={loadOlder}>read older ones</button></>}</p>;
}

function Nothing() {
  return (
    <div class="empty" data-testid="tl-none">
      <h2>{problem.value ? "The timeline cannot be read" : reading.value === "yes" ? "Reading the timeline…" : "Nothing has happened yet"}</h2>
      {problem.value && <p role="alert"><Words text={problem.value} /></p>}
      {!problem.value && reading.value === "no" && <p>{room.value?.repo ? "It shows who changed which file, what they had seen of each other's work, and how the files stood at any moment. It begins with an agent's first turn: ask one for a change." : "It shows who changed which file. It needs a repository: name it as `workspace.repo` in `config.json`, and start the room again."}</p>}
    </div>
  );
}

function Side() {
  const { event, at } = words.value;
  return (
    <aside class="tl-side" aria-label="Details">
      <EventPanel />
      <MomentPanel />
      {!event && !at && (
        <section class="tl-panel tl-about">
          <h2>Pick an event</h2>
          <p>Click a mark for what it changed and what its author had seen. From there you can take back what an agent did since, and keep what others did.</p>
          <p>Click beside the marks, or move the slider, for the files of that moment.</p>
        </section>
      )}
      <Legend />
    </aside>
  );
}

export default function TimelineView() {
  useEffect(() => follow(), []);
  void version.value;
  const list = words.value.as === "list";
  const as = (shown: string): void => set({ as: shown });
  return (
    <section class="view tl-view" aria-label="Timeline">
      <header class="view-head">
        <h1>Timeline</h1>
        <Counts />
        <Filters />
        <div class="segments" role="group" aria-label="Shown as">
          <button type="button" aria-pressed={!list} onClick={() => as("")} data-testid="tl-as-picture">Picture</button>
          <button type="button" aria-pressed={list} onClick={() => as("list")} data-testid="tl-as-list">List</button>
        </div>
        <div class="tl-head-acts">
          <button type="button" class="button small" onClick={() => startUndo("undo")} data-tip="Undo the newest “Take back”" data-testid="tl-undo"><Icon name="undo" size={14} /> Undo…</button>
          <button type="button" class="button small" onClick={() => startUndo("redo")} data-tip="Take back again what was undone last" data-testid="tl-redo">Redo…</button>
        </div>
      </header>
      {problem.value && table.size > 0 && <p class="notice notice-warn" role="alert"><Words text={problem.value} /></p>}
      {!table.size ? <Nothing /> : (
        <div class="tl-body">
          <div class="tl-main">
            {list ? <EventList /> : <Stage />}
            {!list && <Scrubber />}
          </div>
          <Side />
        </div>
      )}
      <RewindDialog />
    </section>
  );
}

