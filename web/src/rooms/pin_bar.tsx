/** What is pinned, on top of the transcript, folded. Comes as a file of its own. */

import { useState } from "preact/hooks";
import { api } from "../api";
import { showEntry } from "../state/view";
import { plainLine } from "../text/markdown";
import { ref } from "../text/reference";
import { hued, Icon, IconButton, tell } from "../ui/bits";
import { pins } from "./pins";
import "../style/room_panels.css";

export function PinBar() {
  const [open, setOpen] = useState(false);
  const newest = pins.value[0];
  if (!newest) return null;
  return (
    <section class="pins" aria-label="Pinned" data-testid="pins">
      <button type="button" class="pins-head" aria-expanded={open} onClick={() => setOpen(!open)} data-testid="pins-open">
        <Icon name="pin" size={14} />
        <b>{pins.value.length} pinned</b>
        {!open && <span class="pins-first">{newest.speaker}: {plainLine(newest.body, 120)}</span>}
        <Icon name="down_small" size={13} />
      </button>
      {open && (
        <ul>
          {pins.value.map((pin) => (
            <li key={pin.id} data-testid="pin">
              <button type="button" class="pin-text" onClick={() => { setOpen(false); void showEntry(pin.id); }} data-tip={`Pinned by ${pin.pinned_by}`}>
                <b class="speaker" style={hued(pin.speaker)}>{pin.speaker}</b> <span>{plainLine(pin.body, 300)}</span>
              </button>
              <IconButton icon="close" label={`Take ${ref("m", pin.number)} down`} onClick={() => void tell(api.pin(pin.id, false))} testid="unpin" />
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
