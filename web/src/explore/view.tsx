/** A task that is done in several ways: the variants at work with what they use, how they compare, what differs, and the choice. */

import "../style/views.css";
import { useEffect, useMemo, useState } from "preact/hooks";
import { api } from "../api_views";
import { explorations, explorationsProblem, loadExplorations } from "../state/explorations";
import "../style/explore.css";
import "../style/worktrees.css";
import { parseDiff } from "../text/diff";
import { attempt, hued, Icon, tell } from "../ui/bits";
import { DiffFiles } from "../ui/worktrees_diff";
import type { Exploration, Variant, VariantDiff } from "./types";
import { bars, figure, filesFor, standing, scoreParts, tests } from "./words";

const STATES: Readonly<Record<Exploration["state"], string>> = {
  running: "variants are at work",
  comparing: "they are measured",
  reviewing: "an agent reviews them",
  waiting: "waits for your choice",
  merging: "the winner is merged",
  done: "merged",
  ended: "ended",
};

function Bars({ variant, of }: { variant: Variant; of: Exploration }) {
  return (
    <div class="meters">
      {bars(variant.resource_usage, of.budget).map((bar) => (
        <div key={bar.id} class={`meter ${bar.part === null ? "" : bar.part >= 1 ? "spent" : bar.part > 0.8 ? "near" : ""}`} data-testid={`bar-${bar.id}`}>
          <span class="meter-name">{bar.name}</span>
          <span class="meter-value">{bar.value}</span>
          {bar.part !== null && (
            <div class="meter-bar" role="meter" aria-label={`${bar.name} used by ${variant.name}`} aria-valuemin={0} aria-valuemax={bar.limit ?? 0} aria-valuenow={Math.min(bar.used ?? 0, bar.limit ?? 0)}>
              <i style={{ width: `${bar.part * 100}%` }} />
            </div>
          )}
        </div>
      ))}
    </div>
  );
}

function Card(props: { variant: Variant; of: Exploration; picks: ReadonlyMap<string, string>; shown: boolean; onShow: () => void }) {
  const { variant, of, picks } = props;
  const [busy, setBusy] = useState(false);
  const files = filesFor(variant.name, picks);
  const take = async (): Promise<void> => {
    setBusy(true);
    await tell(api.takeVariant(of.number, variant.name, files));
    await loadExplorations();
    setBusy(false);
  };
  return (
    <article class={`card variant variant-${variant.status}`} data-testid="variant" data-variant={variant.name} data-status={variant.status} aria-label={`Variant ${variant.name}`}>
      <header>
        <div>
          <h2 style={hued(variant.agent)} class="agent-name">{variant.name}</h2>
          <p>{variant.agent}</p>
        </div>
        {of.winner === variant.name && <span class="tag">winner</span>}
      </header>
      <p class={`health variant-state variant-state-${variant.status}`}>{standing(variant)}</p>
      <Bars variant={variant} of={of} />
      {variant.commit && (
        <div class="agent-actions">
          <button type="button" class="button small" aria-pressed={props.shown} onClick={props.onShow} data-testid="variant-diff">What it changed</button>
          {of.state === "waiting" && (
            <button type="button" class="button small primary" disabled={busy} onClick={() => void take()} data-testid="variant-take">
              {files.length ? `Take this one, with ${files.length} file${files.length === 1 ? "" : "s"} of others` : "Take this one"}
            </button>
          )}
        </div>
      )}
    </article>
  );
}

function Table({ of }: { of: Exploration }) {
  return (
    <div class="explore-table">
      <table class="trees" data-testid="comparison">
        <thead>
          <tr>
            <th scope="col">Variant</th>
            <th scope="col">Tests</th>
            {of.metrics.map((metric) => (
              <th key={metric.name} scope="col" data-tip={`Weight ${metric.weight}; ${metric.lower_is_better ? "less" : "more"} is better`} tabIndex={0}>{metric.name.replaceAll("_", " ")}</th>
            ))}
            <th scope="col">Score</th>
          </tr>
        </thead>
        <tbody>
          {of.variants.map((variant, at) => (
            <tr key={variant.name}>
              <th scope="row">{variant.name}</th>
              <td class={`tests-${tests(variant).replace(" ", "-")}`}>{tests(variant)}</td>
              {of.metrics.map((metric) => <td key={metric.name} data-tip={variant.notes[metric.name]}>{figure(variant.metrics[metric.name])}</td>)}
              <td data-tip={scoreParts(of, at) || undefined} tabIndex={scoreParts(of, at) ? 0 : undefined}>{variant.weighted_score === null ? "–" : variant.weighted_score.toFixed(3)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Difference(props: { of: Exploration; variant: string; picks: ReadonlyMap<string, string>; onPick: (path: string, variant: string) => void }) {
  const { of, variant, picks } = props;
  const [against, setAgainst] = useState("");
  const [told, setTold] = useState<VariantDiff | null>(null);
  useEffect(() => {
    let gone = false;
    setTold(null);
    void attempt(api.variantDiff(of.number, variant, against).then((found) => { if (!gone) setTold(found); }));
    return () => { gone = true; };
  }, [of.number, variant, against]);
  const files = useMemo(() => (told ? parseDiff(told.diff) : []), [told]);
  const others = of.variants.filter((one) => one.commit && one.name !== variant);
  return (
    <div class="explore-diff" data-testid="variant-difference">
      <div class="diff-tools">
        <span>What {variant} changed</span>
        <label>
          against
          <select value={against} onChange={(event) => setAgainst(event.currentTarget.value)} data-testid="diff-against">
            <option value="">what all began with</option>
            {others.map((one) => <option key={one.name} value={one.name}>{one.name}</option>)}
          </select>
        </label>
      </div>
      {told?.truncated && <p class="diff-note diff-note-warn">The rest is too long to be shown.</p>}
      {told && !files.length && <p class="diff-note">Nothing differs.</p>}
      {of.state === "waiting" && others.length > 0 && files.length > 0 && (
        <ul class="explore-files" aria-label={`Files of ${variant}`}>
          {files.map((file) => (
            <li key={file.path}>
              <label>
                <input type="checkbox" checked={picks.get(file.path) === variant} onChange={() => props.onPick(file.path, variant)} data-testid="take-file" data-path={file.path} />
                take <code>{file.path}</code> from {variant}
              </label>
            </li>
          ))}
        </ul>
      )}
      {told && <DiffFiles text={told.diff} />}
    </div>
  );
}

function One({ of }: { of: Exploration }) {
  const [shown, setShown] = useState<string | null>(null);
  const [picks, setPicks] = useState<ReadonlyMap<string, string>>(new Map());
  const pick = (path: string, variant: string): void => {
    const next = new Map(picks);
    if (next.get(path) === variant) next.delete(path);
    else next.set(path, variant);
    setPicks(next);
  };
  const end = async (): Promise<void> => {
    await tell(api.endExploration(of.number));
    await loadExplorations();
  };
  return (
    <section class="exploration" data-testid="exploration" data-exploration={of.exploration_id} data-state={of.state} aria-label={`Exploration ${of.exploration_id}`}>
      <header>
        <h2><span class="muted">{of.exploration_id}</span> {of.task}</h2>
        <p><span class={`tag explore-state-${of.state}`}>{STATES[of.state]}</span> {of.policy.replaceAll("_", " ")}, asked by {of.asker}</p>
        {of.state === "waiting" && <button type="button" class="button small" onClick={() => void end()} data-testid="exploration-end">Take none</button>}
      </header>
      <div class="cards">
        {of.variants.map((variant) => (
          <Card key={variant.name} variant={variant} of={of} picks={picks} shown={shown === variant.name} onShow={() => setShown(shown === variant.name ? null : variant.name)} />
        ))}
      </div>
      {of.variants.some((variant) => variant.weighted_score !== null) && <Table of={of} />}
      {of.recommendation && <p class="explore-says">{of.recommendation}</p>}
      {of.trouble && of.trouble !== of.recommendation && <p class="explore-says problem" role="alert">{of.trouble}</p>}
      {shown && <Difference of={of} variant={shown} picks={picks} onPick={pick} />}
    </section>
  );
}

export default function ExploreView() {
  useEffect(() => void loadExplorations(), []);
  const found = explorations.value;
  return (
    <section class="view explore-view" aria-label="Explorations">
      <header class="view-head">
        <h1>Explore</h1>
        <p>One task in several ways at once; the best is kept. <code>/explore 3 TASK</code> in the room begins one.</p>
      </header>
      {explorationsProblem.value && <p class="problem" role="alert">{explorationsProblem.value}</p>}
      <div class="explore-list">
        {found.map((one) => <One key={one.number} of={one} />)}
        {!found.length && !explorationsProblem.value && (
          <div class="empty">
            <Icon name="route" size={28} />
            <h2>Nothing was explored yet</h2>
            <p>Write <code>/explore 3 Cache the answers of lookup()</code> in the room, or run <code>relay explore FILE</code>.</p>
          </div>
        )}
      </div>
    </section>
  );
}
