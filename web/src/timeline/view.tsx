/** The timeline view: who did what when, what each had seen, how the files stood, and the way back. */

import "../style/views.css";
import { computed, effect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { room } from "../state/room";
import "../style/airspace.css";
import "../style/timeline.css";
import { counted } from "../text/format";
import { Icon, Words } from "../ui/bits";
import { EventPanel } from "./event";
import { CHOICES, KINDS, kindNumber } from "./kinds";
import { Legend } from "./legend";
import { EventList } from "./list";
import { Compared, MomentPanel } from "./moment";
import { Moments, openMoments } from "./moments";
import { RewindDialog, startUndo } from "./rewind";
import { Scrubber } from "./scrubber";
import { Stage } from "./stage";
import { follow, hasOlder, loadOlder, othersCount, problem, reading, set, table, version, words } from "./state";

/** Paths that the filter proposes. */
const MOST_PATHS = 400;
const agentNow = computed(() => words.value.agent);
const kindNow = computed(() => words.value.kind);
const fileNow = computed(() => words.value.file);
const hereNow = computed(() => words.value.here === "1");
const pickNow = computed(() => words.value.event || words.value.at);
const isList = computed(() => words.value.as === "list");
const isEmpty = computed(() => (void version.value, !table.size));
const nobody = computed(() => !words.value.event && !words.value.at);
/** How many names and paths there are to choose from: what is drawn is drawn anew only for more of them. */
const nameCount = computed(() => (void version.value, table.who.texts.length));
const pathCount = computed(() => (void version.value, Math.min(MOST_PATHS, table.paths.texts.length)));

function Paths() {
  return <datalist id="tl-paths">{table.paths.texts.slice(0, pathCount.value).map((path) => <option key={path} value={path} />)}</datalist>;
}

function OtherRooms() {
  if (!othersCount.value && !hereNow.value) return null;
  return <label class="tl-here" data-tip="What other rooms recorded and this one pulled"><input type="checkbox" checked={!hereNow.value} onChange={(e) => set({ here: e.currentTarget.checked ? "" : "1" })} data-testid="tl-others" /> Other rooms</label>;
}

function Filters() {
  void nameCount.value;
  const [agent, kind, file] = [agentNow.value, kindNow.value, fileNow.value];
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
      <Paths />
      <OtherRooms />
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

function About() {
  if (!nobody.value) return null;
  return (
    <section class="tl-panel tl-about">
      <h2>Pick an event</h2>
      <p>Click a mark for what it changed and what its author had seen. From there you can take back what an agent did since, and keep what others did.</p>
      <p>Click beside the marks, or move the slider, for the files of that moment.</p>
    </section>
  );
}

function Side() {
  const side = useRef<HTMLElement>(null);
  // Where the details stand below the picture, what is picked brings their beginning into view.
  useEffect(() => effect(() => {
    if (pickNow.value) requestAnimationFrame(() => side.current?.querySelector("header")?.scrollIntoView({ block: "nearest" }));
  }), []);
  return (
    <aside class="tl-side" aria-label="Details" ref={side}>
      <EventPanel />
      <MomentPanel />
      <About />
      <Legend />
    </aside>
  );
}

function Problem() {
  return problem.value && !isEmpty.value ? <p class="notice notice-warn" role="alert"><Words text={problem.value} /></p> : null;
}

export default function TimelineView() {
  useEffect(() => follow(), []);
  const list = isList.value;
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
          <button type="button" class="button small" onClick={openMoments} data-tip="Checkpoints, and the way to any moment" data-testid="tl-open-moments">Moments…</button>
          <button type="button" class="button small" onClick={() => startUndo("undo")} data-tip="Undo the newest “Take back”" data-testid="tl-undo"><Icon name="undo" size={14} /> Undo…</button>
          <button type="button" class="button small" onClick={() => startUndo("redo")} data-tip="Take back again what was undone last" data-testid="tl-redo">Redo…</button>
        </div>
      </header>
      <Problem />
      {isEmpty.value ? <Nothing /> : (
        <div class="tl-body">
          <div class="tl-main">
            <Compared />
            {list ? <EventList /> : <Stage />}
            {!list && <Scrubber />}
          </div>
          <Side />
        </div>
      )}
      <RewindDialog />
      <Moments />
    </section>
  );
}

