/** Figures in words. Pure. */

import { counted } from "../text/format";
import type { Metric, Target, Unit } from "./types";

function time(seconds: number): string {
  if (seconds < 10) return `${Number(seconds.toFixed(1))} s`;
  const whole = Math.floor(seconds);
  const parts: readonly (readonly [number, string])[] = [
    [Math.floor(whole / 86_400), "d"],
    [Math.floor(whole / 3600) % 24, "h"],
    [Math.floor(whole / 60) % 60, "min"],
    [whole % 60, "s"],
  ];
  const first = parts.findIndex(([count]) => count > 0);
  return parts.slice(first, first + 2).filter(([count]) => count > 0).map(([count, unit]) => `${count} ${unit}`).join(" ");
}

/** A figure: "3", "33.3 %", "1 min 52 s", "$0.42". */
export function figure(value: number, unit: Unit): string {
  switch (unit) {
    case "count":
      return value.toLocaleString("en");
    case "ratio":
      // 999 of 1,000 is not all.
      return `${value < 1 ? Math.min(Number((value * 100).toFixed(1)), 99.9) : 100} %`;
    case "seconds":
      return time(value);
    case "usd":
      return `$${value >= 0.1 || value === 0 ? value.toFixed(2) : value.toFixed(4)}`;
  }
}

export function wanted(target: Target, unit: Unit): string {
  return `target ${target.sign === "=" ? "" : `${target.sign} `}${figure(target.value, unit)}`;
}

/** What the figure is of: "n = 6 merges tried". */
export const among = (metric: Metric): string => `n = ${metric.n.toLocaleString("en")} ${metric.of}`;

/** The windows that can be chosen; null: the whole log. */
export const WINDOWS: readonly (number | null)[] = [null, 30, 7, 1];

export function windowName(days: number | null): string {
  return days === null ? "All" : days === 1 ? "Today" : counted(days, "day");
}
