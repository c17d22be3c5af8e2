/** Agents that people run themselves, in the side bar, below the room's own agents. */

import { agentPanel } from "../state/view";
import { roomNow } from "../state/locks";
import { claimsOf, doing, locksOf, QUIET, visitors, type Visitor } from "../state/visitors";
import { ago, counted, instant } from "../text/format";
import { hued } from "./bits";

export function quiet(visitor: Visitor): boolean {
  return roomNow.value - (instant(visitor.sessions[0]!.heartbeat_at) ?? 0) > QUIET;
}

/** The dot before a name: a session that is attached is known to be idle, and not merely unheard of. */
export function dotOf(visitor: Visitor): string {
  if (!visitor.alive) return "off";
  const attached = visitor.sessions[0]!.attached;
  if (attached) return attached.state === "working" ? "working" : attached.state === "waiting" ? "waiting" : "ready";
  return quiet(visitor) ? "quiet" : "ready";
}

/** "2 locks, 1 task", or nothing. */
function holding(name: string): string {
  const held = locksOf(name).length, claimed = claimsOf(name).length;
  return [held ? counted(held, "lock") : "", claimed ? counted(claimed, "task") : ""].filter(Boolean).join(", ");
}


function line(visitor: Visitor): string {
  const last = visitor.sessions[0]!;
  if (visitor.alive && last.attached) return [doing(last.attached), holding(visitor.name)].filter(Boolean).join(", ");
  if (!visitor.alive) return `left ${ago(last.ended_at, roomNow.value)}`;
  return holding(visitor.name) || (quiet(visitor) ? `heard ${ago(last.heartbeat_at, roomNow.value)}` : last.agent_type === "agent" ? "connected" : last.agent_type);
}

export function VisitorList() {
  if (!visitors.value.length) return null;
  return (
    <>
      <h2>Connected on their own</h2>
      <ul class="agent-list">
        {visitors.value.map((visitor) => (
          <li key={visitor.name}>
            <button type="button" class={`agent-row ${visitor.alive ? "" : "agent-off"}`} aria-pressed={agentPanel.value === visitor.name} onClick={() => (agentPanel.value = agentPanel.value === visitor.name ? null : visitor.name)} data-testid={`visitor-${visitor.name}`}>
              <i class={`dot dot-${dotOf(visitor)}`} aria-hidden="true" />
              <span class="agent-name" style={hued(visitor.name)} data-tip={visitor.name.length > 18 ? visitor.name : undefined}>{visitor.name}</span>
              <span class="agent-line">{line(visitor)}</span>
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}
