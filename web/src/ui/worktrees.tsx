/** The agents' worktrees: what each has changed, whether git can merge it, the diff, and the one click that merges. */

import "../style/views.css";
import { useEffect, useState } from "preact/hooks";
import { ApiError } from "../api";
import { api } from "../api_views";
import { fleet, room } from "../state/room";
import { mergeOf, show, showAirspace, showReview, worktreeOf } from "../state/view";
import { fewPaths, mergeWords, place, plan } from "../state/merging";
import { entryOfAgent, landing, landingRequired } from "../state/landing";
import { disk, loadWorktrees, order, troubles, worktrees, worktreesProblem } from "../state/worktrees";
import type { MergeTurn, Worktree, WorktreeDiff } from "../worktree_types";
import "../style/worktrees.css";
import { LandDialog } from "../landing/land_dialog";
import { testsAnything } from "../landing/words";
import { counted } from "../text/format";
import { Icon, IconButton, Layer, tell, toast, Words } from "./bits";
import { Copyable } from "./copyable";
import { Diffstat } from "./diffstat";
import { asks, giveUp, settle } from "./unmerged";
import { DiscardDialog } from "./discard_dialog";
import { MergeForm, type MergeChoice } from "./merge_form";
import { Who } from "./proximity";
import { verdictOf } from "../state/glance";
import { AgentMark } from "./verified";
import { Full, Printed, Runs, size } from "./worktree_runs";
import { DiffView } from "./worktrees_diff";

const MARKS: Readonly<Record<string, string>> = { clean: "✓", joins: "✓", conflicts: "✕", nothing: "–", unknown: "?" };

/** A person's checkout of the branch that is merged into: its name, where the room said it. */
const main = (tree: Worktree): string => tree.into ?? "the main branch";

/** What it would undo of what another landed, or bring back of what another took back. */
function Undoes({ hit }: { hit: NonNullable<Worktree["undoes"]>[number] }) {
  const back = hit.did === "took back";
  return <>would {back ? "bring back" : "undo"} what <Who name={hit.agent} /> {back ? "took back" : "landed"} in {fewPaths([hit.path])}</>;
}

/** Is it better merged after the others? */
const broken = (turn: MergeTurn): boolean => Boolean(turn.failed || turn.undoes?.length);

function Merges({ tree }: { tree: Worktree }) {
  const told = tree.merges ?? "unknown";
  const tip = { clean: "git found no conflict in a trial merge.", joins: "git alone finds conflicts. You see what relay makes of them before you merge.", conflicts: tree.unsettled ? "Conflict markers stand in its files." : "A trial merge found conflicts.", nothing: `${main(tree)} already has all of this branch.`, unknown: "git cannot tell whether it merges." }[told];
  return (
    <span class="merge-state" data-testid="merges">
      <span class={`merges merges-${told}`} data-tip={[tip, ...tree.conflicts.map((path) => place(tree, path)).slice(0, 10)].join("\n")} tabIndex={0}>
        <span aria-hidden="true">{MARKS[told]}</span> {mergeWords(tree)}
      </span>
      {(tree.collides ?? []).map((hit) => (
        <span key={hit.agent} class="merges merges-collides" data-tip={`Merged together, git finds conflicts in\n${hit.paths.slice(0, 10).join("\n")}`} tabIndex={0} data-testid="collides">
          <span aria-hidden="true">⚠</span> conflicts with <Who name={hit.agent} /> in {fewPaths(hit.paths)}
        </span>
      ))}
      {(tree.joins ?? []).map((hit) => (
        <span key={hit.agent} class="merges merges-unknown" data-tip={`Merged together, relay joins\n${hit.files.map((file) => `${file.path} by ${file.how}`).slice(0, 10).join("\n")}`} tabIndex={0} data-testid="joins">
          joins with <Who name={hit.agent} /> in {fewPaths(hit.files.map((file) => file.path))}
        </span>
      ))}
      {(tree.undoes ?? []).map((hit) => (
        <span key={hit.commit + hit.path} class="merges merges-collides" data-tip={`The branch has commit ${hit.commit.slice(0, 9)}, and takes out of ${hit.path} what it brought`} tabIndex={0} data-testid="undoes">
          <span aria-hidden="true">⚠</span> <Undoes hit={hit} />
        </span>
      ))}
      {tree.merging && <span class="merges merges-unknown" data-testid="under-way">a merge into it is under way</span>}
      {(tree.untried ?? []).length > 0 && <span class="merges merges-unknown">not tried yet with {tree.untried!.join(", ")}</span>}
    </span>
  );
}

function Commits({ tree }: { tree: Worktree }) {
  return (
    <span class="commits">
      <span data-tip={`${counted(tree.ahead, "commit")} that the main branch does not have`}>↑ {tree.ahead}<span class="offscreen"> ahead</span></span>
      <span data-tip={`${counted(tree.behind, "commit")} of the main branch that this branch does not have`}>↓ {tree.behind}<span class="offscreen"> behind</span></span>
      {tree.dirty && <span class="tag" data-tip="It holds changes that are not committed yet.">uncommitted</span>}
    </span>
  );
}

/** Why an agent's branch is not merged directly. */
const byQueue = (): string => `Agents' branches land by the queue only${landing.value && testsAnything(landing.value) ? ": it tests them together before the main branch moves" : ""}.`;

function MergeDialog({ tree, onClose, onLand }: { tree: Worktree; onClose: () => void; onLand: () => void }) {
  const [state, setState] = useState<"asks" | "merging" | "refused">("asks");
  const [words, setWords] = useState("");
  const [choice, setChoice] = useState<MergeChoice | null>(null);
  const [failed, setFailed] = useState(false);
  const merge = async (untested = false): Promise<void> => {
    if (!choice) return;
    setState("merging");
    setFailed(false);
    try {
      // The tests were said above the button, or to whom it was refused.
      const anyway = untested || doubtful;
      const told = await api.merge(tree.agent, { ...choice, ...(untested && { untested }), ...(anyway && { anyway }) });
      toast(`${told.reason || `${tree.branch} is merged.`}${told.commit ? ` (${told.commit.slice(0, 10)})` : ""}`);
      onClose();
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      setWords([problem.message, problem.fix].filter(Boolean).join(" "));
      setFailed(problem.code === "tests_failed");
      setState("refused");
    }
    void loadWorktrees();
  };
  const ask = async (): Promise<void> => {
    setState("merging");
    const refused = await settle(tree);
    if (!refused) return onClose();
    setWords(refused);
    setState("refused");
  };
  const now = worktrees.value?.find((w) => w.agent === tree.agent) ?? tree;
  const only = landingRequired.value;
  const verdict = verdictOf(tree.agent);
  // What was tested and failed, or is no longer what was tested, is landed: the queue tests it.
  const doubtful = Boolean(verdict?.said) && !asks(tree);
  return (
    <Layer label={`Merge ${tree.branch}`} class="merge-dialog" onClose={onClose} testid="merge-dialog">
      <h2>Merge <code>{tree.branch}</code></h2>
      {state !== "refused" && !only && <ul class="plan">{plan(now, order.value).map((line) => <li key={line} class={/^This (sets|would)|^Better merge/.test(line) ? "plan-warn" : ""}><Words text={line} /></li>)}</ul>}
      {!only && verdict?.said && <p class={`notice ${verdict.state === "failed" ? "notice-bad" : "notice-warn"}`} role="alert" data-testid="merge-tests">{verdict.said}{doubtful ? " Land… tests it, and puts it on the main branch only if that passes." : ""}</p>}
      {only && <p class="notice notice-warn" data-testid="by-queue">{byQueue()}</p>}
      {state !== "refused" && !only && <MergeForm agent={tree.agent} onChange={setChoice} />}
      {state === "refused" && (
        <>
          <p class="problem" role="alert" data-testid="merge-refused">Not merged: {words}</p>
          {now.conflicts.length > 0 && <ul class="conflicts">{now.conflicts.map((path) => <li key={path}><code>{path}</code></li>)}</ul>}
        </>
      )}
      <div class="dialog-act">
        <button type="button" class="button" onClick={onClose}>{state === "refused" ? "Close" : "Not now"}</button>
        {!asks(tree) && <button type="button" class={`button ${only || doubtful ? "primary" : ""}`} disabled={state === "merging"} onClick={onLand} data-tip="Tested together with what else is in the queue" data-testid="merge-land"><Icon name="landing" size={14} /> Land…</button>}
        {state === "refused" && !only && <button type="button" class="button" onClick={() => { setChoice(null); setState("asks"); }} data-testid="merge-again">Look again</button>}
        {state === "refused" && failed && !only && <button type="button" class="button danger" onClick={() => void merge(true)} data-testid="merge-untested">Merge although the tests fail</button>}
        {state !== "refused" && !only && asks(tree) && <button type="button" class="button primary" disabled={state === "merging"} onClick={() => void ask()} data-testid="merge-ask">Settle the conflict</button>}
        {state !== "refused" && !only && !asks(tree) && <button type="button" class={`button ${doubtful ? "" : "primary"}`} disabled={state === "merging" || !choice} onClick={() => void merge()} data-testid="merge-now">{state === "merging" ? "Merging…" : doubtful ? "Merge anyway" : "Merge"}</button>}
      </div>
    </Layer>
  );
}

/** It is in the landing queue. */
function Queued({ agent }: { agent: string }) {
  const entry = entryOfAgent(agent);
  if (!entry) return null;
  return <button type="button" class="link queued" onClick={() => show("landing")} data-tip={entry.note || undefined} data-testid="in-queue">in the landing queue{entry.state === "testing" ? ": is tested" : ""}</button>;
}

/** A link to the page of another member, where its address is known. */
function Page({ of }: { of: string }) {
  const url = fleet.value?.members.find((member) => member.name === of)?.url;
  return url && /^https?:/.test(url) ? <a class="link" href={url} target="_blank" rel="noreferrer">{of}</a> : <>{of}</>;
}

/** The other member of the fleet where a worktree is. */
function Place({ tree }: { tree: Worktree }) {
  if (!tree.member) return null;
  return <span class="tree-place" data-tip={`Its worktree is at ${tree.member}: merge, discard or see its diff there.${tree.away ? ` ${tree.member} is away, and this is how it was last seen.` : ""}`} data-testid="tree-member">at <Page of={tree.member} />{tree.away && ", away"}</span>;
}

function Row({ tree, runs, onMerge, onLand, onDiscard }: { tree: Worktree; runs: boolean; onMerge: () => void; onLand: () => void; onDiscard: () => void }) {
  const open = worktreeOf.value === tree.agent && !tree.member;
  return (
    <tr data-testid="worktree" data-agent={tree.agent} data-member={tree.member ?? undefined} class={open ? "open" : ""}>
      <td><button type="button" class="link plain-link" onClick={() => showAirspace({ agent: tree.agent })} data-tip="Show in airspace"><Who name={tree.agent} /></button>{tree.working && <span class="tag working" data-tip={tree.member ? "Its turn is running." : "Its turn is running. You can merge or discard when it has ended."}>at work</span>}<Place tree={tree} /></td>
      <td class="branch"><code>{tree.branch.split(/(?<=\/)/).map((part, at) => <span key={at}>{part}</span>)}</code>{!tree.own && <span class="tag" data-tip={tree.member ? `A checkout of its own at ${tree.member}` : `A checkout of its own: ${tree.path}`}>own checkout</span>}</td>
      <td><Commits tree={tree} /></td>
      <td><span class="tree-changes">{tree.files ? <Diffstat of={tree} files /> : <span class="muted">no change</span>}<AgentMark name={tree.agent} /></span></td>
      <td><Merges tree={tree} /><Queued agent={tree.agent} /></td>
      {runs && <td><Runs tree={tree} /></td>}
      <td class="act">
        {!tree.member && <button type="button" class="button small" aria-pressed={open} disabled={!tree.files} onClick={() => (worktreeOf.value = open ? null : tree.agent)} data-testid="diff-open">{open ? "Hide diff" : "Diff"}</button>}
        {!tree.member && <button type="button" class="button small" disabled={!tree.files} onClick={() => showReview(tree.agent)} data-tip="Read through it: mark files, comment on lines, apply, land" data-testid="review-open">Review</button>}
        {!tree.member && !landingRequired.value && <button type="button" class="button small" disabled={tree.working === true || !(["clean", "joins", "unknown"].includes(tree.merges ?? "") || asks(tree))} onClick={onMerge} data-testid="merge">Merge…</button>}
        {landing.value && <button type="button" class="button small" disabled={!["clean", "joins", "unknown", "conflicts"].includes(tree.merges ?? "") || entryOfAgent(tree.agent)?.state === "testing"} onClick={onLand} data-tip="Put it into the landing queue: tested together with the others" data-testid="land">Land…</button>}
        {!tree.member && tree.own && tree.merging && <button type="button" class="button small" disabled={tree.working === true} onClick={() => void giveUp(tree.agent)} data-tip="Its files go back to the state before the merge. Git keeps what stands in them." data-testid="abort">Give the merge up</button>}
        {!tree.member && tree.own && <button type="button" class="button small" disabled={tree.working === true || (!tree.files && !tree.ahead)} onClick={onDiscard} data-testid="discard">Discard…</button>}
      </td>
    </tr>
  );
}

function Diff({ tree }: { tree: Worktree }) {
  const [told, setTold] = useState<WorktreeDiff | null>(null);
  const [problem, setProblem] = useState("");
  // Read anew when the numbers of the worktree have changed.
  const version = `${tree.agent} ${tree.ahead} ${tree.files} ${tree.insertions} ${tree.deletions} ${tree.merging} ${tree.conflicts.join()}`;
  useEffect(() => {
    let gone = false;
    api.worktreeDiff(tree.agent).then(
      (found) => { if (!gone) { setTold(found); setProblem(""); } },
      (error: Error) => { if (!gone) setProblem(error.message); },
    );
    return () => { gone = true; };
  }, [version]);
  return (
    <section class="diff-box" aria-label={`Diff of ${tree.agent}`}>
      <header>
        <h2><Who name={tree.agent} /> <span class="muted">{tree.branch}</span></h2>
        {landing.value && testsAnything(landing.value) && <button type="button" class="button small" onClick={() => void tell(api.verifyWork(tree.agent))} data-tip="Run the policies on it as it stands, without landing it" data-testid="verify-work">Verify</button>}
        <IconButton icon="close" label="Hide diff" onClick={() => (worktreeOf.value = null)} />
      </header>
      {told?.under_way && <p class="diff-note diff-note-warn" data-testid="diff-under-way">{told.under_way}</p>}
      {tree.conflicts.length > 0 && !tree.merging && <p class="diff-note diff-note-warn" data-testid="diff-conflicts">The main branch has changed the same lines in {tree.conflicts.slice(0, 5).map((path, i) => <span key={path}>{i > 0 && ", "}<code>{path}</code></span>)}{tree.conflicts.length > 5 ? ` and ${tree.conflicts.length - 5} more` : ""}. Ask {tree.agent} to merge the main branch into its own.</p>}
      {tree.left_out && tree.left_out.length > 0 && <p class="diff-note">Not in the diff, because git would not store it: {tree.left_out.slice(0, 5).map((path, i) => <span key={path}>{i > 0 && ", "}<code>{path}</code></span>)}</p>}
      {problem && <p class="problem" role="alert">{problem}</p>}
      {!told && !problem && <p class="diff-note" role="status">Reading the diff…</p>}
      {told && (told.files.length || told.diff ? <DiffView key={tree.agent} told={told} conflicts={tree.conflicts} /> : <p class="diff-note">There is no change.</p>)}
    </section>
  );
}

function Empty() {
  if (worktreesProblem.value) return <div class="empty"><h2>There are no worktrees</h2><p><Words text={worktreesProblem.value} /></p></div>;
  return (
    <div class="empty" data-testid="no-worktrees">
      <h2>No agent has a worktree</h2>
      {room.value?.repo ? (
        <p>Each agent that the room drives gets one at its first turn, on a branch of its own: <code>tw/&lt;you&gt;/&lt;agent&gt;</code>. Ask an agent for a change, and it appears here.</p>
      ) : (
        <>
          <p>Agents get a git worktree each when the room knows the repository. Name it in <code>config.json</code>, then start the room again:</p>
          <Copyable text={'"workspace": { "repo": "." }'} />
        </>
      )}
    </div>
  );
}

export default function WorktreesView() {
  const [landed, setLanded] = useState<string | null>(null);
  const [discarding, setDiscarding] = useState<string | null>(null);
  useEffect(() => void loadWorktrees(), []);
  const list = worktrees.value;
  const runs = list?.some((tree) => tree.ports) ?? false;
  const shown = list?.find((w) => w.agent === worktreeOf.value);
  const asked = list?.find((w) => w.agent === mergeOf.value);
  const unwanted = list?.find((w) => w.agent === discarding);
  // Who comes last for what its branch is, and not for whom it sets back: from here on there is nobody else.
  const endsAt = order.value.map(broken).lastIndexOf(false) + 1;
  return (
    <section class="view worktrees-view" aria-label="Worktrees">
      <header class="view-head">
        <h1>Worktrees</h1>
        {list && list.length > 0 && <p>{list.filter((w) => w.files > 0).length} of {list.length} with changes{disk.value && disk.value.bytes > 0 && <>, {size(disk.value.bytes)} on disk</>}</p>}
        <button type="button" class="button small" onClick={() => void loadWorktrees()} data-testid="worktrees-again"><Icon name="retry" size={14} /> Refresh</button>
      </header>
      {list && list.length > 0 && (
        <div class={`worktrees-list ${shown && !shown.member ? "with-diff" : ""}`}>
          <table class="trees">
            <thead><tr><th>Agent</th><th>Branch</th><th>Commits</th><th>Changes</th><th>Merge</th>{runs && <th>App</th>}<th><span class="offscreen">Actions</span></th></tr></thead>
            <tbody>{list.map((tree) => <Row key={`${tree.agent} ${tree.member ?? ""}`} tree={tree} runs={runs} onMerge={() => (mergeOf.value = tree.agent)} onLand={() => setLanded(tree.agent)} onDiscard={() => setDiscarding(tree.agent)} />)}</tbody>
          </table>
        </div>
      )}
      <Full />
      {landingRequired.value && list && list.length > 0 && <p class="merge-order" data-testid="landing-required">{byQueue()} <button type="button" class="link" onClick={() => show("landing")}>Change that</button></p>}
      {order.value.length > 1 && order.value.some((turn) => turn.sets_back.length || broken(turn)) && (
        <p class="merge-order" data-testid="merge-order">Merge in this order, so that the fewest are set back: {order.value.map((turn, i) => <span key={turn.agent}>{i > 0 && ", "}{i > 0 && i === endsAt && "last "}<Who name={turn.agent} />{turn.first && ` (after it has merged ${list?.[0] ? main(list[0]) : "main"})`}{broken(turn) && <> ({turn.failed && `its tests failed, ${turn.failed}`}{turn.failed && turn.undoes?.[0] && "; "}{turn.undoes?.[0] && <>it <Undoes hit={turn.undoes[0]} /></>})</>}</span>)}.</p>
      )}
      {Object.entries(troubles.value).map(([agent, words]) => <p key={agent} class="notice notice-warn" data-testid="trouble"><Who name={agent} /> <Words text={words} /></p>)}
      {shown && !shown.member && <Diff tree={shown} />}
      <Printed />
      {shown?.member && <p class="diff-note" data-testid="diff-elsewhere">The worktree of {shown.agent} is at {shown.member}: the page of <Page of={shown.member} /> has its diff.</p>}
      {(!list || !list.length) && (list || worktreesProblem.value ? <Empty /> : <p class="diff-note" role="status">Reading the worktrees…</p>)}
      {worktreeOf.value && list && list.length > 0 && !shown && <p class="diff-note">{worktreeOf.value} has no worktree now.</p>}
      {asked && <MergeDialog tree={asked} onClose={() => (mergeOf.value = null)} onLand={() => { mergeOf.value = null; setLanded(asked.agent); }} />}
      {landed && <LandDialog agents={[landed]} onClose={() => setLanded(null)} />}
      {unwanted && <DiscardDialog tree={unwanted} onClose={() => setDiscarding(null)} />}
    </section>
  );
}
