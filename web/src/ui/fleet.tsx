/** The relays that share the room (docs/fleet.md). Where there is one, there is nothing to see. */

import { show } from "../state/view";
import { fleet, now } from "../state/room";
import { clockOff, shared, standing } from "../text/fleet";
import type { FleetMember } from "../types";
import "../style/fleet.css";

export const dot = (member: FleetMember): string => (member.state === "live" ? "ready" : member.state === "left" ? "off" : "away");
export const here = (member: FleetMember): boolean => member.name === fleet.value?.name;

/** In the side bar, below the agents. */
export function FleetList() {
  const members = shared(fleet.value);
  if (!members.length) return null;
  return (
    <>
      <h2>Relays</h2>
      <ul class="agent-list" data-testid="fleet-list">
        {members.map((member) => (
          <li key={member.name}>
            <button type="button" class={`agent-row member-${member.state}`} onClick={() => show("agents")} data-testid={`member-${member.name}`} data-state={member.state} data-tip={[member.name, standing(member, now.value), clockOff(member)].filter(Boolean).join("\n")}>
              <i class={`dot dot-${dot(member)}`} aria-hidden="true" />
              <span class="member-name">{member.name}</span>
              <span class="agent-line">{member.state === "live" ? [here(member) && "this one", member.leader && "leads", clockOff(member) && "clock off"].filter(Boolean).join(", ") : standing(member, now.value).replace("no sign of life", "away")}</span>
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}
