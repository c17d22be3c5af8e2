/**
 * What waits for a person: the difference, who asked, which policy, what ran; and what was decided.
 *
 * Invariant: an approval is decided once. One that somebody else decides meanwhile stays where it is, and says so.
 */

import "../style/views.css";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api";
import { api } from "../api_views";
import { approvals, approvalsProblem, loadApprovals } from "../state/landing";
import { roomNow } from "../state/locks";
import { approvalFocus } from "../state/view";
import "../style/landing.css";
import "../style/worktrees.css";
import { ago, counted, full, instant } from "../text/format";
import { ref } from "../text/reference";
import { Icon, toast, Words } from "../ui/bits";
import { Who } from "../ui/proximity";
import { MarkOf, RefTo, StateWord } from "../ui/verified";
import { Differs, Paths, Runs } from "./parts";
import type { Asked } from "./types";
import { deadline, decisionSaid, sourceWords, type Said } from "./words";

const MOST_REASON = 300;
const SAID: Readonly<Record<Asked["state"], Said>> = {
  waiting: { word: "waits", sign: "?", tone: "warn" },
  approved: { word: "approved", sign: "✓", tone: "good" },
  rejected: { word: "rejected", sign: "✕", tone: "bad" },
  expired: { word: "expired", sign: "–", tone: "none" },
  withdrawn: { word: "withdrawn", sign: "–", tone: "none" },
};

function Head({ of }: { of: Asked }) {
  return (
    <header>
      <h3><span class="mono muted">{of.reference}</span> <Who name={of.agent} /></h3>
      <StateWord said={SAID[of.state]} />
      {of.state === "waiting" ? <RefTo reference={of.verification} /> : <MarkOf reference={of.verification} />}
      <span class="muted land-asked" data-tip={full(of.at)}>{ago(of.at, roomNow.value)}{of.asker !== of.agent && <>, asked by <Who name={of.asker} /></>}</span>
    </header>
  );
}

/** Below it, what a person decides. The form for the reason takes the focus. */
function Decide({ of }: { of: Asked }) {
  const [busy, setBusy] = useState(false);
  const [rejecting, setRejecting] = useState(false);
  const [refused, setRefused] = useState("");
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), [rejecting]);
  const over = (instant(of.expires) ?? Infinity) <= roomNow.value;
  const say = async (answer: "approve" | "reject", reason = ""): Promise<void> => {
    setBusy(true);
    try {
      const done = await api.decideApproval(of.number, answer, reason);
      toast((done.reason ?? "Done.").replace(/`/g, ""));
      setRejecting(false);
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      setRefused([problem.message, problem.fix].filter(Boolean).join(" "));
    }
    await loadApprovals();
    setBusy(false);
  };
  return (
    <>
      {refused && of.state === "waiting" && <p class="problem" role="alert"><Words text={refused} /></p>}
      {of.state !== "waiting" ? (
        <div class={`decided decided-${of.state}`} role="status" data-testid="approval-decided">
          <p>{decisionSaid(of)}{of.decided_at && <span class="muted">, {ago(of.decided_at, roomNow.value)}</span>}</p>
          {refused && <p class="muted" data-testid="approval-late">That was before you, so yours does not count. <code>/verify {of.verification}</code> in the room, or <i>Verify again</i> among its results, asks anew.</p>}
        </div>
      ) : rejecting ? (
        <form class="reject-form" onSubmit={(event) => { event.preventDefault(); void say("reject", (new FormData(event.currentTarget).get("reason") as string).trim()); }}>
          <label for={`why-${of.number}`}>Why? {of.agent} and whoever asked are told.</label>
          <input id={`why-${of.number}`} name="reason" required pattern=".*\S.*" maxLength={MOST_REASON} autocomplete="off" data-testid="reject-reason" ref={field} onKeyDown={(event) => { if (event.key === "Escape") { event.stopPropagation(); setRejecting(false); } }} />
          <button type="button" class="button small" onClick={() => setRejecting(false)}>Back</button>
          <button type="submit" class="button small danger" disabled={busy} data-testid="reject-now">Reject</button>
        </form>
      ) : (
        <div class="land-acts">
          <button type="button" class="button small primary" disabled={busy || over} onClick={() => void say("approve")} data-testid="approve"><Icon name="check" size={14} /> Approve</button>
          <button type="button" class="button small danger" disabled={busy || over} onClick={() => setRejecting(true)} data-testid="reject">Reject…</button>
          <span class={`deadline ${over ? "deadline-over" : ""}`} data-tip={full(of.expires)} data-testid="approval-deadline">{deadline(of.expires, roomNow.value)}</span>
        </div>
      )}
    </>
  );
}

function Card({ of, focused }: { of: Asked; focused: boolean }) {
  const card = useRef<HTMLElement>(null);
  const [differs, setDiffers] = useState(focused);
  useEffect(() => {
    if (!focused) return;
    setDiffers(true);
    card.current?.scrollIntoView({ block: "start" });
    card.current?.focus({ preventScroll: true });
  }, [focused]);
  // The policies need not name all that lands.
  const whole = new Set([...(of.change.files ?? []), ...of.files]).size;
  // What a person says is no run.
  const ran = { ...of.change, results: of.change.results.filter((result) => result.executor !== "manual" || !of.policies.includes(result.policy)) };
  return (
    <li>
      <article ref={card} tabIndex={-1} class="land-card approval" data-testid="approval" data-approval={of.reference} data-state={of.state} aria-label={`${of.reference}: ${of.agent}, ${SAID[of.state].word}`}>
        <Head of={of} />
        <p class="land-what">Wanted by {of.policies.map((name) => <span key={name} class="tag">{name}</span>)} <span class="muted">for {sourceWords(of.change.source)}</span></p>
        {of.change.summary && <p class="approval-summary">{of.change.summary}</p>}
        <p class="land-what">{counted(whole, "file")}{whole > of.files.length ? "; your approval is wanted for" : ":"} <Paths of={of.files} most={6} /></p>
        <section class="approval-ran" aria-label="What ran">
          {ran.results.length > 0 ? <Runs of={ran} /> : <p class="muted">No program has run on it{of.change.about.part === "entry" ? " yet: the queue tests it when it is approved" : ""}.</p>}
        </section>
        <p><button type="button" class="button small" aria-expanded={differs} onClick={() => setDiffers(!differs)} data-testid="approval-diff">{differs ? "Hide the difference" : "Show the difference"}</button></p>
        {differs && <Differs read={() => api.verificationDiff(of.change.number)} label={`What ${of.reference} is about`} />}
        <Decide of={of} />
      </article>
    </li>
  );
}

function Decided({ of, focused }: { of: Asked; focused: boolean }) {
  const row = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (focused) row.current?.scrollIntoView({ block: "center" });
  }, [focused]);
  return (
    <li ref={row} class={`approval-row ${focused ? "found" : ""}`} data-testid="approval-over" data-approval={of.reference} data-state={of.state}>
      <span class="mono muted">{of.reference}</span>
      <StateWord said={SAID[of.state]} />
      <span><Who name={of.agent} />, {of.policies.join(", ")}</span>
      <span class="approval-said">{decisionSaid(of)}</span>
      <MarkOf reference={of.verification} />
      <span class="muted" data-tip={full(of.decided_at)}>{ago(of.decided_at, roomNow.value)}</span>
    </li>
  );
}

export default function ApprovalsView() {
  /** Those that waited since this view is shown: they stay where they are. */
  const waited = useRef(new Set<number>());
  useEffect(() => {
    void loadApprovals();
    return () => { approvalFocus.value = null; };
  }, []);
  const all = approvals.value;
  for (const one of all) if (one.state === "waiting") waited.current.add(one.number);
  const open = all.filter((one) => waited.current.has(one.number)).sort((a, b) => a.number - b.number);
  const over = all.filter((one) => !waited.current.has(one.number));
  const left = open.filter((one) => one.state === "waiting").length;
  const focus = approvalFocus.value;
  return (
    <section class="view approvals-view" aria-label="Approvals">
      <header class="view-head">
        <h1>Approvals</h1>
        <p>{left ? `${left} ${left === 1 ? "waits" : "wait"} for a person` : "nothing waits"}</p>
      </header>
      <div class="land-body">
        {approvalsProblem.value && <p class="problem" role="alert">{approvalsProblem.value}</p>}
        {focus !== null && all.length > 0 && !all.some((one) => one.number === focus) && <p class="diff-note" role="status">{ref("a", focus)} is not among the newest.</p>}
        {open.length > 0 && <ul class="approvals-open">{open.map((one) => <Card key={one.number} of={one} focused={one.number === focus} />)}</ul>}
        {!all.length && !approvalsProblem.value && (
          <div class="empty" data-testid="no-approvals">
            <Icon name="approve" size={28} />
            <h2>Nobody has to approve anything</h2>
            <p>A policy with <code>requires_approval: true</code>, or <code>executor: manual</code>, waits here for a person before a change counts as verified. Agents cannot approve.</p>
          </div>
        )}
        {over.length > 0 && (
          <section class="land-ended" aria-label="What was decided">
            <h2>Decided</h2>
            <ul>{over.map((one) => <Decided key={one.number} of={one} focused={one.number === focus} />)}</ul>
          </section>
        )}
      </div>
    </section>
  );
}
