/** The first screen's answers: who does what, what needs somebody, what collides, what can land, what it costs. */

import "../style/glance.css";
import { openAdvisories } from "../state/airspace";
import { askedFor, readyToLand, standing, waitsFor } from "../state/glance";
import { needs } from "../state/needs";
import { kindOf } from "../needs/words";
import { now, workers } from "../state/room";
import { usage } from "../state/usage";
import { agentPanel, show, showAirspace } from "../state/view";
import { counted } from "../text/format";
import { said, short } from "../text/usage";
import { Dot, health, healthLine } from "./agents";
import type { Agent } from "../types";
import { hued, Icon } from "./bits";
import { NeedsMark } from "./doing";

/** One line over the transcript; what there is nothing of is not said. */
export function Glance() {
  const waiting = needs.value;
  // What waits for somebody is said once.
  const collisions = openAdvisories.value.filter((one) => !(waiting.length === 1 && waiting[0]!.ref === one.id));
  const ready = readyToLand.value;
  const working = workers.value.filter((agent) => agent.running && !agent.away).length;
  const used = usage.value?.total;
  const spent = used ? short(used) : "";
  if (!waiting.length && !collisions.length && !ready.length && !working && !spent) return null;
  const first = waiting[0];
  const one = collisions[0];
  return (
    <nav class="glance" aria-label="At a glance" data-testid="glance">
      {first && (
        <button type="button" class="glance-item alarm" data-testid="glance-needs" data-tip={`${first.about}: ${first.text}`} onClick={() => show("needs")}>
          <Icon name="inbox" size={14} /> {waiting.length === 1 ? `1 needs you: ${kindOf(first).name.toLowerCase()}, ${first.about}` : `${waiting.length} need you`}
        </button>
      )}
      {one && (
        <button type="button" class={`glance-item glance-${one.level}`} data-testid="glance-collisions" onClick={() => showAirspace({ advisory: one.id })}>
          <Icon name="airspace" size={14} /> {collisions.length === 1 ? one.agents.length > 1 ? `${one.agents.join(" and ")} collide` : `${one.agents[0]} conflicts with ${one.set_back?.[0]?.branch ?? "the main branch"}` : `${collisions.length} collisions`}
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

const rank = (agent: Agent): number => {
  const kind = standing(agent.name)?.kind;
  if (waitsFor(agent.name) || kind === "collides" || kind === "conflicts") return 0;
  return agent.running ? 1 : kind === "ready" ? 2 : 3;
};

/** The agents on a phone: each is a chip in one row that scrolls. */
export function AgentChips() {
  if (!workers.value.length) return null;
  return (
    <div class="chips" role="group" aria-label="Agents" data-testid="agent-chips">
      {/* Who works or is in trouble is seen without a scroll. */}
      {[...workers.value].sort((a, b) => rank(a) - rank(b)).map((agent) => {
        const state = health(agent, now.value);
        const stands = standing(agent.name);
        const line = state === "ready" ? stands?.text ?? "ready" : healthLine(agent, now.value, true);
        return (
          <button key={agent.name} type="button" class={`chip agent-${state}`} style={hued(agent.name)} onClick={() => (agentPanel.value = agent.name)}>
            <span class="chip-first">
              <Dot state={state} />
              <b class="who">{agent.name}</b>{" "}
              <NeedsMark name={agent.name} />
              <span class={`chip-line ${state === "ready" && stands ? `stands-${stands.kind}` : ""}`}>{line}</span>
            </span>
            {agent.running?.asked && !agent.away && <span class="chip-doing">{askedFor(agent.running.asked.text)}</span>}
            {agent.running && (stands?.kind === "collides" || stands?.kind === "conflicts") && <span class={`chip-doing stands-${stands.kind}`}>{stands.text}</span>}
            {agent.queued > 0 && <span class="offscreen">, {counted(agent.queued, "message")} queued</span>}
          </button>
        );
      })}
    </div>
  );
}
