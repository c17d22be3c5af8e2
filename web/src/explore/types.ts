/** The shapes of explorations on HTTP (docs/explore.md). What is null is unknown, never 0. */

export interface Usage {
  seconds: number;
  tokens: number | null;
  tool_calls: number;
  cost_usd: number | null;
}

export interface Budget {
  max_duration_seconds: number;
  max_tokens: number | null;
  max_tool_calls: number | null;
  max_cost_usd: number | null;
}

export type VariantStatus = "waiting" | "in_progress" | "completed" | "budget_exceeded" | "failed";

export interface Variant {
  name: string;
  agent: string;
  branch: string;
  status: VariantStatus;
  /** The limit that was passed. */
  which?: string;
  /** Why it failed. */
  reason?: string;
  metrics: Readonly<Record<string, number>>;
  /** Why a metric is missing. */
  notes: Readonly<Record<string, string>>;
  weighted_score: number | null;
  /** null: no test has run. */
  passing: boolean | null;
  resource_usage: Usage;
  unwatched: readonly string[];
  files_modified: number | null;
  commit: string | null;
  ref: string | null;
}

export interface Exploration {
  exploration_id: string;
  number: number;
  state: "running" | "comparing" | "reviewing" | "waiting" | "merging" | "done" | "ended";
  task: string;
  asker: string;
  at: string;
  policy: string;
  budget: Budget;
  metrics: readonly { name: string; weight: number; lower_is_better: boolean }[];
  variants: readonly Variant[];
  /** Each variant's share of each metric, 0 to 1; null = not compared. */
  comparison_matrix?: readonly (readonly number[] | null)[];
  winner: string | null;
  recommendation: string;
  taken: Readonly<Record<string, string>>;
  merged: string | null;
  trouble: string;
}

export interface VariantDiff {
  variant: string;
  against: string | null;
  diff: string;
  truncated: boolean;
}
