/** The landing queue as a line of cards: what is tested now, what each waits for, and how the last ones ended. */

import "../style/views.css";
import { useEffect, useState } from "preact/hooks";
import { api } from "../api_views";
import { approvals, landing, landingProblem, loadLanding, verificationOf, waitingApprovals } from "../state/landing";
import { roomNow } from "../state/locks";
import { shell } from "../state/room";
import { show, showApproval, showReview } from "../state/view";
import { worktreeFor } from "../state/worktrees";
import "../style/landing.css";
import "../style/worktrees.css";
import { ago, counted, full, instant, span } from "../text/format";
import { attempt, Icon, Layer, tell, toast, Words } from "../ui/bits";
import { Copyable } from "../ui/copyable";
import { Who } from "../ui/proximity";
import { MarkOf, StateWord } from "../ui/verified";
import { LandDialog } from "./land_dialog";
import { Differs, Paths, Runs } from "./parts";
import type { Entry, EntryState, Landing } from "./types";
import { groups, names, policiesSaid, testedBy, testsAnything, waitsFor, type Group, type Said } from "./words";

const STANDING: Readonly<Record<EntryState, Said>> = {
  asked: { word: "waits", sign: "…", tone: "none" },
  waiting: { word: "waits", sign: "…", tone: "none" },
  testing: { word: "is tested", sign: "…", tone: "busy" },
  landed: { word: "landed", sign: "✓", tone: "good" },
  put_out: { word: "did not land", sign: "✕", tone: "bad" },
  cancelled: { word: "taken out", sign: "–", tone: "none" },
};
const TAKEN_BACK: Said = { word: "taken back", sign: "–", tone: "none" };
const standsAs = (entry: Entry): Said => (entry.taken_back ? TAKEN_BACK : STANDING[entry.state]);
/** Ended entries that are shown at first. */
const FEW = 8;

/** `more`: beside it, what can be done. */
function Acts({ entry, children }: { entry: Entry; children?: preact.ComponentChildren }) {
  const [differs, setDiffers] = useState(false);
  return (
    <>
      <div class="land-acts">
        {entry.at_commit && <button type="button" class="button small" aria-pressed={differs} onClick={() => setDiffers(!differs)} data-testid="entry-diff">{differs ? "Hide the difference" : "Show the difference"}</button>}
        {children}
      </div>
      {differs && <Differs key={entry.at_commit} read={() => api.landingDiff(entry.number)} label={`What ${entry.agent}'s branch brings`} />}
    </>
  );
}

function Head({ entry, place, at }: { entry: Entry; place?: number; at: string | null }) {
  return (
    <header>
      {place !== undefined && <span class="land-place" aria-label={`Place ${place}`}>{place}</span>}
      <h3><Who name={entry.agent} /></h3>
      <StateWord said={standsAs(entry)} />
      <span class="muted land-asked" data-tip={full(at)}>{ago(at, roomNow.value)}{entry.asker !== entry.agent && <>, asked by <Who name={entry.asker} /></>}</span>
    </header>
  );
}

function Waiting({ entry, queue, place }: { entry: Entry; queue: readonly Entry[]; place: number }) {
  const [busy, setBusy] = useState(false);
  const takeOut = async (): Promise<void> => {
    setBusy(true);
    await tell(api.takeFromQueue(entry.agent));
    await loadLanding();
    setBusy(false);
  };
  const tested = entry.state === "testing";
  const waits = tested ? entry.note : waitsFor(entry, queue, (reference) => verificationOf(reference)?.state);
  const asked = (entry.approvals ?? []).filter((one) => one.state === "waiting");
  return (
    <article class="land-card" data-testid="entry-card" data-agent={entry.agent} data-state={entry.state} aria-label={`${entry.agent}: ${STANDING[entry.state].word}`}>
      <Head entry={entry} place={place} at={entry.at} />
      {(entry.branch || entry.files) && (
        <p class="land-what">
          {entry.branch && <code>{entry.branch}</code>}
          {entry.files && <span>{counted(entry.files.length, "file")}: <Paths of={entry.files} /></span>}
        </p>
      )}
      {entry.policies.length > 0 && !tested && <p class="land-what">To pass: {entry.policies.map((name) => <span key={name} class="tag">{name}</span>)}</p>}
      {waits && <p class="land-waits" data-testid="entry-waits">{tested ? "" : /^until /.test(waits) ? "Waits " : "Waits: "}<Words text={waits} /></p>}
      {asked.map((one) => <p key={one.number}><button type="button" class="button small primary" onClick={() => showApproval(one.number)} data-testid="entry-approval"><Icon name="approve" size={14} /> Look at {one.reference} and decide</button></p>)}
      <Acts entry={entry}>
        <button type="button" class="button small" onClick={() => showReview(entry.agent)} data-testid="entry-review">Review</button>
        <button type="button" class="button small" disabled={busy} onClick={() => void takeOut()} data-testid="take-out">Take out of the queue</button>
      </Acts>
    </article>
  );
}

function Together({ group, queue, place }: { group: Group; queue: readonly Entry[]; place: number }) {
  const { tested, entries } = group;
  const cards = entries.map((entry, i) => <Waiting key={entry.number} entry={entry} queue={queue} place={place + i} />);
  if (!tested) return <li>{cards}</li>;
  const began = instant(tested.at);
  const agents = entries.map((entry) => entry.agent);
  return (
    <li class="land-batch" data-testid="batch" data-verification={tested.reference}>
      <div class="land-test">
        <header>
          <h3>{agents.length > 1 ? `Tested together: ${names(agents)}` : `Tested: ${agents[0]}`}</h3>
          <MarkOf reference={tested.reference} />
          {began !== null && <span class="run-time">{span(Math.max(1000, roomNow.value - began))}</span>}
        </header>
        {tested.branch && <p class="muted">{agents.length > 1 ? "Merged one onto the other, in this order, on" : "Merged on"} <code>{tested.branch}</code>.</p>}
        {tested.results.length > 0 && <Runs of={tested} live />}
      </div>
      {cards}
    </li>
  );
}

function TakeBackDialog({ entry, onClose }: { entry: Entry; onClose: () => void }) {
  const [busy, setBusy] = useState(false);
  const takeBack = async (): Promise<void> => {
    setBusy(true);
    const went = await attempt(api.takeBack(entry.agent, entry.commit!).then((told) => toast(told.reason ?? "")));
    await loadLanding();
    setBusy(false);
    if (went) onClose();
  };
  return (
    <Layer label={`Take back what ${entry.agent} landed`} class="merge-dialog" onClose={onClose} testid="take-back-dialog">
      <h2>Take back what {entry.agent} landed?</h2>
      <ul class="plan">
        <li>The main branch gets a commit without what <code>{entry.commit!.slice(0, 10)}</code> brought. What came after it stays; where that stands on it, nothing is taken back.</li>
        <li><code>{entry.branch}</code> has the work again where {entry.agent} is idle and has no other work; else git keeps it, and the room says where.</li>
      </ul>
      <div class="dialog-act">
        <button type="button" class="button" onClick={onClose}>Keep it</button>
        <button type="button" class="button danger" disabled={busy} onClick={() => void takeBack()} data-testid="take-back-now">{busy ? "Taking back…" : "Take back"}</button>
      </div>
    </Layer>
  );
}

function Landed({ entry }: { entry: Entry }) {
  const { by, beside } = testedBy(entry);
  return (
    <p class="land-how" data-testid="entry-how" data-tested={entry.tested === true}>
      {entry.commit && <>As <code data-tip={entry.commit}>{entry.commit.slice(0, 10)}</code>, </>}
      {by.length ? <>tested by {by.join(", ")}</> : <b class="untested">not tested</b>}
      {by.length > 0 && entry.verification && <> <MarkOf reference={entry.verification} /></>}
      {!by.length && <span class="muted">: {entry.approved?.length ? "no policy runs a program for it" : "no policy was for it"}</span>}
      {entry.approved?.map((one) => <span key={one.reference}>; approved by {one.decided_by} ({one.reference}: {one.policies.join(", ")})</span>)}
      {beside.length > 0 && <span class="muted">; {beside.join(", ")}, which does not decide</span>}
      {entry.taken_back && <span data-tip={full(entry.taken_back.at)} data-testid="entry-taken-back">; taken back by <Who name={entry.taken_back.by} /> {ago(entry.taken_back.at, roomNow.value)}</span>}
    </p>
  );
}

/** `last`: the agent has no newer entry, so what can be done about it is done here. */
function Ended({ entry, last }: { entry: Entry; last: boolean }) {
  const [busy, setBusy] = useState(false);
  const [asking, setAsking] = useState(false);
  const [looking, setLooking] = useState(false);
  const again = async (): Promise<void> => {
    // What it undoes of others' work is said before.
    if (worktreeFor(entry.agent)?.undoes?.length) return setLooking(true);
    setBusy(true);
    await tell(api.land([entry.agent]));
    await loadLanding();
    setBusy(false);
  };
  return (
    <li>
      <article class={`land-card${entry.taken_back ? "" : ` land-card-${entry.state}`}`} data-testid="ended-card" data-agent={entry.agent} data-state={entry.state} aria-label={`${entry.agent}: ${standsAs(entry).word}`}>
        <Head entry={entry} at={entry.ended} />
        {entry.branch && <p class="land-what"><code>{entry.branch}</code></p>}
        {entry.state === "landed" && <Landed entry={entry} />}
        {entry.reason && <p class="land-reason" data-testid="entry-reason"><Words text={entry.reason} /> {entry.verification && entry.state === "put_out" && <MarkOf reference={entry.verification} />}</p>}
        {entry.output && <pre class="run-output" tabIndex={0} aria-label={`The lines that failed, of ${entry.agent}`} data-testid="entry-output">{entry.output}</pre>}
        <Acts entry={entry}>
          {entry.state !== "landed" && last && <button type="button" class="button small" disabled={busy} onClick={() => void again()} data-testid="land-again"><Icon name="retry" size={14} /> Land again</button>}
          {entry.commit && !entry.taken_back && worktreeFor(entry.agent)?.own && !worktreeFor(entry.agent)?.member && <button type="button" class="button small" onClick={() => setAsking(true)} data-testid="take-back"><Icon name="undo" size={14} /> Take back…</button>}
        </Acts>
        {asking && <TakeBackDialog entry={entry} onClose={() => setAsking(false)} />}
        {looking && <LandDialog agents={[entry.agent]} onClose={() => setLooking(false)} />}
      </article>
    </li>
  );
}

function Rule({ of }: { of: Landing }) {
  const [busy, setBusy] = useState(false);
  const turn = async (): Promise<void> => {
    setBusy(true);
    if (await attempt(api.requireLanding(!of.required))) {
      await loadLanding();
      toast(of.required ? "Agents' branches may be merged without the queue again." : "Agents' branches land by the queue only.");
    }
    setBusy(false);
  };
  return (
    <div class="land-rule">
      <button type="button" class="switch" role="switch" aria-checked={of.required} aria-describedby="land-rule-does" disabled={busy} onClick={() => void turn()} data-testid="require-landing">
        <i aria-hidden="true" />
        <span>Agents' branches land by the queue only</span>
        <b>{of.required ? "on" : "off"}</b>
      </button>
      <p id="land-rule-does" class="muted">
        {of.required ? "relay refuses to merge an agent's branch directly; git itself does not." : "Anybody may also merge an agent's branch directly, which tests nothing of the others."}
        {" "}Your own commits are not affected.{of.required && !testsAnything(of) && !of.trouble ? " There are no policies, so what lands is not tested." : ""}
      </p>
    </div>
  );
}

/** `relay verify-policy ...` as it works on the room's machine. */
const policyCommand = (what: string): string => shell("policies").replace("verify-policy install", `verify-policy ${what}`);

function Install() {
  return (
    <>
      <p>Policies say which files are tested by what. These commands copy those that come with relay, to be changed, and say which are for a file:</p>
      <Copyable text={shell("policies")} testid="install-policies" />
      <Copyable text={policyCommand("explain PATH")} />
    </>
  );
}

function Empty({ of }: { of: Landing }) {
  return (
    <div class="empty land-empty" data-testid="no-landing">
      <Icon name="landing" size={28} />
      <h2>Nothing is in the landing queue</h2>
      <p>The queue merges agents' branches one onto the other, tests them together, and moves the main branch to what passed. <b>Land all</b> above, <i>Land</i> beside a worktree, or <code>/land @AGENT</code> in the room puts a branch into it.</p>
      {!testsAnything(of) && !of.trouble && <Install />}
    </div>
  );
}

export default function LandingView() {
  const [landing_, setLanding] = useState(false);
  const [most, setMost] = useState(FEW);
  useEffect(() => void loadLanding(), []);
  const of = landing.value;
  const open = waitingApprovals.value.length;
  let place = 1;
  const seen = new Set(of?.queue.map((entry) => entry.agent));
  return (
    <section class="view landing-view" aria-label="Landing">
      <header class="view-head">
        <h1>Landing</h1>
        {of && <p data-testid="landing-summary">{of.queue.length ? `${counted(of.queue.length, "branch", "branches")} in the queue` : "nothing in the queue"}, <span class={testsAnything(of) && !of.trouble ? "" : "untested"}>{policiesSaid(of)}</span></p>}
        <div class="land-head-acts">
          {approvals.value.length > 0 && <button type="button" class="button small" onClick={() => show("approvals")} data-testid="to-approvals"><Icon name="approve" size={14} /> Approvals{open > 0 && ` (${open})`}</button>}
          <button type="button" class="button small primary" disabled={!of} onClick={() => setLanding(true)} data-testid="land-all">Land all…</button>
        </div>
      </header>
      <div class="land-body">
        {landingProblem.value && <p class="problem" role="alert">{landingProblem.value}</p>}
        {of?.trouble && <div class="land-trouble" role="alert" data-testid="landing-trouble"><p><Words text={of.trouble} /></p><p class="muted">Until that is mended nothing can be tested, and nothing lands. <code>{policyCommand("list")}</code> shows each fault with its line.</p></div>}
        {of && <Rule of={of} />}
        {of && of.queue.length > 0 && (
          <ol class="land-line" aria-label="The landing queue" data-testid="landing-line">
            {groups(of.queue).map((group) => {
              const at = place;
              place += group.entries.length;
              return <Together key={group.tested?.reference ?? group.entries[0]!.number} group={group} queue={of.queue} place={at} />;
            })}
          </ol>
        )}
        {of && !of.queue.length && !of.ended.length && <Empty of={of} />}
        {of && of.ended.length > 0 && (
          <section class="land-ended" aria-label="Ended">
            <h2>Ended</h2>
            <ul>{of.ended.slice(0, most).map((entry) => {
              const last = !seen.has(entry.agent);
              seen.add(entry.agent);
              return <Ended key={entry.number} entry={entry} last={last} />;
            })}</ul>
            {of.ended.length > most && <button type="button" class="button small" onClick={() => setMost(of.ended.length)}>{of.ended.length - most} more</button>}
            {!testsAnything(of) && !of.trouble && <div class="land-install"><Install /></div>}
          </section>
        )}
        {!of && !landingProblem.value && <p class="diff-note" role="status">Reading the queue…</p>}
      </div>
      {landing_ && <LandDialog agents={[]} onClose={() => setLanding(false)} />}
    </section>
  );
}
