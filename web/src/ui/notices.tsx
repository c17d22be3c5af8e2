/** What is said over the room while the relay is cut off from it, or still reads it; it comes when it is needed. */

import { cutOff } from "../state/live";
import { now, tail } from "../state/room";
import { moment } from "../text/format";
import { Words } from "./bits";

export function Notices() {
  const t = tail.value;
  return (
    <>
      {cutOff.value && (
        <div class="notice notice-warn" role="alert" data-testid="cut-off">
          <b>Cut off since {moment(new Date(cutOff.value.since).toISOString(), now.value)}.</b> This relay cannot reach the room's database. You see the room as it was then. What you write is kept in this browser, and sent when the room is back; nothing else can be done here until then.
          <details><summary>What it says</summary><Words text={`${cutOff.value.why} ${cutOff.value.fix}`} /></details>
        </div>
      )}
      {t?.catching_up && <div class="notice">The room is still reading the transcript ({t.size ? Math.round((100 * t.offset) / t.size) : 0} %).</div>}
    </>
  );
}
