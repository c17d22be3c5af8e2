/** The room's metrics: a card each, with its target, how many it is of, and what exactly is counted. */

import "../style/views.css";
import { useEffect, useState } from "preact/hooks";
import { ApiError } from "../api";
import { api } from "../api_views";
import "../style/metrics.css";
import type { Metric, Metrics } from "./types";
import { among, figure, wanted, windowName, WINDOWS } from "./words";

function Card({ metric }: { metric: Metric }) {
  const { value, target, met } = metric;
  return (
    <article class="card metric" data-testid="metric" data-metric={metric.name} aria-label={metric.label}>
      <header><h2>{metric.label}</h2></header>
      {value === null ? <p class="metric-none">nothing to measure yet</p> : <p class="metric-value">{figure(value, metric.unit)}</p>}
      <p class="metric-facts">
        {target && <span>{wanted(target, metric.unit)}</span>}
        {met !== null && <b class={met ? "metric-met" : "metric-missed"}>{met ? "met" : "missed"}</b>}
        <span>{among(metric)}</span>
      </p>
      <p class="metric-definition">{metric.definition}</p>
    </article>
  );
}

export default function MetricsView() {
  const [days, setDays] = useState<number | null>(null);
  const [told, setTold] = useState<Metrics | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let gone = false;
    api.metrics(days).then(
      (found) => { if (!gone) { setTold(found); setProblem(""); } },
      (error: unknown) => {
        if (!(error instanceof ApiError)) throw error;
        if (!gone) setProblem([error.message, error.fix].filter(Boolean).join(" "));
      },
    );
    return () => { gone = true; };
  }, [days]);
  return (
    <section class="view metrics-view" aria-label="Metrics" aria-busy={told === null && !problem}>
      <header class="view-head">
        <h1>Metrics</h1>
        {told && <p>{told.since ? `since ${told.since.slice(0, 10)}, 00:00 UTC` : "since the beginning of the log"}</p>}
        <div class="segments" role="group" aria-label="Window">
          {WINDOWS.map((one) => (
            <button key={one} type="button" aria-pressed={days === one} onClick={() => setDays(one)} data-testid={`metrics-${one ?? "all"}`}>{windowName(one)}</button>
          ))}
        </div>
      </header>
      {problem && <p class="notice notice-warn" role="alert">{problem}</p>}
      <div class="cards">{told?.metrics.map((metric) => <Card key={metric.name} metric={metric} />)}</div>
    </section>
  );
}
