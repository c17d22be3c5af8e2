/** What is known, as a graph: entries around the chosen one, and the same as a list for the keyboard. */

import { computed, effect, signal, type Signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { api } from "../api_views";
import { memoryWords, type MemoryWords } from "../state/view";
import { Icon, Words } from "../ui/bits";
import { Chosen, Fold, pointed, Row } from "./entry";
import { ForgetDialog } from "./forget";
import { toFirst } from "./keys";
import { capacity, drawn, LINE, radius, within, type Label, type Line, type Size } from "./layout";
import { againWhenBack, set, wentWrong } from "./state";
import type { Knowledge, KnowledgeEntry } from "./types";
import { fileOf, folded, KNOWLEDGE_KINDS, signOf } from "./words";

/** Entries that are listed of a search, and read around one. */
const LISTED = 60;
const AROUND = 300;
const TYPING_MS = 180;

const list = signal<Knowledge | null>(null);
/** What stands around the entry of the id `of`. */
type Around = Knowledge & { of: string };
const around = signal<Around | null>(null);
/** What went wrong with each: that the list is there takes nothing away from an entry that is not. */
const noList = signal("");
const noEntry = signal("");
const problem = computed(() => (memoryWords.value.entry && noEntry.value) || noList.value);

const choose = (entry: string): void => set({ entry });
const stepsOf = (words: MemoryWords): number => (/^[23]$/.test(words.steps) ? Number(words.steps) : 1);

/** True when it went well; else what went wrong is said. */
async function quiet(problem: Signal<string>, work: () => Promise<void>): Promise<boolean> {
  try {
    await work();
    problem.value = "";
    return true;
  } catch (caught) {
    problem.value = wentWrong(caught);
    return false;
  }
}

let asked = 0;

async function readList(words: MemoryWords): Promise<void> {
  const mine = ++asked;
  const kind = KNOWLEDGE_KINDS.includes(words.kind) ? words.kind : "";
  await quiet(noList, async () => {
    const found = await api.knowledge({ about: words.q.trim(), kind, limit: LISTED });
    if (mine === asked) list.value = found;
  });
}

async function readAround(entry: string): Promise<void> {
  const done = await quiet(noEntry, async () => {
    const found = await api.knowledge({ near: entry, limit: AROUND });
    const of = found.entries.find((other) => other.distance === 0)?.id ?? entry;
    if (memoryWords.peek().entry === entry) around.value = { ...found, of };
  });
  if (!done && memoryWords.peek().entry === entry) around.value = null;
}

/** Read what is asked for while the graph is open. Gives what ends it. */
function follow(): () => void {
  let before: MemoryWords | null = null;
  let soon: ReturnType<typeof setTimeout> | undefined;
  const end = effect(() => {
    const words = memoryWords.value;
    const other = (...fields: (keyof MemoryWords)[]): boolean => before === null || fields.some((field) => words[field] !== before![field]);
    if (other("q", "kind")) {
      clearTimeout(soon);
      soon = setTimeout(() => void readList(words), before ? TYPING_MS : 0);
    }
    // Another one's surroundings stay until these are there.
    if (words.entry && other("entry")) void readAround(words.entry);
    if (!words.entry) around.value = null;
    pointed.value = null;
    before = words;
  });
  const endAgain = againWhenBack(problem, () => {
    const words = memoryWords.peek();
    void readList(words);
    if (words.entry) void readAround(words.entry);
  });
  return () => {
    clearTimeout(soon);
    end();
    endAgain();
  };
}

/** From the rim of one spot to the rim of the other, for a line with an arrow. */
function ends({ source: from, target: to }: Line): { x1: number; y1: number; x2: number; y2: number } {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy) || 1;
  const [a, b] = [radius(from) + 2, radius(to) + 6];
  return { x1: from.x + (dx / length) * a, y1: from.y + (dy / length) * a, x2: to.x - (dx / length) * b, y2: to.y - (dy / length) * b };
}

function Name({ label, class: name }: { label: Label | null; class: string }) {
  const lines = label?.text.split("\n") ?? [];
  return label && <text class={name} x={label.x} y={label.y + 4 - ((lines.length - 1) * LINE) / 2}>{lines.map((line, i) => <tspan key={i} x={label.x} dy={i ? LINE : 0}>{line}</tspan>)}</text>;
}

const isClosed = (line: Line): boolean => !(line.source.entry.is_valid && line.target.entry.is_valid);
const isAgainst = (line: Line): boolean => /^(contradicts|supersedes)$/.test(line.relation);

function Picture({ entries, found, box }: { entries: readonly KnowledgeEntry[]; found: Around; box: Size }) {
  const { spots, lines } = useMemo(() => drawn(entries, found.relations, found.of, box), [entries, found, box]);
  const at = pointed.value;
  return (
    <svg class="kg" width={box.width} height={box.height} aria-hidden="true" data-testid="kg">
      <defs><marker id="kg-arrow" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0 1l6 3-6 3Z" /></marker></defs>
      {lines.map((line, i) => (
        <g key={i} class={`kg-line ${isClosed(line) ? "closed" : ""} ${isAgainst(line) ? "against" : ""} ${at && (line.source.entry.id === at || line.target.entry.id === at) ? "pointed" : ""}`}>
          <line {...ends(line)} marker-end="url(#kg-arrow)" />
        </g>
      ))}
      {spots.map((spot) => (
        <g key={spot.entry.id} class={`kg-spot kg-${spot.entry.knowledge_type} ${spot.entry.is_valid ? "" : "closed"} ${spot.steps === 0 ? "chosen" : ""} ${spot.entry.id === at ? "pointed" : ""}`} onClick={() => choose(spot.entry.id)} data-tip={spot.entry.content.slice(0, 280)} data-testid="kg-spot" data-id={spot.entry.id}>
          <circle cx={spot.x} cy={spot.y} r={radius(spot)} />
          <text class="kg-letter" x={spot.x} y={spot.y + (spot.steps === 0 ? 4.5 : 3.5)}>{signOf(spot.entry.knowledge_type)}</text>
          <Name label={spot.name} class="kg-name" />
        </g>
      ))}
      {lines.map((line, i) => <Name key={i} label={line.name} class="kg-relation" />)}
    </svg>
  );
}

/** The picture in what room there is for it, and what its colours are. */
function Stage({ entries, found }: { entries: readonly KnowledgeEntry[]; found: Around }) {
  const holder = useRef<HTMLDivElement>(null);
  const [box, setBox] = useState<Size | null>(null);
  useLayoutEffect(() => {
    const look = (): void => {
      const { clientWidth: width, clientHeight: height } = holder.current!;
      if (width && height) setBox((before) => (before?.width === width && before.height === height ? before : { width, height }));
    };
    const watcher = new ResizeObserver(look);
    watcher.observe(holder.current!);
    look();
    return () => watcher.disconnect();
  }, []);
  const count = box ? Math.min(capacity(box), entries.length) : 0;
  const kinds = KNOWLEDGE_KINDS.filter((kind) => entries.slice(0, count).some((entry) => entry.knowledge_type === kind));
  return (
    <div class="kg-main" style={{ "--entries": entries.length }}>
      <div class="kg-stage" ref={holder} role="img" aria-label={`The picture of ${count === 1 ? "one entry" : `${count} entries`}. The list has the same.`}>{box && <Picture entries={entries} found={found} box={box} />}</div>
      <div class="kg-bar">
        <Steps />
        <p class="kg-legend" aria-hidden="true">{kinds.map((kind) => <span key={kind} class={`kg-${kind}`}><i>{signOf(kind)}</i> {kind}</span>)}</p>
        {box && count < entries.length && <p class="muted" data-testid="kg-more">The nearest {count} are drawn. The list has {entries.length - 1}{found.more ? ", and there are more" : ""}.</p>}
      </div>
    </div>
  );
}

function Steps() {
  const now = stepsOf(memoryWords.value);
  return (
    <div class="segments kg-steps" role="group" aria-label="Steps around it">
      {[1, 2, 3].map((steps) => <button key={steps} type="button" aria-pressed={steps === now} onClick={() => set({ steps: steps === 1 ? "" : String(steps) })} data-testid={`kg-steps-${steps}`}>{steps === 1 ? "1 step" : `${steps} steps`}</button>)}
    </div>
  );
}

function Search() {
  const words = memoryWords.value;
  return (
    <form class="mem-search" role="search" onSubmit={(event) => event.preventDefault()}>
      <div class="filter">
        <Icon name="search" size={15} />
        <input type="search" value={words.q} onInput={(e) => set({ q: e.currentTarget.value, entry: "" })} onKeyDown={toFirst(".kg-row")} placeholder="Why is it so?" aria-label="Search what is known" data-testid="kg-search" />
      </div>
      <div class="mem-filters" role="group" aria-label="Filters">
        <select aria-label="Kind" value={words.kind} class={words.kind ? "on" : ""} onChange={(e) => set({ kind: e.currentTarget.value, entry: "" })} data-testid="kg-kind">
          <option value="">All kinds</option>
          {KNOWLEDGE_KINDS.map((kind) => <option key={kind} value={kind}>{kind}</option>)}
        </select>
        {words.entry && <button type="button" class="button small" onClick={() => set({ entry: "" })} data-testid="kg-back"><Icon name="left" size={14} /> All entries</button>}
      </div>
    </form>
  );
}

function Empty() {
  const words = memoryWords.value;
  const searched = Boolean(words.q.trim() || KNOWLEDGE_KINDS.includes(words.kind));
  return (
    <div class="empty mem-empty" data-testid="kg-empty">
      <h2>{searched ? "Nothing is known about that" : "Nothing is known yet"}</h2>
      {searched ? <p>Try other words, or all kinds.</p> : (
        <>
          <p>This fills with decisions, problems and their solutions: when somebody writes such a line, or an agent changes files.</p>
          <dl>
            <dt><code>/decide PostgreSQL because we need row locks</code></dt><dd>records a decision.</dd>
            <dt><code>PROBLEM: the clock jumps in CI</code></dt><dd>in a message or a commit; also <code>SOLUTION:</code>, <code>CONSTRAINT:</code> and <code>DECISION:</code>.</dd>
          </dl>
        </>
      )}
    </div>
  );
}

/** What is shown, in words; for readers of the screen as it changes. */
function Status({ shown, found }: { shown: number; found: Around | null }) {
  const all = list.value;
  const known = memoryWords.value.entry ? found : all;
  const asked = Boolean(memoryWords.value.q.trim());
  const count = `${shown} ${shown === 1 ? "entry" : "entries"}`;
  const rest = known?.more ? ". There are more" : "";
  // Unasked, the room puts what only says that files changed behind all others.
  const changes = known === all && !asked && !memoryWords.value.kind ? (all?.entries.filter(fileOf).length ?? 0) : 0;
  const listed = changes && changes < shown ? `${shown - changes} ${shown - changes === 1 ? "entry" : "entries"}, the newest first, then ${changes === 1 ? "a change of a file" : `${changes} changes of files`}` : `${count}, the newest first`;
  const said = !known ? (problem.value ? "" : "Looking…") : known === all ? `${asked ? `${count}, the best first` : listed}${rest}` : shown ? `${count} around it${rest}` : "Nothing relates to it yet";
  return <p class="mem-status" role="status" data-testid="kg-status">{said}</p>;
}

export default function Graph() {
  useEffect(() => follow(), []);
  const side = useRef<HTMLElement>(null);
  const words = memoryWords.value;
  const found = words.entry ? around.value : null;
  const steps = stepsOf(words);
  const [asking, setAsking] = useState<KnowledgeEntry | null>(null);
  const rows = (): HTMLElement[] => [...(side.current?.querySelectorAll<HTMLElement>(".kg-row") ?? [])].filter((row) => row.checkVisibility());
  // What had the focus is gone: the next one of the list has it, or the search.
  const closed = (done: boolean): void => {
    const all = list.value?.entries ?? [];
    const at = all.findIndex((entry) => entry.id === asking?.id);
    const next = (all[at + 1] ?? all[at - 1])?.id;
    if (done) requestAnimationFrame(() => (rows().find((row) => row.dataset.id === next) ?? rows()[0] ?? document.querySelector<HTMLElement>(".mem-search input"))?.focus());
    if (done && list.value) list.value = { ...list.value, entries: list.value.entries.filter((entry) => entry.id !== asking?.id) };
    if (done) set({ entry: "" });
    setAsking(null);
  };
  const entries = useMemo(() => (found ? within(found.entries, found.of, steps) : []), [found, steps]);
  const chosen = found?.entries.find((entry) => entry.id === found.of);
  const shown = words.entry ? entries.filter((entry) => entry !== chosen) : (list.value?.entries ?? []);
  // Who chooses a row goes on at what it became.
  const moved = useRef(false);
  useEffect(() => {
    if (!moved.current || !chosen) return;
    moved.current = false;
    side.current?.scrollTo({ top: 0 });
    side.current?.querySelector<HTMLElement>(".kg-chosen")?.focus({ preventScroll: true });
  }, [chosen]);
  const pick = (entry: string): void => {
    moved.current = true;
    choose(entry);
  };
  const row = (entry: KnowledgeEntry) => <Row key={entry.id} entry={entry} chosen={chosen} relations={found?.relations ?? []} onChoose={() => pick(entry.id)} />;
  const move = (event: KeyboardEvent): void => {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    const all = rows();
    const at = all.indexOf(document.activeElement as HTMLElement);
    if (!by || at < 0) return;
    event.preventDefault();
    all[Math.max(0, Math.min(all.length - 1, at + by))]!.focus();
  };
  return (
    <>
      <Search />
      {problem.value && <p class="notice notice-warn" role="alert"><Words text={problem.value} /></p>}
      {!words.entry && list.value?.entries.length === 0 ? <Empty /> : (
        <div class={`kg-body ${words.entry ? "" : "only-list"}`}>
          {words.entry && (found && chosen ? <Stage entries={entries} found={found} /> : <div class="kg-main" aria-busy={!problem.value} />)}
          <aside class="kg-side" aria-label={words.entry ? "The entry, and what relates to it" : "What is known"} ref={side} onKeyDown={move}>
            {chosen && <Chosen entry={chosen} onForget={() => setAsking(chosen)} />}
            <Status shown={shown.length} found={found} />
            <ol class="kg-list" data-testid="kg-list">
              {words.entry ? shown.map(row) : folded(shown).map((group) => (group.length > 1 ? <Fold key={group[0]!.id} entries={group} row={row} /> : row(group[0]!)))}
            </ol>
          </aside>
        </div>
      )}
      {asking && <ForgetDialog name={asking.id} text={asking.content} onClose={closed} />}
    </>
  );
}
