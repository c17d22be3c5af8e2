/** Conflicts of merges, as `GET /api/conflicts` has them (docs/landing.md). */

export interface ConflictSide {
  /** Whose it is: an agent, a person; null = not known. */
  lane: string | null;
  /** What they said that it is for. */
  intent: string | null;
  before: string;
  after: string;
}

export interface ConflictResolution {
  resolution_type: { type: "agent_resolved" | "human_resolved" | "side_chosen" | "rejected"; resolver_agent?: string; user_id?: string; chosen?: string; reason?: string };
  merged_content: string | null;
  agent_reasoning: string | null;
  confidence: number | null;
  validated: boolean;
}

export interface Conflict {
  id: string;
  number: number;
  /** As people write it: `c3`. */
  reference: string;
  /** 2: both changed the same; 3 and 4 merge, and there is nothing to choose. */
  level: number;
  kind: string;
  severity: "low" | "medium" | "high" | "critical";
  path: string;
  /** It is about the path as a whole: there are no lines to write, and the texts describe what stands there. */
  whole: boolean;
  entity: string | null;
  /** What it is merged into, and the branch of `agent`. */
  a: ConflictSide;
  b: ConflictSide;
  base: string;
  state: "open" | "resolved" | "rejected" | "gone";
  agent: string;
  into: string;
  resolution: ConflictResolution | null;
  at: string;
}

/** The lines around it in the file of one side. `line`: the number of its first; `others`: conflicts that have some of these lines. */
export interface Around {
  line: number;
  above: string[];
  below: string[];
  others: { reference: string; lines: [number, number] }[];
}

/** With the lines around it in each file; null: not known. */
export interface PlacedConflict extends Conflict {
  around: Record<"base" | "ours" | "theirs", Around | null>;
}
