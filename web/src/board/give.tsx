/** Give tasks to an agent, or to whoever is free: a choice and a button, so that no key gives by itself. */

import { useState } from "preact/hooks";
import { now, workers } from "../state/room";
import { doing, visitors } from "../state/visitors";
import { healthLine } from "../ui/agents";
import { Icon } from "../ui/bits";
import { toSome } from "./doing";

/** `first`: who is chosen at first, "" = whoever is free. `blocked`: why it cannot be given now. */
export function Give({ numbers, first = "", again = false, blocked = "", given }: { numbers: readonly number[]; first?: string; again?: boolean; blocked?: string; given?: () => void }) {
  const [to, setTo] = useState(first);
  const [busy, setBusy] = useState(false);
  const give = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    const done = await toSome(numbers, "give", to || null);
    setBusy(false);
    if (done) given?.();
  };
  return (
    <form class="give" onSubmit={(event) => void give(event)}>
      <select value={to} onChange={(event) => setTo(event.currentTarget.value)} aria-label="Give to" data-testid="give-to">
        <option value="">whoever is free</option>
        {workers.value.map((agent) => <option key={agent.name} value={agent.name}>{agent.name} ({healthLine(agent, now.value)})</option>)}
        {/* People's own sessions, which the room reaches by their programs' hooks. */}
        {visitors.value.flatMap(({ name, sessions }) => sessions.flatMap((each) => (each.alive && each.attached ? <option key={name} value={name}>{name} ({doing(each.attached)})</option> : [])))}
      </select>
      <button type="submit" class="button small primary" disabled={busy || !numbers.length || !!blocked} aria-describedby={blocked ? "give-blocked" : undefined} data-testid="give">
        <Icon name="route" size={14} /> {again ? "Give again" : "Give"}
      </button>
      {blocked && <span class="muted" id="give-blocked" data-testid="give-blocked">{blocked}</span>}
    </form>
  );
}
