/** The page of a relay that has no connection to the room's database: nothing of the room can be shown. */

import { outbox } from "../state/outbox";
import { counted } from "../text/format";
import "../style/fleet.css";
import { Words } from "./bits";

export function CutOff({ why, fix }: { why: string; fix: string }) {
  const kept = outbox.value;
  return (
    <main class="centered-page">
      <div class="centered-card cut-off" role="alert" data-testid="cut-off-page">
        <h1>This relay is cut off from the room</h1>
        <p>It runs, but cannot reach the room's database, so what was said cannot be shown. The page opens by itself when the database is back.</p>
        {kept.length > 0 && (
          <div>
            <p>{counted(kept.length, "message")} of yours {kept.length === 1 ? "is" : "are"} kept in this browser and not sent yet. {kept.length === 1 ? "It is" : "They are"} sent then:</p>
            <ol data-testid="kept">{kept.map((one) => <li key={one.client_id}>{one.body}</li>)}</ol>
          </div>
        )}
        <p class="muted">On the relay's machine, <code>.relay/transcript.log</code> has what was said up to the cut.</p>
        <details><summary>What it says</summary><p class="muted"><Words text={`${why} ${fix}`} /></p></details>
      </div>
    </main>
  );
}
