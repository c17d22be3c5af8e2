/** What an agent was given of the room's memory with a turn, and what people say of it. */

import type { RefObject } from "preact";
import { type Dispatch, type StateUpdater, useState } from "preact/hooks";
import { now } from "../state/room";
import { showMemory } from "../state/view";
import "../style/given.css";
import { full, moment } from "../text/format";
import { ref } from "../text/reference";
import { hued } from "../ui/bits";
import { ForgetDialog } from "./forget";
import { Judge } from "./judge";
import { Ended, Unverified } from "./standing";
import { forgotten, nameOf, openSource } from "./state";
import type { Feedback, GivenMemory } from "./types";
import { sourceWords } from "./words";

const TYPES: Readonly<Record<string, string>> = { procedural: "skill", knowledge: "knowledge" };

function Row({ memory, onSaid, onForget }: { memory: GivenMemory; onSaid: (feedback: Feedback) => void; onForget: () => void }) {
  const isKnowledge = memory.memory_type === "knowledge";
  const called = nameOf({ ...memory, memory_id: memory.id });
  const gone = memory.forgotten || (called !== null && forgotten.value.has(called));
  const name = memory.number === null ? (TYPES[memory.memory_type] ?? memory.memory_type) : ref("r", memory.number);
  const shown = isKnowledge ? { as: "graph", entry: memory.id } : memory.number === null ? null : { q: name };
  const opens = memory.source?.message || memory.source?.task != null ? sourceWords(memory.source) : "";
  if (gone) return <li class="given-gone" data-testid="given-memory" data-gone="true"><b>{name}</b> is forgotten since.</li>;
  return (
    <li data-testid="given-memory">
      <p class="given-head">
        {shown ? <button type="button" class="link" onClick={() => showMemory(shown)} data-tip="Show it in the memory">{name}</button> : <b>{name}</b>}
        {memory.author && <b class="who" style={hued(memory.author)}>{memory.author}</b>}
        <Unverified said={memory} />
        {memory.at && <time dateTime={memory.at} data-tip={full(memory.at)}>{moment(memory.at, now.peek())}</time>}
        <Ended said={memory} class="given-outcome" />
        {memory.outcome && <span class="given-outcome">{memory.outcome}</span>}
      </p>
      <p class="given-text">{memory.text ?? (memory.memory_type === "procedural" ? memory.id : "It is not there any more, or not for you to read.")}</p>
      <p class="given-act">
        {opens && <button type="button" class="link" onClick={() => void openSource(memory.source!)}>{opens}</button>}
        <Judge id={memory.id} name={name} feedback={memory.feedback} onSaid={onSaid} />
        {called && memory.text !== null && <button type="button" class="link" onClick={onForget} aria-label={`Forget ${called.startsWith("k") ? "this knowledge" : called}`} data-testid="given-forget">Forget…</button>}
      </p>
    </li>
  );
}

interface GivenProps {
  list: readonly GivenMemory[];
  setList: Dispatch<StateUpdater<readonly GivenMemory[] | null>>;
  box: RefObject<HTMLDivElement | null>;
}

export function GivenList({ list, setList, box }: GivenProps) {
  const [asking, setAsking] = useState<GivenMemory | null>(null);
  const forgetting = asking && nameOf({ ...asking, memory_id: asking.id });
  const said = (id: string, feedback: Feedback): void => setList((all) => all && all.map((memory) => (memory.id === id ? { ...memory, feedback } : memory)));
  // What had the focus is gone: the next one has it, or what opens the list.
  const closed = (done: boolean): void => {
    const at = list.findIndex((memory) => memory === asking);
    setAsking(null);
    if (!done) return;
    requestAnimationFrame(() => {
      const next = [...(box.current?.querySelectorAll("li") ?? [])].slice(at + 1).find((row) => row.querySelector("button"));
      (next ?? box.current)?.querySelector("button")?.focus();
    });
  };
  return (
    <>
      <ul>{list.map((memory) => <Row key={memory.id} memory={memory} onSaid={(feedback) => said(memory.id, feedback)} onForget={() => setAsking(memory)} />)}</ul>
      {forgetting && <ForgetDialog name={forgetting} text={asking?.text ?? ""} onClose={closed} />}
    </>
  );
}
