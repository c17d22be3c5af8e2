/** The relays that share the room, in the agents' view, below the agents. */

import { fleet, now } from "../state/room";
import { clockOff, listed, shared, standing } from "../text/fleet";
import { full } from "../text/format";
import type { FleetMember } from "../types";
import { dot, here } from "./fleet";

export function FleetCards() {
  const members = shared(fleet.value);
  if (!members.length) return null;
  return (
    <section class="visitors fleet" aria-label="Relays" data-testid="fleet">
      <header><h2>Relays</h2><p>They share this room, each with its own agents. One leads, and does what one does alone.</p></header>
      <div class="cards">
        {members.map((member) => <MemberCard key={member.name} member={member} />)}
      </div>
    </section>
  );
}

function MemberCard({ member }: { member: FleetMember }) {
  const gone = member.state !== "live";
  const off = clockOff(member);
  return (
    <article class={`card ${gone ? "agent-off" : ""}`} data-testid={`member-card-${member.name}`} data-state={member.state}>
      <header>
        <div>
          <h2>{member.name}</h2>
          <p>{[here(member) && "this page's relay", `relay ${member.version}`].filter(Boolean).join(" · ")}</p>
        </div>
        {member.leader && <span class="tag">leads</span>}
      </header>
      <p class={`health ${gone ? "health-away" : ""}`}><i class={`dot dot-${dot(member)}`} aria-hidden="true" /> {gone ? <span data-tip={full(member.heartbeat_at)}>{standing(member, now.value)}</span> : "here"}</p>
      {off && <p class="detail member-clock">{off[0]!.toUpperCase() + off.slice(1)}. The room goes by the database's clock; set that machine's.</p>}
      <p class="detail">{member.agents.length ? `${listed(member.agents)} ${member.agents.length === 1 ? "lives" : "live"} there${gone ? ", and what is written to " + (member.agents.length === 1 ? "it" : "them") + " waits" : ""}.` : "No agent lives there."}</p>
      <p class="detail muted member-place">{member.host}, {member.folder}</p>
      {gone && <p class="detail muted">Does it not come back? <code>relay fleet forget {member.name}</code> frees the names of its agents.</p>}
    </article>
  );
}
