/** What came of the work, as figures (docs/verification.md). */

export type Unit = "count" | "ratio" | "seconds" | "usd";

export interface Target {
  sign: "=" | ">" | "<";
  value: number;
}

export interface Metric {
  name: string;
  label: string;
  /** Null: nothing was measured. */
  value: number | null;
  unit: Unit;
  /** How many it is of, and of what. */
  n: number;
  of: string;
  target: Target | null;
  met: boolean | null;
  definition: string;
  /** Its name in the source; null: it is relay's own. */
  source: string | null;
}

export interface Metrics {
  days: number | null;
  /** When the window begins; null: with the log. */
  since: string | null;
  metrics: Metric[];
}
