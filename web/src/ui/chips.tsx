/** The agents over the views of a phone. */

import "../style/chips.css";
import { aboutOf, standing, taskLine, turnAsked, unseen, urgency } from "../state/glance";
import { now, workers } from "../state/room";
import { agentPanel } from "../state/view";
import { counted } from "../text/format";
import { Dot, health, healthLine } from "./agents";
import { hued } from "./bits";
import { Last, NeedsMark } from "./doing";

/** The agents on a phone: each is a chip in one row that scrolls. */
export default function AgentChips() {
  if (!workers.value.length) return null;
  return (
    <div class="chips" role="group" aria-label="Agents" data-testid="agent-chips">
      {/* Who works or is in trouble is seen without a scroll. */}
      {[...workers.value].sort((a, b) => urgency(a) - urgency(b)).map((agent) => {
        const state = health(agent, now.value);
        const stands = standing(agent.name);
        const line = state === "ready" ? stands?.text ?? (unseen(agent.name) ? "looking…" : "ready") : healthLine(agent, now.value, true);
        return (
          <button key={agent.name} type="button" class={`chip agent-${state}`} style={hued(agent.name)} onClick={() => (agentPanel.value = agent.name)}>
            <span class="chip-first">
              <Dot state={state} />
              <b class="who">{agent.name}</b>{" "}
              <NeedsMark name={agent.name} />
              <span class={`chip-line ${state === "ready" && stands ? `stands-${stands.kind}` : ""}`}>{line}</span>
            </span>
            {agent.running?.asked && !agent.away && <span class="chip-doing">{turnAsked(agent.running.message_id, agent.running.asked)}</span>}
            {!agent.running && (!aboutOf(agent.name) && taskLine(agent) ? <span class="chip-doing">{taskLine(agent)}</span> : <Last agent={agent} />)}
            {agent.running && (stands?.kind === "collides" || stands?.kind === "conflicts") && <span class={`chip-doing stands-${stands.kind}`}>{stands.text}</span>}
            {agent.queued > 0 && <span class="offscreen">, {counted(agent.queued, "message")} queued</span>}
          </button>
        );
      })}
    </div>
  );
}
