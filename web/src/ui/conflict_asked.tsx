/** Below the room's question about a conflict: its five choices, and how it stands. */

import { useState } from "preact/hooks";
import { oursName, standing, theirsName } from "../conflicts/lines";
import { choose } from "../conflicts/choosing";
import { conflicts } from "../state/conflicts";
import { showConflict } from "../state/view";
import "../style/proximity.css";
import { toast } from "./bits";

export function ConflictAsked({ number }: { number: number }) {
  const [busy, setBusy] = useState(false);
  const conflict = conflicts.value.find((one) => one.number === number);
  if (!conflict) return null;
  const decide = async (choice: number): Promise<void> => {
    setBusy(true);
    const { said, refused } = await choose(number, choice);
    toast(refused || said || "Done.", refused ? { tone: "problem" } : {});
    setBusy(false);
  };
  const open = conflict.state === "open";
  return (
    <div class="choices" role="group" aria-label={`What is to stand in ${conflict.reference}`} data-testid="conflict-asked" data-conflict={conflict.reference} data-state={conflict.state}>
      <button type="button" class={`button small ${open ? "primary" : ""}`} onClick={() => showConflict(number)} data-testid="conflict-open">{open ? conflict.whole ? "Compare" : "Compare and edit" : "Show it"}</button>
      {open ? (
        <>
          <button type="button" class="button small" disabled={busy} onClick={() => void decide(1)}>Keep {oursName(conflict)}'s</button>
          <button type="button" class="button small" disabled={busy} onClick={() => void decide(2)}>Keep {theirsName(conflict)}'s</button>
          {!conflict.whole && <button type="button" class="button small" disabled={busy} onClick={() => void decide(3)}>Let {theirsName(conflict)} write both</button>}
          <button type="button" class="button small" disabled={busy} onClick={() => void decide(5)}>Keep apart</button>
        </>
      ) : <span class="muted choices-state">{standing(conflict)}</span>}
    </div>
  );
}
