/** Whom the airspace shows. */

import { computed } from "@preact/signals";
import type { AirspaceState } from "../airspace_types";
import { airspace } from "../state/airspace";
import { workers } from "../state/room";

/** Agents of the room whose program is not installed and who have nothing here: a worktree alone is no presence. */
export const absent = computed<ReadonlySet<string>>(() => {
  const state = airspace.value;
  const missing = new Set(workers.value.filter((one) => !one.installed).map((one) => one.name));
  const near = new Set((state?.links ?? []).filter((l) => l.level !== "clear").flatMap((l) => [l.a, l.b]));
  return new Set((state?.agents ?? []).filter((a) => missing.has(a.agentId) && !a.files.length && !a.intent.length && !near.has(a.agentId)).map((a) => a.agentId));
});

/** The airspace as it is shown: without who is absent. */
export const flying = computed<AirspaceState | null>(() => {
  const state = airspace.value;
  const gone = absent.value;
  if (!state || !gone.size) return state;
  const agents = state.agents.filter((a) => !gone.has(a.agentId));
  const links = state.links.filter((l) => !gone.has(l.a) && !gone.has(l.b));
  const positions = Object.fromEntries(Object.entries(state.positions).filter(([id]) => !gone.has(id)));
  const many = agents.length;
  const pairs = (many * many - many) / 2;
  const { advisory, resolution } = state.counts;
  return { ...state, agents, links, positions, counts: { ...state.counts, agents: many, pairs, clear: pairs - advisory - resolution } };
});
