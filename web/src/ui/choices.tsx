/** What a person can decide where agents collide, as buttons. */

import { useState } from "preact/hooks";
import { api } from "../api_views";
import { agents } from "../state/room";
import type { Choice } from "../airspace_types";
import { attempt, toast } from "./bits";

export function Choices({ of }: { of: readonly Choice[] }) {
  const [busy, setBusy] = useState(false);
  const names = new Set(agents.value.map((agent) => agent.name));
  const shown = of.filter((choice) => names.has(choice.agent));
  const decide = async (choice: Choice): Promise<void> => {
    setBusy(true);
    await attempt(api.decideWho(choice.name, choice.agent).then((told) => toast(told.reason ?? choice.label)));
    setBusy(false);
  };
  if (!shown.length) return null;
  return (
    <div class="choices" role="group" aria-label="Decide who goes on" data-testid="choices">
      {shown.map((choice) => (
        <button key={choice.command} type="button" class="button small" disabled={busy} data-tip={choice.command} onClick={() => void decide(choice)} data-testid={`choose-${choice.name}-${choice.agent}`}>{choice.label}</button>
      ))}
    </div>
  );
}
