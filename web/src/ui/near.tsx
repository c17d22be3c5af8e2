/** How near somebody is to others: badges on task cards, and in an agent's panel. */

import { airspace, linkKey, nearest, other, warningsOf, why } from "../state/airspace";
import { showAirspace, showWorktree } from "../state/view";
import { worktreeFor } from "../state/worktrees";
import { Diffstat } from "./diffstat";
import { LevelChip } from "./advisory";
import { BranchWays } from "./doing";
import { Who } from "./proximity";
import { AgentMark } from "./verified";
import "../style/near.css";

/** On a task card: its assignee is in an open advisory. */
export function ProximityBadge({ name }: { name: string | null }) {
  const one = warningsOf(name)[0];
  if (!one || !name) return null;
  const others = one.agents.filter((a) => a.toUpperCase() !== name.toUpperCase());
  return (
    <button type="button" class={`near-badge near-badge-${one.level}`} data-testid="near-badge" data-tip={why(one)} onClick={(event) => { event.stopPropagation(); showAirspace({ advisory: one.id }); }}>
      <LevelChip level={one.level} inside /> {others.length ? `collides with ${others.join(", ")}` : one.set_back?.[0]?.said ?? "conflicts with the main branch"}
    </button>
  );
}

/** In an agent's panel: its branch, and who is nearest to it. */
export function Whereabouts({ name }: { name: string }) {
  const tree = worktreeFor(name);
  const link = nearest(name);
  if (!tree && !link && !airspace.value?.positions[name]) return null;
  return (
    <dl class="whereabouts" data-testid="whereabouts">
      {tree && (
        <div>
          <dt>Branch</dt>
          <dd><code>{tree.branch}</code> <AgentMark name={name} /> {tree.files && tree.member ? <Diffstat of={tree} files /> : tree.files ? <><button type="button" class="link" onClick={() => showWorktree(name)}><Diffstat of={tree} files /></button> <BranchWays name={name} /></> : <span class="muted">no change</span>}</dd>
        </div>
      )}
      <div>
        <dt>Nearest</dt>
        <dd>
          {link ? (
            <button type="button" class="link" onClick={() => showAirspace({ link: linkKey(link.a, link.b) })}>
              <LevelChip level={link.level} inside /> <Who name={other(link, name)} /> {link.risk.toFixed(2)}
            </button>
          ) : <span class="muted">nobody</span>}
        </dd>
      </div>
    </dl>
  );
}
