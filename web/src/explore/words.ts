/** What the page says of a variant: its budget as bars, its figures, how it stands. Pure. */

import { amount, span } from "../text/format";
import type { Budget, Exploration, Usage, Variant } from "./types";

export { moving } from "./moving";

/** One bar. `part`: 0 to 1 of the limit; null = there is no limit, or what is used is not known. */
export interface Bar {
  id: string;
  name: string;
  value: string;
  part: number | null;
  limit: number | null;
  used: number | null;
}

const dollars = (usd: number): string => `$${usd.toFixed(2)}`;
const seconds = (s: number): string => (s < 1 ? `${Number(s.toFixed(1))} s` : span(Math.round(s) * 1000));

export function bars(usage: Usage, budget: Budget): Bar[] {
  const rows: [string, string, number | null, number | null, (n: number) => string][] = [
    ["max_duration_seconds", "Time", usage.seconds, budget.max_duration_seconds, seconds],
    ["max_tokens", "Tokens", usage.tokens, budget.max_tokens, amount],
    ["max_tool_calls", "Tool calls", usage.tool_calls, budget.max_tool_calls, String],
    ["max_cost_usd", "Dollars", usage.cost_usd, budget.max_cost_usd, dollars],
  ];
  return rows.map(([id, name, used, limit, show]) => ({
    id,
    name,
    value: `${used === null ? "unknown" : show(used)}${limit === null ? "" : ` / ${show(limit)}`}`,
    part: used === null || limit === null || limit <= 0 ? null : Math.min(1, used / limit),
    limit,
    used,
  }));
}

const LIMITS: Readonly<Record<string, string>> = {
  max_duration_seconds: "time",
  max_tokens: "tokens",
  max_tool_calls: "tool calls",
  max_cost_usd: "dollars",
};

export function standing(variant: Variant): string {
  switch (variant.status) {
    case "waiting":
      return "begins soon";
    case "in_progress":
      return "at work";
    case "completed":
      return "finished";
    case "budget_exceeded":
      return `stopped at its budget: ${LIMITS[variant.which ?? ""] ?? variant.which ?? ""}`;
    case "failed":
      return `failed: ${variant.reason ?? ""}`;
  }
}

export const tests = (variant: Variant): string => (variant.passing === null ? "not run" : variant.passing ? "pass" : "fail");

/** A figure of the table; one that is not known is never 0. */
export function figure(value: number | undefined): string {
  if (value === undefined) return "unknown";
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
}

/** The files that are to be taken from other variants than the winner, as the room reads them. */
export const filesFor = (winner: string, picks: ReadonlyMap<string, string>): string[] =>
  [...picks].filter(([, variant]) => variant !== winner).map(([path, variant]) => `${path}=${variant}`);

/** What the score of the variant at this place is made of: "0.400 test_pass_rate + 0.150 agent_cost"; empty: unknown. */
export function scoreParts(of: Pick<Exploration, "metrics" | "comparison_matrix">, at: number): string {
  const shares = of.comparison_matrix?.[at];
  if (!shares) return "";
  const parts = of.metrics.map((metric, i) => ({ name: metric.name, part: metric.weight * (shares[i] ?? 0) }));
  return parts.filter(({ part }) => part >= 0.0005).map(({ name, part }) => `${part.toFixed(3)} ${name}`).join(" + ") || "nothing";
}
