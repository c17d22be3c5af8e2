/** The memory view: what the room remembers, found by words and filters; and what is known, as a graph. */

import "../style/views.css";
import { computed } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { shell } from "../state/room";
import { memoryWords } from "../state/view";
import "../style/memory.css";
import { Icon, Words } from "../ui/bits";
import { Lazy } from "../ui/lazy";
import { ForgetDialog } from "./forget";
import { Hit } from "./hit";
import { toFirst } from "./keys";
import { canShowMore, choices, follow, gone, isFiltered, memories, more, nameOf, problem, reading, set, showMore } from "./state";
import type { Memory } from "./types";
import { TIMES } from "./words";

const isGraph = computed(() => memoryWords.value.as === "graph");
const ALL_OFF = { agent: "", kind: "", tag: "", time: "" } as const;
/** The other way of looking begins with the same words, and without what only this one has. */
const lookAt = (as: string): void => set({ ...ALL_OFF, as, entry: "", steps: "" });
const loadGraph = () => import("./graph");

function Choice(props: { label: string; all: string; value: string; values: readonly string[]; testid: string; onChange: (value: string) => void }) {
  const values = props.value && !props.values.includes(props.value) ? [props.value, ...props.values] : props.values;
  return (
    <select aria-label={props.label} value={props.value} class={props.value ? "on" : ""} onChange={(e) => props.onChange(e.currentTarget.value)} data-testid={props.testid}>
      <option value="">{props.all}</option>
      {values.map((value) => <option key={value} value={value}>{value}</option>)}
    </select>
  );
}

function Filters() {
  const words = memoryWords.value;
  const { agents, kinds, tags } = choices.value;
  return (
    <div class="mem-filters" role="group" aria-label="Filters">
      <Choice label="Author" all="Anyone" value={words.agent} values={agents} onChange={(agent) => set({ agent })} testid="mem-agent" />
      <Choice label="Kind" all="All kinds" value={words.kind} values={kinds} onChange={(kind) => set({ kind })} testid="mem-kind" />
      <Choice label="Tag" all="All tags" value={words.tag} values={tags} onChange={(tag) => set({ tag })} testid="mem-tag" />
      <select aria-label="Time" value={words.time} class={words.time ? "on" : ""} onChange={(e) => set({ time: e.currentTarget.value })} data-testid="mem-time">
        {TIMES.map((time) => <option key={time.id} value={time.id}>{time.name}</option>)}
      </select>
      {isFiltered(words) && <button type="button" class="link" onClick={() => set(ALL_OFF)} data-testid="mem-clear">Clear</button>}
    </div>
  );
}

function Search() {
  return (
    <form class="mem-search" role="search" onSubmit={(event) => event.preventDefault()}>
      <div class="filter">
        <Icon name="search" size={15} />
        <input type="search" value={memoryWords.value.q} onInput={(e) => set({ q: e.currentTarget.value })} onKeyDown={toFirst(".mem")} placeholder="What do you want to know?" aria-label="Search the memory" data-testid="mem-search" />
      </div>
      <Filters />
    </form>
  );
}

/** What the list is, in words; for readers of the screen as it changes. */
function Status() {
  const words = memoryWords.value;
  const found = memories.value;
  if (!found?.length) return <p class="mem-status" role="status" data-testid="mem-status">{found || problem.value ? "" : "Looking…"}</p>;
  // What was only said next to these does not bear on it; it comes last, so where some is shown, these are all.
  const own = found.filter((memory) => !memory.beside).length;
  const count = `${own}${more.value && own === found.length ? " or more" : ""}`;
  const said = words.q.trim() ? (own === 1 ? "1 memory bears on it" : `${own ? count : "No"} memories bear on it${own ? ", the best first" : ""}`) : own === 1 ? "1 memory" : `The newest ${count}`;
  return <p class={`mem-status ${reading.value ? "stale" : ""}`} role="status" data-testid="mem-status">{said}{more.value && !canShowMore() && ". Say more words, or filter, for what is not here"}</p>;
}

function HowItFills() {
  return (
    <div class="empty mem-empty" data-testid="mem-empty">
      <Icon name="memory" size={28} />
      <h2>Nothing is remembered yet</h2>
      <p>The room fills this by itself: with what people write, what agents answer and decide, and how tasks end. An agent is then given what bears on its turn.</p>
      <dl>
        <dt><code>/remember never mock the clock here</code></dt><dd>in the room keeps a line of yours.</dd>
        <dt><code>/decide PostgreSQL because we need row locks</code></dt><dd>records a decision with its reason.</dd>
        <dt><code>{shell("import")}</code></dt><dd>on the room's machine takes in what was learned elsewhere.</dd>
      </dl>
    </div>
  );
}

function Nothing() {
  const words = memoryWords.value;
  const { agents } = choices.value;
  if (!agents.length && !words.q.trim() && !isFiltered(words)) return <HowItFills />;
  const asked = words.q.trim();
  if (gone.value) return <div class="empty" data-testid="mem-none"><h2>{gone.value} is forgotten</h2><p>Nobody is told it any more. The message or work that it came from stays where it is.</p></div>;
  return (
    <div class="empty" data-testid="mem-none">
      <h2>{asked ? `Nothing is remembered that bears on “${asked.slice(0, 80)}”` : "Nothing fits these filters"}</h2>
      {isFiltered(words) ? <button type="button" class="button" onClick={() => set(ALL_OFF)}>{asked ? "Search without filters" : "Clear the filters"}</button> : <p>Memories are found by their words. Try the name of a file, an error, or another word for it.</p>}
    </div>
  );
}

function Hits() {
  const [asking, setAsking] = useState<Memory | null>(null);
  const list = useRef<HTMLDivElement>(null);
  const rows = (): HTMLElement[] => [...(list.current?.querySelectorAll<HTMLElement>(".mem") ?? [])];
  const found = memories.value ?? [];
  const forgetting = asking && nameOf(asking);
  const own = found.filter((memory) => !memory.beside);
  const beside = found.filter((memory) => memory.beside);
  const hit = (memory: Memory) => <Hit key={memory.memory_id} memory={memory} onForget={() => setAsking(memory)} />;
  // What had the focus is gone: the next one has it, or the search.
  const closed = (done: boolean): void => {
    const at = found.findIndex((memory) => memory === asking);
    setAsking(null);
    if (done) requestAnimationFrame(() => (rows()[Math.max(0, Math.min(at, found.length - 2))] ?? document.querySelector<HTMLElement>(".mem-search input"))?.focus());
  };
  const step = (event: KeyboardEvent): void => {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    const all = rows();
    const at = all.findIndex((row) => row === document.activeElement);
    if (!by || at < 0) return;
    event.preventDefault();
    all[Math.max(0, Math.min(all.length - 1, at + by))]!.focus();
  };
  return (
    <>
      <div ref={list} onKeyDown={step} aria-busy={reading.value}>
        <ol class="mem-list">{own.map(hit)}</ol>
        {beside.length > 0 && <h2 class="mem-beside" data-testid="mem-beside">Said next to it</h2>}
        {beside.length > 0 && <ol class="mem-list" aria-label="Said next to it">{beside.map(hit)}</ol>}
      </div>
      {canShowMore() && <button type="button" class="button mem-more" onClick={showMore} data-testid="mem-more">Show more</button>}
      {forgetting && <ForgetDialog name={forgetting} text={asking?.summary ?? asking?.content ?? ""} onClose={closed} />}
    </>
  );
}

function Remembered() {
  useEffect(() => follow(), []);
  const found = memories.value;
  return (
    <>
      <Search />
      <div class="mem-box">
        {problem.value && <p class="notice notice-warn" role="alert"><Words text={problem.value} /></p>}
        <Status />
        {found?.length === 0 && !reading.value && !problem.value && <Nothing />}
        <Hits />
      </div>
    </>
  );
}

export default function MemoryView() {
  const graph = isGraph.value;
  return (
    <section class="view mem-view" aria-label="Memory">
      <header class="view-head">
        <h1>Memory</h1>
        <div class="segments" role="group" aria-label="Shown as">
          <button type="button" aria-pressed={!graph} onClick={() => lookAt("")} data-testid="mem-as-list">Memories</button>
          <button type="button" aria-pressed={graph} onClick={() => lookAt("graph")} data-testid="mem-as-graph">Knowledge graph</button>
        </div>
      </header>
      {graph ? <Lazy load={loadGraph} /> : <Remembered />}
    </section>
  );
}
