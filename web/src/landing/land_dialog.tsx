/** What would land, and by what it would be tested, before it is put into the landing queue. */

import { useEffect, useState } from "preact/hooks";
import { ApiError } from "../api";
import { api } from "../api_views";
import { landing, loadLanding } from "../state/landing";
import { setsBack, undoesWords } from "../state/merging";
import { show, showReview } from "../state/view";
import { worktreeFor } from "../state/worktrees";
import "../style/landing.css";
import "../style/worktrees.css";
import { counted } from "../text/format";
import { attempt, Layer, toast, Words } from "../ui/bits";
import { Who } from "../ui/proximity";
import { Paths } from "./parts";
import type { MergeMethod } from "../worktree_types";
import type { Planned } from "./types";
import { testsAnything, testsOf } from "./words";

const READY = "ready to land";

/** `before`: whose branches land before it, and are not set back by it; `chosen`: null where there is nothing to choose. */
function Row({ of, before, chosen, onChoose, onClose }: { of: Planned; before: readonly string[]; chosen: boolean | null; onChoose: () => void; onClose: () => void }) {
  const tests = testsOf(of.policies);
  const verdict = worktreeFor(of.agent)?.verified;
  const warnings = of.why ? [] : undoesWords(of);
  // What is said below in more words is not said here too.
  const stands = of.why || chosen === null || of.stands?.text === READY || (of.stands?.kind === "ready" && of.needs_approval) || warnings.length || (of.stands?.tests && verdict?.said) ? "" : of.stands?.text;
  const [open, setOpen] = useState(0);
  useEffect(() => {
    // What nobody hears of is no reason against landing.
    if (!of.why && !of.member) api.review(of.agent).then((told) => setOpen(told.comments.filter((one) => one.open).length), () => undefined);
  }, []);
  return (
    <li class={of.why ? "plan-not" : ""} data-testid="planned" data-agent={of.agent} data-may={!of.why}>
      <p class="plan-head">
        {chosen !== null && <input type="checkbox" id={`land-${of.agent}`} checked={chosen} disabled={Boolean(of.why)} onChange={onChoose} data-testid="plan-choose" />}
        <label for={chosen === null ? undefined : `land-${of.agent}`}><Who name={of.agent} /> <code>{of.branch}</code></label>{of.member && <span class="muted"> at {of.member}</span>}
        {stands && <span class="plan-stands" data-testid="plan-stands">{stands}</span>}
      </p>
      {of.why && <p class="plan-why">Not now: <Words text={of.why} />.{worktreeFor(of.agent)?.merges === "conflicts" && <> <button type="button" class="link" onClick={() => { onClose(); show("conflicts"); }} data-testid="plan-conflicts">Show the conflicts</button></>}</p>}
      {!of.why && setsBack({ into: worktreeFor(of.agent)?.into, collides: of.collides.filter((hit) => !before.includes(hit.agent)) }).map((line) => <p key={line} class="plan-warn" data-testid="plan-sets-back"><Words text={line} /></p>)}
      {warnings.map((line) => <p key={line} class="plan-warn" data-testid="plan-undoes"><Words text={line} /></p>)}
      {!of.why && verdict?.said && <p class="plan-warn" data-testid="plan-tests">{verdict.said}</p>}
      {open > 0 && <p class="plan-warn" data-testid="plan-open">{open === 1 ? "1 comment is open." : `${open} comments are open.`} <button type="button" class="link" onClick={() => { onClose(); showReview(of.agent); }}>Review</button></p>}
      {(of.files.length > 0 || !of.why) && <p>{of.files.length > 0 && <>{counted(of.files.length, "file")}: <Paths of={of.files} />. </>}{!of.why && (tests.length ? `What tests it: ${tests.join(", ")}.` : <span class="plan-untested">It lands as <b>not tested</b>: no policy covers it.</span>)}{!of.why && of.needs_approval && " A person has to approve it."}</p>}
    </li>
  );
}

/** `agents`: of these; empty = of all that have work. `squash`: as one commit, unless somebody chooses otherwise. */
export function LandDialog({ agents, squash = false, onClose }: { agents: readonly string[]; squash?: boolean; onClose: () => void }) {
  const [method, setMethod] = useState<MergeMethod>(squash ? "squash" : "merge");
  const [plan, setPlan] = useState<readonly Planned[] | null>(null);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => {
    let gone = false;
    if (!landing.peek()) void loadLanding();
    api.landingPlan(agents).then(
      (found) => {
        if (gone) return;
        setPlan(found);
        setPicked(new Set(found.filter((row) => !row.why && row.stands?.kind === "ready").map((row) => row.agent)));
      },
      (error: unknown) => {
        if (!(error instanceof ApiError)) throw error;
        if (!gone) setProblem([error.message, error.fix].filter(Boolean).join(" "));
      },
    );
    return () => { gone = true; };
  }, []);
  const one = agents.length === 1 ? agents[0]! : "";
  const may = plan?.filter((row) => !row.why && (one || picked.has(row.agent))).map((row) => row.agent) ?? [];
  const choose = (agent: string): void => setPicked((now) => new Set(now.has(agent) ? [...now].filter((name) => name !== agent) : [...now, agent]));
  const land = async (): Promise<void> => {
    setBusy(true);
    let said = "";
    const went = await attempt(api.land(may, method, true).then((done) => (said = done.reason ?? "")));
    setBusy(false);
    if (!went) return;
    toast(said.replace(/`/g, "") || "It is in the landing queue.", { action: { label: "Show the queue", run: () => show("landing") } });
    void loadLanding();
    onClose();
  };
  return (
    <Layer label={one ? `Land the branch of ${one}` : "Land all"} class="merge-dialog land-dialog" onClose={onClose} testid="land-dialog">
      <h2>{one ? <>Land the branch of {one}</> : "Land all branches with work"}</h2>
      <p class="muted">{testsAnything(landing.value ?? { policies: 1, merge_test: false }) ? "Branches in the queue are merged one onto the other and tested together. The main branch moves to what passed, and only to that." : "Branches in the queue are merged one onto the other. There are no policies, so nothing tests them."}</p>
      {!plan && !problem && <p class="muted" role="status">Looking at the branches…</p>}
      {problem && <p class="problem" role="alert"><Words text={problem} /></p>}
      {plan && !plan.length && <p>No agent has work that could land.</p>}
      {plan && plan.length > 0 && <ul class="land-plan">{plan.map((row, at) => <Row key={row.agent} of={row} before={plan.slice(0, at).map((first) => first.agent).filter((agent) => may.includes(agent))} chosen={one ? null : picked.has(row.agent)} onChoose={() => choose(row.agent)} onClose={onClose} />)}</ul>}
      <div class="segments" role="group" aria-label="How it lands">
        <button type="button" aria-pressed={method === "merge"} onClick={() => setMethod("merge")} data-tip="A merge commit with the branch's own commits" data-testid="land-merge">Merge</button>
        <button type="button" aria-pressed={method === "squash"} onClick={() => setMethod("squash")} data-tip="One commit of everything; the branch as it was is kept aside" data-testid="land-squash">Squash</button>
      </div>
      <div class="dialog-act">
        <button type="button" class="button" onClick={onClose}>Cancel</button>
        <button type="button" class="button primary" disabled={busy || !may.length} onClick={() => void land()} data-testid="land-now">{busy ? "Asking…" : !one && may.length ? `Land ${counted(may.length, "branch", "branches")}` : "Land"}</button>
      </div>
    </Layer>
  );
}
