/** An entry of the knowledge: whole, where it is the chosen one, and as a row of the list. */

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { now } from "../state/room";
import { full, moment } from "../text/format";
import { ref } from "../text/reference";
import { attempt, Icon } from "../ui/bits";
import { Who } from "../ui/proximity";
import { Ended, Unverified } from "./standing";
import { openEvent } from "./state";
import type { KnowledgeEntry, KnowledgeRelation } from "./types";
import { fileOf, relationWords } from "./words";

/** The id of the entry that the pointer or the focus is at in the list: it is marked in the picture. */
export const pointed = signal<string | null>(null);

const READERS: Readonly<Record<string, string>> = { private: "Only its author reads it", role: "Only some roles read it", shared: "Shared with" };

function Kind({ entry }: { entry: KnowledgeEntry }) {
  return <span class={`mem-kind kg-kind kg-${entry.knowledge_type}`}>{entry.knowledge_type}</span>;
}

function When({ entry, plain = false }: { entry: KnowledgeEntry; plain?: boolean }) {
  return (
    <>
      <time dateTime={entry.valid_from} data-tip={full(entry.valid_from)}>{moment(entry.valid_from, now.value)}</time>
      <Ended said={entry} class="kg-closed" plain={plain} />
    </>
  );
}

export function Chosen({ entry, onForget }: { entry: KnowledgeEntry; onForget: () => void }) {
  const readers = READERS[entry.visibility];
  const topics = fileOf(entry) ? [] : entry.topics;
  return (
    <article class={`kg-chosen ${entry.is_valid ? "" : "closed"}`} aria-label="The chosen entry" data-testid="kg-chosen" data-id={entry.id} tabIndex={-1}>
      <header><Kind entry={entry} /><Who name={entry.source_agent} /><Unverified said={entry} /><When entry={entry} />{entry.number && <span class="mem-number">{ref("r", entry.number)}</span>}</header>
      <p class="mem-text">{entry.content}</p>
      <dl>
        {entry.rationale && <><dt>Because</dt><dd>{entry.rationale}</dd></>}
        {entry.alternatives.length > 0 && <><dt>Instead of</dt><dd>{entry.alternatives.join(", ")}</dd></>}
        {topics.length > 0 && <><dt>Topics</dt><dd>{topics.join(", ")}</dd></>}
        {entry.severity && <><dt>Severity</dt><dd>{entry.severity}</dd></>}
        {entry.related_files.length > 0 && <><dt>Files</dt><dd>{entry.related_files.slice(0, 12).map((path) => <code key={path}>{path}</code>)}{entry.related_files.length > 12 && ` and ${entry.related_files.length - 12} more`}</dd></>}
        {entry.valid_to && <><dt>Held until</dt><dd>{moment(entry.valid_to, now.value)}</dd></>}
        {readers && <><dt>Readers</dt><dd>{readers}{entry.visible_to.length ? `: ${entry.visible_to.join(", ")}` : ""}</dd></>}
        {entry.extracted_by === "llm" && <><dt>Source</dt><dd>Taken from the text by a language model; check it.</dd></>}
      </dl>
      <span class="mem-acts">
        <button type="button" class="button small" onClick={() => void attempt(openEvent(entry.source_event))} data-testid="kg-from"><Icon name="right" size={14} /> Where it comes from</button>
        <button type="button" class="button small mem-forget" onClick={onForget} aria-label="Forget this knowledge" data-testid="kg-forget"><Icon name="forget" size={14} /><span> Forget…</span></button>
      </span>
    </article>
  );
}

/** What an entry is to the chosen one; empty where they relate through others only. */
function toChosen(entry: KnowledgeEntry, chosen: KnowledgeEntry | undefined, relations: readonly KnowledgeRelation[]): string {
  if (!chosen) return "";
  for (const { source, relation, target } of relations) {
    if (source === entry.id && target === chosen.id) return `${relationWords(relation)} it`;
    if (source === chosen.id && target === entry.id) return `${relationWords(relation, true)} it`;
  }
  return entry.distance ? `${entry.distance} steps away` : "";
}

/** The changes of one file, the newest first: one row that opens. */
export function Fold({ entries, row }: { entries: readonly KnowledgeEntry[]; row: (entry: KnowledgeEntry) => ComponentChildren }) {
  return (
    <li>
      <details class="kg-fold" data-testid="kg-fold">
        <summary class="kg-row"><span class="kg-head"><Icon name="right" size={12} /><Kind entry={entries[0]!} /><code>{fileOf(entries[0]!)}</code> <span>{entries.length} changes, last <When entry={entries[0]!} plain /></span></span></summary>
        <ol>{entries.map(row)}</ol>
      </details>
    </li>
  );
}

export function Row(props: { entry: KnowledgeEntry; chosen: KnowledgeEntry | undefined; relations: readonly KnowledgeRelation[]; onChoose: () => void }) {
  const { entry } = props;
  const relates = toChosen(entry, props.chosen, props.relations);
  return (
    <li>
      <button type="button" class={`kg-row ${entry.is_valid ? "" : "closed"}`} onClick={props.onChoose} onMouseEnter={() => (pointed.value = entry.id)} onMouseLeave={() => (pointed.value = null)} onFocus={() => (pointed.value = entry.id)} onBlur={() => (pointed.value = null)} data-testid="kg-row" data-id={entry.id}>
        <span class="kg-head">{relates && <b>{relates}</b>}<Kind entry={entry} /><Who name={entry.source_agent} /><Unverified said={entry} /><When entry={entry} plain /></span>
        <span class="kg-content">{entry.content}</span>
      </button>
    </li>
  );
}
