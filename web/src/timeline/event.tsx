/** One event: what it did, what its author had seen and had not, what it led to, and what can be done from here. */

import { useEffect, useState } from "preact/hooks";
import { api } from "../api_views";
import { full } from "../text/format";
import type { EventHead, WholeEvent } from "../timeline_types";
import { handoffs } from "../state/handoffs";
import { Icon, IconButton, Words } from "../ui/bits";
import { Path } from "../ui/copyable";
import { HandoffAnswers } from "../ui/handoff_answers";
import { problemOf } from "./answer";
import { Between } from "./between";
import { Glyph } from "./legend";
import type { Place } from "./columns";
import { drawnKind } from "./levels";
import { gone, isPerson, lanesOf, nameIn, replicaOf, set, table, taken, takenWords, version, words } from "./state";
import { whyNot } from "./taking_back";
import { Name } from "./name";
import { startRewind, startUndo } from "./rewind";
import { deed, isNobody, kindId, nameOf, sentence, when } from "./words";

/** Characters of a payload that are shown. */
const MOST = 20_000;
/** Milliseconds that an event is picked before the room is asked about it. */
const REST_MS = 90;

const pick = (number: number | string): void => set({ event: String(number) });

/** An event of the table, as a line that leads to it. */
function Linked({ number }: { number: number }) {
  const place = table.find(number);
  if (!place) return <li class="muted">#{number}, not read yet</li>;
  const name = nameOf(table, place);
  return (
    <li>
      <button type="button" class="tl-line" onClick={() => pick(number)}>
        <Glyph kind={drawnKind(place.block, place.i, gone.value)} />
        <span><Name name={name} /> {deed(table, place)} <span class="muted">{when(place.block.at[place.i]!)} · #{number}</span></span>
      </button>
    </li>
  );
}

function Head({ head }: { head: EventHead }) {
  if (table.find(head.number)) return <Linked number={head.number} />;
  return <li class="muted">#{head.number} {whoseHead(head)}: {head.files.slice(0, 3).join(", ")}</li>;
}

/** One that is known by its id alone: asked for when it is wanted. */
function ById({ id, path }: { id: string; path: string }) {
  const open = async (): Promise<void> => {
    const found = await api.timelineEvent(id).catch(() => null);
    if (found) pick(found.number);
  };
  return <li><button type="button" class="tl-line" onClick={() => void open()}><Icon name="right" size={14} /><span>the last change of <Path path={path} /> before this one <span class="muted">{id.slice(0, 8)}</span></span></button></li>;
}

function Payload({ name, value }: { name: string; value: unknown }) {
  if (value === null || value === undefined) return null;
  const text = JSON.stringify(value, null, 2);
  return (
    <details class="tl-payload">
      <summary>{name}</summary>
      <pre>{text.slice(0, MOST)}{text.length > MOST && `\n… ${text.length - MOST} more characters`}</pre>
    </details>
  );
}

const TOUCHED: Readonly<Record<string, string>> = { write: "changed", delete: "deleted", rename: "renamed", mode: "mode" };

function Touches({ event }: { event: WholeEvent }) {
  const touches = event.outputs?.touches ?? [];
  if (!touches.length) return null;
  const commit = typeof event.outputs?.commit === "string" ? event.outputs.commit : "";
  const before = typeof event.inputs?.tree === "string" ? event.inputs.tree : null;
  return (
    <section>
      <h3>What it changed</h3>
      <ul class="tl-touches">
        {touches.slice(0, 200).map((touch) => (
          <li key={touch.path}>
            <button type="button" class="link plain-link" onClick={() => set({ file: touch.path })} data-tip="Show only the changes of this file"><Path path={touch.path} /></button>
            <span class="tag">{touch.before === null ? "new" : TOUCHED[touch.kind]}</span>
            {touch.from && <span class="muted">from {touch.from}</span>}
          </li>
        ))}
        {touches.length > 200 && <li class="muted">and {touches.length - 200} more</li>}
      </ul>
      {before && event.snapshot && <Between a={before} b={event.snapshot} name="Show the lines" at={commit} />}
    </section>
  );
}

/** The rules of a handoff, as they were checked (docs/timeline.md). */
function Rules({ event }: { event: WholeEvent }) {
  const checked = event.type === "handoff" ? (event.outputs as { validation?: { rules_checked?: { rule: string; state: string; detail?: string | null }[] } }).validation?.rules_checked : undefined;
  if (!checked?.length) return null;
  return (
    <section data-testid="tl-rules">
      <h3>Rules</h3>
      <ul class="tl-touches">{checked.map((one) => <li key={one.rule}><code>{one.rule}</code><span class={`tag ${one.state === "passed" ? "" : "tag-bad"}`}>{one.state.replace(/_/g, " ")}</span>{one.detail && <span class="muted">{one.detail}</span>}</li>)}</ul>
    </section>
  );
}

/** The first cause that somebody did: whom relay did it for. */
function carriedFor(place: Place): { number: number; name: string; kind: string } | null {
  for (const number of table.causesOf(place)) {
    const cause = table.find(number);
    if (cause && !isNobody(nameOf(table, cause))) return { number, name: nameOf(table, cause), kind: kindId(cause) };
  }
  return null;
}

/** “Take back from here”, or in words why there is none. */
function TakeBack({ place, event }: { place: Place; event: WholeEvent | null }) {
  const [name, kind, number] = [nameOf(table, place), kindId(place), place.block.number[place.i]!];
  const carried = isNobody(name) ? carriedFor(place) : null;
  const next = event && event.id === taken.value.undo ? "undo" : event && event.id === taken.value.redo ? "redo" : null;
  const why = whyNot({ name, kind, replica: replicaOf(place), nobody: isNobody(name), known: isPerson(name) || lanesOf(name).length > 0, uncommitted: event?.outputs?.worktree === "main (uncommitted)", carried, next });
  const by = gone.value.get(number);
  return (
    <>
      {by && <p class="tl-why" data-testid="tl-gone">{takenWords(number).replace(/^t/, "T")}. <button type="button" class="link" onClick={() => pick(by.number)}>Show that</button></p>}
      {why && <p class="tl-why" data-testid="tl-why-not"><Words text={why} /> {carried && <button type="button" class="link" onClick={() => pick(carried.number)}>Go there</button>}</p>}
      <div class="tl-acts">
        {!why && next && <button type="button" class="button small" onClick={() => startUndo(next)} data-testid="tl-undo-this"><Icon name="undo" size={14} /> {next === "undo" ? "Undo this…" : "Redo what this undid…"}</button>}
        {!why && !next && <button type="button" class="button small" onClick={() => startRewind({ name, from: number, words: sentence(table, place) })} data-testid="tl-take-back"><Icon name="undo" size={14} /> Take back from here…</button>}
        {place.block.tree[place.i] === 1 && <button type="button" class="button small" onClick={() => set({ at: String(number) })} data-testid="tl-files-here">Files at this moment</button>}
      </div>
    </>
  );
}

/** Who a head is of, with the mark of another room. */
const whoseHead = (head: EventHead): string => `${nameIn(head.lane)}${head.replica ? `@${head.replica.slice(0, 8)}` : ""}`;

/** What people can say of a handoff that waits for them, at the event that it waits at. */
function Handoff({ event }: { event: WholeEvent }) {
  const number = event.type === "handoff" && !event.replica ? event.outputs?.handoff : undefined;
  const open = handoffs.value.find((one) => one.number === number);
  if (typeof number !== "number" || open?.event !== event.id || open.state !== "asked") return null;
  return <section data-testid="tl-handoff"><h3>Handoff {open.name} from {open.source} to {open.target} waits for people</h3><HandoffAnswers number={number} /></section>;
}

function Known({ event }: { event: WholeEvent }) {
  const { seen, unseen } = event.knew;
  if (event.type !== "files.changed" && event.type !== "files.read") return null;
  return (
    <>
      <section data-testid="tl-seen">
        <h3>Its author had seen</h3>
        {seen.length ? <ul class="tl-lines">{seen.map((head) => <Head key={head.id} head={head} />)}</ul> : <p class="muted">No change of somebody else's to these files was new to them.</p>}
      </section>
      {unseen.length > 0 && (
        <section class="tl-unseen" data-testid="tl-unseen">
          <h3>Its author had not seen</h3>
          <ul class="tl-lines">{unseen.map((one) => <ById key={one.path} id={one.event} path={one.path} />)}</ul>
          <p class="muted">Two worked at the same time on one file. That is no conflict by itself: git says what conflicts.</p>
        </section>
      )}
    </>
  );
}

export function EventPanel() {
  void version.value;
  const number = Number(words.value.event);
  const [event, setEvent] = useState<WholeEvent | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let gone = false;
    setEvent(null);
    setProblem("");
    if (!number) return;
    // Whoever goes from event to event by the keyboard does not stop at each.
    const rest = setTimeout(() => {
      api.timelineEvent(number).then(
        (found) => { if (!gone) setEvent(found); },
        (error: unknown) => { if (!gone) setProblem(problemOf(error)); },
      );
    }, REST_MS);
    return () => {
      gone = true;
      clearTimeout(rest);
    };
  }, [number]);
  if (!number) return null;
  const place = table.find(number);
  const seen = new Set(event?.number === number ? event.knew.seen.map((head) => head.number) : []);
  // What its author had seen is named above them.
  const causes = place ? [...table.causesOf(place)].reverse().filter((cause) => !seen.has(cause)) : [];
  const effects = place ? table.effectsOf(number) : [];
  const name = place ? nameOf(table, place) : "";
  return (
    <section class="tl-panel" aria-label={`Event ${number}`} data-testid="tl-event-panel" data-number={number}>
      <header>
        {place && <Glyph kind={drawnKind(place.block, place.i, gone.value)} />}
        <h2>{place ? <><Name name={name} /> {deed(table, place)}</> : `Event ${number}`}</h2>
        <IconButton icon="close" label="Close" onClick={() => set({ event: "" })} testid="tl-close" />
      </header>
      <p class="muted">{event ? full(event.at) : place ? when(place.block.at[place.i]!) : ""} · #{number}{event && ` · ${event.id.slice(0, 8)}`}{event?.branch && ` · ${event.branch}`}{event?.role && event.role !== "agent" && ` · ${event.role}`}</p>
      {place && <TakeBack place={place} event={event?.number === number ? event : null} />}
      {problem && <p class="problem" role="alert">{problem}</p>}
      {!event && !problem && <p class="muted" role="status">Reading it…</p>}
      {event && event.number === number && (
        <>
          <Touches event={event} />
          <Handoff event={event} />
          <Rules event={event} />
          <Known event={event} />
        </>
      )}
      {causes.length > 0 && <section data-testid="tl-causes"><h3>It follows from</h3><ul class="tl-lines">{causes.slice(0, 20).map((cause) => <Linked key={cause} number={cause} />)}</ul></section>}
      {effects.length > 0 && <section data-testid="tl-effects"><h3>It led to</h3><ul class="tl-lines">{effects.slice(0, 20).map((effect) => <Linked key={effect} number={effect} />)}{effects.length > 20 && <li class="muted">and {effects.length - 20} more</li>}</ul></section>}
      {event && event.number === number && <><Payload name="Inputs" value={event.inputs} /><Payload name="Outputs" value={event.outputs} /></>}
    </section>
  );
}

