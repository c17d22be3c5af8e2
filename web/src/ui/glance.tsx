/** The first screen's answers: who does what, what needs somebody, what collides, what can land, what it costs. */

import "../style/glance.css";
import { openAdvisories } from "../state/airspace";
import { readyToLand } from "../state/glance";
import { mainFails } from "../state/landing";
import { needAt, needs } from "../state/needs";
import { now, workers } from "../state/room";
import { usage } from "../state/usage";
import { show, showAirspace } from "../state/view";
import { said, short } from "../text/usage";
import { health } from "./agents";
import { Icon } from "./bits";

/** One line over the transcript; what there is nothing of is not said. */
export function Glance() {
  const waiting = needs.value;
  // What waits for somebody is said once.
  const collisions = openAdvisories.value.filter((one) => !(waiting.length === 1 && waiting[0]!.ref === one.id));
  const ready = readyToLand.value;
  const working = workers.value.filter((agent) => health(agent, now.value) === "working").length;
  const used = usage.value?.total;
  const spent = used ? short(used) : "";
  const red = mainFails.value;
  if (!red && !waiting.length && !collisions.length && !ready.length && !working && !spent) return null;
  const first = waiting[0];
  const one = collisions[0];
  return (
    <nav class="glance" aria-label="At a glance" data-testid="glance">
      {red && (
        <button type="button" class="glance-item alarm" data-testid="glance-main" data-tip={`${red.branch} fails its tests (${red.reference}). ${red.reason}`} onClick={() => { needAt.value = red.need; show("needs"); }}>
          <Icon name="branch" size={14} /> {red.branch} fails
        </button>
      )}
      {first && !(red && waiting.length === 1 && first.id === red.need) && (
        <button type="button" class="glance-item alarm" data-testid="glance-needs" data-tip={`${first.about}: ${first.text}`} onClick={() => show("needs")}>
          <Icon name="inbox" size={14} /> {waiting.length === 1 ? `1 needs you: ${first.about}` : `${waiting.length} need you`}
        </button>
      )}
      {one && (
        <button type="button" class={`glance-item glance-${one.level}`} data-testid="glance-collisions" onClick={() => showAirspace({ advisory: one.id })}>
          <Icon name="airspace" size={14} /> {collisions.length === 1 ? one.agents.length > 1 ? `${one.agents.join(" and ")} collide` : `${one.agents[0]} ${one.set_back?.[0]?.said ?? "conflicts with the main branch"}` : `${collisions.length} collisions`}
        </button>
      )}
      {ready.length > 0 && (
        <button type="button" class="glance-item" data-testid="glance-ready" onClick={() => show("worktrees")}>
          <Icon name="landing" size={14} /> ready to land: {ready.length > 3 ? ready.length : ready.join(", ")}
        </button>
      )}
      {working > 0 && (
        <button type="button" class="glance-item" data-testid="glance-working" onClick={() => show("agents")}>
          <i class="dot dot-working" aria-hidden="true" /> {working} working
        </button>
      )}
      {spent && used && (
        <button type="button" class="glance-item" data-testid="glance-cost" data-tip={said(used)} onClick={() => show("agents")}>
          today {spent}
        </button>
      )}
    </nav>
  );
}
