/** What an agent heard while it worked, and the box to tell it more. */

import { useState } from "preact/hooks";
import { send } from "../state/outbox";
import { inOneLine } from "../text/markdown";
import { agents, entryNow, entryOf, jobs, numberOf } from "../state/room";
import { showEntry } from "../state/view";
import { ref } from "../text/reference";
import type { Heard } from "../types";
import { hued, Icon } from "./bits";
import "../style/steer.css";

/** The messages under the answer that they went into. */
export function HeardList({ heard }: { heard: readonly Heard[] }) {
  return (
    <ul class="heard" aria-label="Heard while it worked" data-testid="heard">
      {heard.map((one) => {
        const entry = entryNow(one.message);
        return (
          <li key={one.message}>
            <button type="button" class="quote" onClick={() => void showEntry(one.message)} style={hued(one.speaker)}>
              <Icon name="reply" size={12} />
              <b>{one.speaker || "the room"}</b>
              <span>{entry ? inOneLine(entry, 90) : one.number ? ref("m", one.number) : "a message"}</span>
            </button>
            <small>{one.after ? `heard after ${one.after}` : "heard in the turn"}</small>
          </li>
        );
      })}
    </ul>
  );
}

/** Below an agent that answers: what it heard meanwhile, and a box to tell it something. */
export function Steer({ agent }: { agent: string }) {
  const [open, setOpen] = useState(false);
  const [text, setText] = useState("");
  const heard = [...jobs.value.values()]
    .filter((job) => job.agent === agent && job.state === "active" && job.heard_at)
    .map((job) => ({ message: job.message_id, number: numberOf(job.message_id), speaker: entryOf(job.message_id)?.speaker ?? "", after: job.heard_after ?? "" }));
  const channel = agents.value.find((one) => one.name === agent)?.channel;
  const within = channel?.hears === "boundary";
  const say = (event: Event) => {
    event.preventDefault();
    if (!text.trim()) return;
    send(`/steer @${agent} ${text.trim()}`);
    setText("");
    setOpen(false);
  };
  return (
    <div class="steering">
      {heard.length > 0 && <HeardList heard={heard} />}
      {open ? (
        <form class="steer" aria-label={`Steer ${agent}`} onSubmit={say} onKeyDown={(event) => event.key === "Escape" && setOpen(false)}>
          <input value={text} autoFocus aria-label={`Tell ${agent}`} placeholder={`Tell ${agent} while it works`} onInput={(event) => setText(event.currentTarget.value)} data-testid="steer-text" />
          <button type="submit" class="button small primary" disabled={!text.trim()}>Send</button>
        </form>
      ) : (
        <button type="button" class="button small" onClick={() => setOpen(true)} data-testid="steer">Steer</button>
      )}
      <small data-tip={channel?.why}>{within ? "It gets this at its next tool." : "It gets this at its next turn."}</small>
    </div>
  );
}
