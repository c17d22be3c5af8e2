/** One memory that was found: its words, whose it is and when, what it taught, where it comes from, and what is to be done. */

import { now } from "../state/room";
import { memoryWords } from "../state/view";
import { full, moment } from "../text/format";
import { ref } from "../text/reference";
import { Icon } from "../ui/bits";
import { Who } from "../ui/proximity";
import { Judge } from "./judge";
import { Ended, Unverified } from "./standing";
import { openSource, set } from "./state";
import type { Memory } from "./types";
import { asTyped, markedParts, sourceWords } from "./words";

const GOOD = /^(success|solved|resolved|done|completed|ok)\b/i;
const BAD = /^(fail|failure|failed|error|dead|lost)/i;

function Marked({ text, marks }: { text: string; marks: readonly string[] }) {
  return <>{markedParts(text, marks).map((part, i) => (part.marked ? <mark key={i}>{part.text}</mark> : part.text))}</>;
}

function Outcome({ outcome }: { outcome: string }) {
  return <span class={`mem-outcome ${GOOD.test(outcome) ? "good" : BAD.test(outcome) ? "bad" : ""}`}>{outcome}</span>;
}

/** When it was said; of what was said again, when last: the newest first go by that. */
function When({ memory }: { memory: Memory }) {
  const { created_at: first, merged = 0 } = memory;
  if (!first) return null;
  const last = memory.updated_at ?? first;
  const at = moment(last, now.value);
  return merged ? <time dateTime={last} data-tip={`${full(first)}, last ${full(last)}`}>{merged + 1} times, last {at}</time> : <time dateTime={first} data-tip={full(first)}>{at}</time>;
}

/** What made it a hit, where the marks do not show that. */
function Why({ memory }: { memory: Memory }) {
  const { neighbour = [], author } = memory.why;
  const near = asTyped(neighbour, memoryWords.peek().q).slice(0, 4);
  const said = [author ? `you asked for ${author}` : "", near.length && !memory.marks.length ? `${near.map((word) => `“${word}”`).join(", ")} ${near.length === 1 ? "was" : "were"} said next to it` : ""].filter(Boolean);
  return said.length ? <p class="mem-why">Found because {said.join(", and ")}.</p> : null;
}

/** What of the content the summary and the lessons do not say. */
function details(memory: Memory): string {
  const at = memory.content.indexOf("\nDetails: ");
  return memory.summary === undefined || at < 0 ? "" : memory.content.slice(at + "\nDetails: ".length);
}

export function Hit({ memory, onForget }: { memory: Memory; onForget: () => void }) {
  const episodic = memory.memory_type === "episodic";
  const name = memory.number ? ref("r", memory.number) : memory.memory_type === "knowledge" ? "this knowledge" : "this skill";
  const kind = episodic ? memory.event_type : memory.memory_type === "knowledge" ? memory.knowledge_type : "skill";
  // An import was no moment of this room: the header says whose and when.
  const opens = memory.imported_by ? "" : sourceWords(memory.source);
  const rest = details(memory);
  const lessons = memory.lessons ?? (memory.rationale ? [`because ${memory.rationale}`] : []);
  return (
    <li class="mem" data-testid="memory" data-type={memory.memory_type} data-number={memory.number} tabIndex={-1}>
      <article aria-label={`${kind ?? "memory"}${memory.agent_id ? ` of ${memory.agent_id}` : ""}`}>
        <header>
          {kind && <span class="mem-kind">{kind}</span>}
          {memory.agent_id && <Who name={memory.agent_id} />}
          <Unverified said={memory} />
          <When memory={memory} />
          <Ended said={memory} class="mem-outcome bad" />
          {memory.outcome && <Outcome outcome={memory.outcome} />}
          {memory.imported_by && memory.imported_by !== memory.agent_id && <span class="muted">imported by {memory.imported_by}</span>}
          {memory.number && <span class="mem-number">{name}</span>}
        </header>
        <p class="mem-text"><Marked text={memory.summary ?? memory.content} marks={memory.marks} /></p>
        {lessons.length > 0 && <ul class="mem-lessons" aria-label={memory.rationale ? "Reason" : "Lessons"}>{lessons.map((lesson, i) => <li key={i}><Marked text={lesson} marks={memory.marks} /></li>)}</ul>}
        {rest && <details class="mem-details"><summary>Details</summary><p><Marked text={rest} marks={memory.marks} /></p></details>}
        <Why memory={memory} />
        <footer>
          {(memory.tags ?? []).filter((tag) => tag !== "unverified").map((tag) => <button key={tag} type="button" class="mem-tag" onClick={() => set({ tag })} aria-label={`Only with the tag ${tag}`}>{tag}</button>)}
          <span class="mem-acts">
            {opens && <button type="button" class="button small" onClick={() => void openSource(memory.source!)} data-testid="from"><Icon name="right" size={14} /> {opens}</button>}
            {memory.memory_type === "knowledge" && <button type="button" class="button small" onClick={() => set({ as: "graph", entry: memory.memory_id })} data-testid="to-graph"><Icon name="airspace" size={14} /> What relates to it</button>}
            <Judge id={memory.memory_id} name={name} feedback={memory.feedback} />
            {memory.memory_type !== "procedural" && <button type="button" class="button small mem-forget" onClick={onForget} aria-label={`Forget ${name}`} data-testid="forget"><Icon name="forget" size={14} /><span> Forget…</span></button>}
          </span>
        </footer>
      </article>
    </li>
  );
}
