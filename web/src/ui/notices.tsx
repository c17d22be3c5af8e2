/** What is said over the room when something is amiss; the room as it should be has none of it, so it comes by itself. */

import { cutOff } from "../state/live";
import { away, loaded, now, ready, tail, workers } from "../state/room";
import { show } from "../state/view";
import { waiting } from "../text/fleet";
import { moment } from "../text/format";
import { Words } from "./bits";

export function Notices() {
  const t = tail.value;
  const nobody = loaded.value && ready.value.length === 0;
  return (
    <>
      {cutOff.value && (
        <div class="notice notice-warn" role="alert" data-testid="cut-off">
          <b>Cut off since {moment(new Date(cutOff.value.since).toISOString(), now.value)}.</b> This relay cannot reach the room's database. You see the room as it was then. What you write is kept in this browser, and sent when the room is back; nothing else can be done here until then.
          <details><summary>What it says</summary><Words text={`${cutOff.value.why} ${cutOff.value.fix}`} /></details>
        </div>
      )}
      {t?.catching_up && <div class="notice">The room is still reading the transcript ({t.size ? Math.round((100 * t.offset) / t.size) : 0} %).</div>}
      {nobody && away.value.length > 0 && (
        <div class="notice notice-warn" data-testid="all-away">
          No agent can answer now: {waiting(away.value, now.value)}
        </div>
      )}
      {nobody && workers.value.length > 0 && !away.value.length && (
        <div class="notice notice-warn" data-testid="no-agent">
          No agent can answer yet. <button type="button" class="link" onClick={() => show("agents")}>See what to install</button>
        </div>
      )}
    </>
  );
}
