/** A thread, beside the transcript; on a phone over it. Comes as a file of its own. */

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api";
import { api } from "../api_views";
import { entryOf, onEntries, streams } from "../state/room";
import { phone, showEntry } from "../state/view";
import { clock, full } from "../text/format";
import { ref } from "../text/reference";
import { outbox } from "../state/outbox";
import { Avatar, hued, IconButton } from "../ui/bits";
import { Composer } from "../ui/composer";
import { Markdown } from "../ui/markdown";
import { Receipts } from "../ui/receipts";
import type { Entry } from "../types";
import { threadOpen } from "./threads";
import "../style/room_panels.css";

const MOST = 500;

function Said({ entry }: { entry: Entry }) {
  return (
    <article class="thread-entry" data-testid="thread-entry" data-entry={entry.id} aria-label={`${entry.speaker}, ${clock(entry.ts)}`} style={hued(entry.speaker)}>
      <Avatar name={entry.speaker} kind={entry.kind} />
      <div class="content">
        <header>
          <span class="speaker">{entry.speaker}</span>
          <button type="button" class="number link" data-tip={`${full(entry.ts)}: show it in the room`} onClick={() => { if (phone.peek()) threadOpen.value = null; void showEntry(entry.id); }}>
            <time dateTime={entry.ts}>{clock(entry.ts)}</time> {ref("m", entry.number)}
          </button>
        </header>
        {entry.meta.deleted ? <p class="gone">{entry.speaker} deleted this message.</p> : <Markdown text={entry.body} />}
        <Receipts entry={entry} />
      </div>
    </article>
  );
}

/** Those of a thread, as they are now: in the order of the room, each once. */
function merged(held: readonly Entry[], more: readonly Entry[]): readonly Entry[] {
  const all = new Map([...held, ...more].map((entry) => [entry.id, entry]));
  return [...all.values()].sort((a, b) => a.number - b.number);
}

export function ThreadPanel() {
  const root = threadOpen.value!;
  const list = useRef<HTMLDivElement>(null);
  const [held, setHeld] = useState<readonly Entry[]>([]);
  const [cut, setCut] = useState(false);
  const [problem, setProblem] = useState("");

  useEffect(() => {
    let gone = false;
    const begun = entryOf(root);
    setHeld(begun ? [begun] : []);
    setProblem("");
    const read = (): void => {
      api.thread(root, MOST).then(
        (page) => {
          if (gone) return;
          setHeld((before) => merged(before, page.entries));
          setCut(page.more);
        },
        (caught) => {
          if (!(caught instanceof ApiError)) throw caught;
          if (!gone) setProblem([caught.message, caught.fix].filter(Boolean).join(" "));
        },
      );
    };
    read();
    const stop = onEntries((entries) => {
      const here = entries.filter((entry) => entry.thread === root);
      if (here.length) setHeld((before) => merged(before, here));
      if (entries.some((entry) => entry.meta.edits)) read();
    });
    return () => { gone = true; stop(); };
  }, [root]);

  const ids = new Set(held.map((entry) => entry.id));
  const flowing = [...streams.value.values()].filter((stream) => ids.has(stream.message_id));
  const outgoing = outbox.value.filter((item) => item.in_reply_to === root && !item.seen);
  const shown = held.length + flowing.length + outgoing.length;
  useEffect(() => {
    if (list.current) list.current.scrollTop = list.current.scrollHeight;
  }, [shown]);

  const first = held[0];
  const close = (): void => {
    threadOpen.value = null;
    const row = document.getElementById(`e-${root}`) ?? document.querySelector<HTMLElement>(".transcript");
    row?.focus({ preventScroll: true });
    // Once the rows are as wide as before.
    setTimeout(() => row?.scrollIntoView({ block: "nearest" }));
  };
  return (
    <aside class="thread" aria-label="Thread" data-testid="thread" onKeyDown={(event) => { if (event.key === "Escape" && !event.defaultPrevented) close(); }}>
      <header class="thread-head">
        <h2>Thread {first && <span class="muted">{ref("m", first.number)}</span>}</h2>
        <IconButton icon="close" label="Close the thread" onClick={close} testid="thread-close" />
      </header>
      <div class="thread-list" ref={list} role="log" aria-label="Thread" tabIndex={0}>
        {problem && <p role="alert">{problem}</p>}
        {held.map((entry, index) => (
          <div key={entry.id}>
            <Said entry={entry} />
            {index === 0 && cut && <p class="muted thread-cut">Older replies are left out here.</p>}
          </div>
        ))}
        {flowing.map((stream) => <p key={stream.job} class="tool-note" role="status">{stream.agent} is answering…</p>)}
        {outgoing.map((item) => <div key={item.client_id} class="thread-outgoing"><Markdown text={item.body} /><span class="muted">{item.problem ?? (item.state === "sent" ? "sent" : "sending…")}</span></div>)}
      </div>
      {first && <Composer key={root} thread={first} />}
    </aside>
  );
}
