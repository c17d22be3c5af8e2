/** What the room used in the last day, by hour and by agent. */

import "../style/usage.css";
import { useState } from "preact/hooks";
import { usage } from "../state/usage";
import { amount, clock, instant } from "../text/format";
import { dollars, fresh, said, type Used } from "../text/usage";
import { hued } from "./bits";

type Measure = "dollars" | "tokens";
const of = (used: Used, measure: Measure): number => (measure === "dollars" ? used.usd : fresh(used) + used.output);
const shown = (value: number, measure: Measure): string => (measure === "dollars" ? `$${value.toFixed(2)}` : amount(value));

/** Where no price was told there is no "$0.00". */
const inTable = (used: Used, measure: Measure): string => (measure === "dollars" ? dollars(used) || "not told" : shown(of(used, measure), measure));

/** Height of the bars, in the units of the picture. */
const HIGH = 64;

export function UsageChart() {
  const [chosen, setChosen] = useState<Measure | null>(null);
  const use = usage.value;
  if (!use) return null;
  const priced = use.hours.some((hour) => Object.values(hour.agents).some((used) => used.usd > 0));
  const measure = chosen ?? (priced ? "dollars" : "tokens");
  const sums = use.hours.map((hour) => Object.values(hour.agents).reduce((sum, used) => sum + of(used, measure), 0));
  const top = Math.max(...sums, 0);
  const midnight = use.hours.findIndex((hour) => (instant(hour.at) ?? 0) >= (instant(use.since) ?? 0));
  const names = [...new Set(use.hours.flatMap((hour) => Object.keys(hour.agents)))].sort();
  return (
    <section class="day-use" aria-label="What it costs" data-testid="usage">
      <header>
        <h2>Today</h2>
        <p data-testid="usage-total">{use.total.turns ? said(use.total) : "no turn since midnight"}</p>
        {priced && (
          <div class="day-measure" role="group" aria-label="Measure">
            {(["dollars", "tokens"] as const).map((one) => <button key={one} type="button" class="button small" aria-pressed={measure === one} onClick={() => setChosen(one)}>{one}</button>)}
          </div>
        )}
      </header>
      {top > 0 && (
        <figure>
          <div class="day-bars" aria-hidden="true">
            {use.hours.map((hour, at) => (
              <div key={hour.at} class={`day-hour ${at === midnight && at > 0 ? "day-midnight" : ""}`} data-tip={sums[at]! > 0 ? `${clock(hour.at)}: ${shown(sums[at]!, measure)}\n${Object.entries(hour.agents).map(([name, used]) => `${name} ${dollars(used) || "no price told"}, ${amount(fresh(used) + used.output)} tokens`).join("\n")}` : undefined}>
                <svg viewBox={`0 0 10 ${HIGH}`} preserveAspectRatio="none" aria-hidden="true">
                  {stacked(hour.agents, measure, top).map((bar) => <rect key={bar.name} class="day-bar" style={hued(bar.name)} x="0" width="10" y={bar.y} height={bar.height} />)}
                </svg>
                <span>{at % 6 === use.hours.length % 6 || at === midnight ? clock(hour.at) : ""}</span>
              </div>
            ))}
          </div>
          <figcaption>
            {names.map((name) => <span key={name} class="who" style={hued(name)}><i class="day-key" /> {name}</span>)}
            <span class="muted">by hour, the last day; the highest: {shown(top, measure)}{measure === "tokens" ? " tokens" : ""}</span>
          </figcaption>
          <table class="offscreen">
            <caption>By hour</caption>
            <thead><tr><th>Hour</th>{names.map((name) => <th key={name}>{name}</th>)}</tr></thead>
            <tbody>
              {use.hours.filter((_, at) => sums[at]! > 0).map((hour) => <tr key={hour.at}><th>{clock(hour.at)}</th>{names.map((name) => <td key={name}>{hour.agents[name] ? inTable(hour.agents[name], measure) : ""}</td>)}</tr>)}
            </tbody>
          </table>
        </figure>
      )}
    </section>
  );
}

function stacked(agents: Readonly<Record<string, Used>>, measure: Measure, top: number): { name: string; y: number; height: number }[] {
  let y = HIGH;
  return Object.entries(agents).sort(([a], [b]) => a.localeCompare(b)).map(([name, used]) => {
    const height = (of(used, measure) / top) * HIGH;
    y -= height;
    return { name, y, height };
  });
}
