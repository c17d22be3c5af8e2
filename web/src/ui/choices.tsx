/** What a person can decide where agents collide, as buttons. */

import { useState } from "preact/hooks";
import { api } from "../api";
import { agents } from "../state/room";
import type { Choice } from "../types";
import { attempt, toast } from "./bits";

export function Choices({ of }: { of: readonly Choice[] }) {
  const [busy, setBusy] = useState(false);
  const names = new Set(agents.value.map((one) => one.name));
  const shown = of.filter((one) => names.has(one.agent));
  const decide = async (one: Choice): Promise<void> => {
    setBusy(true);
    await attempt(api.decideWho(one.name, one.agent).then((told) => toast(told.reason ?? one.label)));
    setBusy(false);
  };
  if (!shown.length) return null;
  return (
    <div class="choices" role="group" aria-label="Decide who goes on" data-testid="choices">
      {shown.map((one) => (
        <button key={one.command} type="button" class="button small" disabled={busy} data-tip={one.command} onClick={() => void decide(one)} data-testid={`choose-${one.name}-${one.agent}`}>{one.label}</button>
      ))}
    </div>
  );
}
