/**
 * A conflict of a merge, three ways: what both began from, and what each side made of it, with whose it is and what it is for.
 * Below: the five choices of `/resolve`, and what is to stand there as a text of one's own.
 *
 * Invariant: each choice goes to the room by the same function as `/resolve`. What the room refuses changes nothing, and how the
 * two stand now is shown instead.
 */

import "../style/views.css";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { api } from "../api_views";
import { conflicts, conflictsProblem, loadConflicts, openConflicts, unasked } from "../state/conflicts";
import { fewPaths, mergeWords } from "../state/merging";
import { needs } from "../state/needs";
import { conflictOf, mergeOf, overlay, show, showConflict } from "../state/view";
import { loadWorktrees, worktreeFor } from "../state/worktrees";
import "../style/conflicts.css";
import { attempt, hued, Icon, IconButton, toast, Words } from "../ui/bits";
import { counted } from "../text/format";
import { Path } from "../ui/copyable";
import { Who } from "../ui/proximity";
import { asks, giveUp, settle } from "../ui/unmerged";
import type { Worktree } from "../worktree_types";
import { choose } from "./choosing";
import { CodeField } from "./editor";
import { beginWith, compared, languageOf, oursName, rowsOf, standing, steps, theirsName, type Beginning, type Row } from "./lines";
import type { Around, Conflict, PlacedConflict } from "./types";

/** Coloured lines, once the colours are there; null before that. */
function useColours(text: string, language: string): readonly string[] | null {
  const [lines, setLines] = useState<readonly string[] | null>(null);
  useEffect(() => {
    let gone = false;
    setLines(null);
    if (language && text.length < 60_000)
      void import("../text/highlight").then(({ colouredLines }) => colouredLines(text, language)).then((lines) => { if (!gone) setLines(lines); });
    return () => { gone = true; };
  }, [text, language]);
  return lines;
}

/** Marks characters of lines without touching their markup; where the browser cannot, the whole line is marked anyway. */
function useMarks(box: { current: HTMLElement | null }, rows: readonly Row[], name: string, coloured: unknown): void {
  useEffect(() => {
    if (!("highlights" in CSS) || !box.current) return;
    const ranges: Range[] = [];
    box.current.querySelectorAll<HTMLElement>("[data-row]").forEach((line) => {
      const mark = rows[Number(line.dataset.row)]?.mark;
      if (!mark) return;
      const range = document.createRange();
      const walk = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
      let at = 0;
      while (walk.nextNode()) {
        const node = walk.currentNode as Text;
        if (mark[0] >= at && mark[0] < at + node.length) range.setStart(node, mark[0] - at);
        if (mark[1] > at && mark[1] <= at + node.length) range.setEnd(node, mark[1] - at);
        at += node.length;
      }
      ranges.push(range);
    });
    CSS.highlights.set(name, new Highlight(...ranges));
    return () => void CSS.highlights.delete(name);
  }, [rows, name, coloured]);
}

function Pane(props: { side: "base" | "ours" | "theirs"; title: string; who: string | null; intent: string | null; text: string; rows: readonly Row[]; around: Around | null; language: string }) {
  const box = useRef<HTMLDivElement>(null);
  const colours = useColours(props.text, props.language);
  useMarks(box, props.rows, `conflict-${props.side}`, colours);
  const { around } = props;
  const first = around?.line ?? 1;
  const context = (lines: readonly string[], from: number) =>
    lines.map((text, i) => {
      const other = around?.others.find(({ lines: [low, high] }) => low <= from + i && from + i <= high);
      return (
        <div key={`${from}-${i}`} class={`pane-line pane-context ${other ? "pane-other" : ""}`}>
          <span class="no">{from + i}</span>
          <code>{text || " "}</code>
          {other && (i === 0 || from + i === other.lines[0]) && <button type="button" class="link" title={`${other.reference} is about these lines`} onClick={() => showConflict(Number(other.reference.slice(1)))}>{other.reference}</button>}
        </div>
      );
    });
  return (
    <section class={`pane pane-${props.side}`} aria-label={`${props.title}${props.who ? `, ${props.who}` : ""}`} data-testid={`pane-${props.side}`}>
      <header>
        <h3>{props.title}{props.who && <> <b class="agent-name" style={hued(props.who)}>{props.who}</b></>}</h3>
        {props.side !== "base" && <p class={props.intent ? "" : "muted"}>{props.intent ?? "What it is for was not said."}</p>}
      </header>
      <div class="pane-lines" ref={box} tabIndex={0}>
        {around && context(around.above, first - around.above.length)}
        {props.rows.map((row, i) => (
          <div key={i} class={`pane-line ${row.changed ? "pane-changed" : ""}`}>
            <span class="no">{around ? first + i : ""}</span>
            {colours?.[i] !== undefined ? <code data-row={i} dangerouslySetInnerHTML={{ __html: colours[i] || " " }} /> : <code data-row={i}>{row.text || " "}</code>}
          </div>
        ))}
        {!props.rows.length && <p class="pane-nothing">Nothing stands here.</p>}
        {around && context(around.below, first + props.rows.length)}
      </div>
    </section>
  );
}

const BEGINNINGS: readonly Beginning[] = ["ours", "theirs", "both", "base"];

function One({ conflict }: { conflict: Conflict }) {
  const [placed, setPlaced] = useState<PlacedConflict["around"] | null>(null);
  const [text, setText] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const [refused, setRefused] = useState("");
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => void loadWorktrees(), [conflict.state]);
  useEffect(() => {
    let gone = false;
    void attempt(api.conflict(conflict.number).then((found) => { if (!gone) setPlaced(found.around); }));
    return () => { gone = true; };
  }, [conflict.number]);
  const [ours, theirs] = useMemo(() => {
    const base = rowsOf(conflict.base);
    return [compared(base, rowsOf(conflict.a.after)), compared(base, rowsOf(conflict.b.after))];
  }, [conflict.id]);
  const baseRows = useMemo(() => rowsOf(conflict.base).map((row, i): Row => ({ text: row, changed: Boolean(ours.gone[i] || theirs.gone[i]), mark: null })), [ours, theirs]);
  const language = languageOf(conflict.path);
  const written = text ?? conflict.resolution?.merged_content ?? beginWith(conflict, "ours");
  const decided = conflict.state !== "open";
  // As the inbox says it, with what else is known: whom it was left to in vain, for one.
  const waits = needs.value.find((need) => need.id === `conflict:${conflict.reference}`);
  const over = conflict.state === "gone";
  const newer = over ? openConflicts.value.find((one) => one.path === conflict.path && one.agent === conflict.agent) : undefined;
  const mine = openConflicts.value.filter((one) => one.agent === conflict.agent);
  const left = mine.length > 0;
  const next = decided && !newer ? (left ? mine : openConflicts.value).at(-1) : undefined; // the newest is the first
  // What became of the work since: a merge is offered only where there is one to make.
  const tree = conflict.state === "resolved" && !left ? worktreeFor(conflict.agent) : undefined;
  const merges = tree?.merges !== "nothing";
  const names: Record<Beginning, string> = { ours: `${oursName(conflict)}'s`, theirs: `${theirsName(conflict)}'s`, both: "both", base: "the base" };

  const decide = async (choice: number, own?: string): Promise<void> => {
    if (busy || over) return;
    setBusy(true);
    const done = await choose(conflict.number, choice, own);
    setRefused(done.refused);
    if (done.said) toast(done.said.replace(/`/g, ""));
    setBusy(false);
  };
  const send = (): void => void decide(4, written);
  const write = (): void => {
    field.current?.focus();
    field.current?.scrollIntoView({ block: "nearest" });
  };
  const act = useRef<(choice: number) => void>(() => {});
  const key = useRef<(choice: number) => void>(() => {});
  // With what is shown: a key that is pressed at once counts.
  useLayoutEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || overlay.value !== "none" || document.querySelector("dialog[open]")) return;
      if (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) return;
      if (!/^[1-5]$/.test(event.key)) return;
      event.preventDefault();
      key.current(Number(event.key));
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);

  const all: readonly [number, string, string][] = [
    [1, `Keep ${oursName(conflict)}'s`, `What ${conflict.into} has stands`],
    [2, `Keep ${theirsName(conflict)}'s`, `What ${conflict.agent}'s branch has stands`],
    [3, `Let ${theirsName(conflict)} write both`, `${conflict.agent} is asked for lines with the work of both`],
    [4, "Write it yourself", "What stands below is what you want"],
    [5, "Keep both apart", `Nothing of ${conflict.agent}'s is merged`],
  ];
  const buttons = all.filter(([choice]) => !conflict.whole || (choice !== 3 && choice !== 4));
  act.current = (choice) => {
    if (choice === 4 && !conflict.whole) write();
    else if (buttons.some(([one]) => one === choice)) void decide(choice);
  };
  // What is decided is overruled by its buttons alone: a key that is pressed next is meant for the next conflict.
  key.current = (choice) => { if (!decided) act.current(choice); };
  const chosen = conflict.resolution?.resolution_type;
  const current = conflict.state === "rejected" ? 5 : chosen?.type === "human_resolved" ? 4 : chosen?.type === "agent_resolved" ? 3 : chosen?.type === "side_chosen" ? (chosen.chosen === conflict.agent ? 2 : 1) : 0;
  return (
    <div class="conflict" data-testid="conflict" data-conflict={conflict.reference} data-state={conflict.state}>
      <div class="conflict-what">
        <h2><Path path={conflict.path} />{conflict.entity && <span class="conflict-entity"> <code>{conflict.entity}</code></span>}</h2>
        <p>{waits?.text ?? <>{conflict.kind[0]?.toUpperCase()}{conflict.kind.slice(1)}.{!decided && ` ${conflict.agent}'s work goes into ${conflict.into} when somebody has decided.`}</>}</p>
      </div>
      {refused && (
        <p class="problem" role="alert" data-testid="conflict-refused">
          <Words text={refused} />
        </p>
      )}
      {decided && (
        <p class={`conflict-state conflict-state-${conflict.state}`} role="status" data-testid="conflict-state">
          <Icon name={conflict.state === "resolved" ? "check" : "close"} size={15} />
          <span>{standing(conflict)}{conflict.state === "resolved" && (conflict.resolution?.validated ? " The tests pass with it." : merges && " Another choice takes its place until the work is merged.")}{tree && !merges && ` Now, ${conflict.agent}'s branch: ${mergeWords(tree)}.`}</span>
          {newer && <button type="button" class="link" onClick={() => showConflict(newer.number)}>{newer.reference} asks about it now</button>}
          {next && <button type="button" class="link" onClick={() => showConflict(next.number)} data-testid="conflict-go-on">Decide {next.reference}</button>}
          {conflict.state === "resolved" && !left && merges && <button type="button" class="link" onClick={() => { mergeOf.value = conflict.agent; show("worktrees"); }} data-testid="conflict-merge">Merge {conflict.agent}'s work</button>}
        </p>
      )}
      <div class="panes">
        <Pane side="base" title="Both began from" who={null} intent={null} text={conflict.base} rows={baseRows} around={placed?.base ?? null} language={language} />
        <Pane side="ours" title={conflict.a.lane && conflict.a.lane !== conflict.into ? `${conflict.into}, by` : conflict.into} who={conflict.a.lane !== conflict.into ? conflict.a.lane : null} intent={conflict.a.intent} text={conflict.a.after} rows={ours.rows} around={placed?.ours ?? null} language={language} />
        <Pane side="theirs" title="The branch of" who={conflict.agent} intent={conflict.b.intent} text={conflict.b.after} rows={theirs.rows} around={placed?.theirs ?? null} language={language} />
      </div>
      <div class="conflict-choices" role="group" aria-label="What is to stand there">
        {buttons.map(([choice, name, tip]) => (
          <button key={choice} type="button" class="button" aria-pressed={current === choice} disabled={busy || over} data-tip={tip} onClick={() => act.current(choice)} data-testid={`choose-${choice}`}>
            {!decided && <><kbd>{choice}</kbd> </>}{name}
          </button>
        ))}
      </div>
      {!conflict.whole && <section class="conflict-result" aria-label="Result">
        <header>
          <h3>Result</h3>
          <div class="segments" role="group" aria-label="Begin with">
            {BEGINNINGS.map((what) => (
              <button key={what} type="button" aria-pressed={written === beginWith(conflict, what)} disabled={over} onClick={() => { setText(beginWith(conflict, what)); write(); }} data-testid={`begin-${what}`}>{names[what]}</button>
            ))}
          </div>
          <button type="button" class="button small primary" disabled={busy || over} onClick={send} data-tip="Ctrl Enter" data-testid="conflict-send">Use what stands here</button>
        </header>
        <CodeField value={written} language={language} label={`What is to stand in ${conflict.path}`} onChange={setText} onSend={send} field={field} disabled={over} />
      </section>}
    </div>
  );
}

function Unasked({ tree }: { tree: Worktree }) {
  const [busy, setBusy] = useState(false);
  const [refused, setRefused] = useState("");
  const into = tree.into ?? "the main branch";
  const where = fewPaths(tree.conflicts);
  const under = tree.merging === true;
  const here = !tree.member;
  const canEnd = here && under && tree.own;
  const canSettle = canEnd || (here && asks(tree));
  const act = async (what: () => Promise<void>): Promise<void> => {
    setBusy(true);
    await what();
    setBusy(false);
  };
  const off = busy || tree.working === true;
  const tip = tree.working ? "Its turn is running." : canEnd ? "Its files go back to the state before the merge. Git keeps what stands in them." : undefined;
  return (
    <li data-testid="unasked" data-agent={tree.agent}>
      <p>
        <Who name={tree.agent} />{" "}
        {tree.needless ? <>has a merge of {into} under way that is not settled in {where}, and {into} has no conflict with its branch any more. Give the merge up.</>
          : under ? <>is merging {into} in its worktree, and {where} {tree.conflicts.length === 1 ? "is" : "are"} not settled.</>
          : tree.unsettled ? <>has conflict markers in {where}. Nothing is asked here while they stand.</>
            : <>conflicts with {into} in {where}. {!canSettle && "Landing it asks here what is to stand there."}</>}
        {!here && ` Its worktree is at ${tree.member}.`}
      </p>
      {canSettle && !tree.needless && <button type="button" class="button small" disabled={off} data-tip={tip} onClick={() => void act(async () => setRefused(await settle(tree)))} data-testid="conflict-settle">Settle it here</button>}
      {canEnd && <button type="button" class={`button small ${tree.needless ? "primary" : ""}`} disabled={off} data-tip={tip} onClick={() => void act(() => giveUp(tree.agent))} data-testid="conflict-give-up">Give the merge up</button>}
      {refused && <p class="problem" role="alert"><Words text={refused} /></p>}
    </li>
  );
}

/** Does a person keep it apart in all in which it does not merge? The newest answer about a file counts; a merge that an agent is in the middle of was begun since. */
const keptApart = (tree: Worktree, all: readonly Conflict[]): boolean =>
  !tree.merging && !tree.unsettled && tree.conflicts.every((path) => all.find((one) => one.agent === tree.agent && one.path === path)?.state === "rejected");

export default function ConflictsView() {
  useEffect(() => { void loadConflicts(); void loadWorktrees(); }, []);
  const all = conflicts.value;
  const listed = steps(all, conflictOf.value);
  const shown = all.find((one) => one.number === conflictOf.value) ?? listed[0];
  const trees = unasked.value.filter((tree) => !keptApart(tree, all));
  const at = listed.findIndex((one) => one === shown);
  // What is shown stays when it is decided: going on is the person's step.
  useEffect(() => {
    if (shown && conflictOf.value === null) conflictOf.value = shown.number;
  }, [shown?.number]);
  const step = (by: number): void => {
    const next = listed[(at + by + listed.length) % listed.length];
    if (next) conflictOf.value = next.number;
  };
  const move = useRef(step);
  move.current = step;
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || overlay.value !== "none" || document.querySelector("dialog[open]")) return;
      if (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) return;
      if (event.key === "j") move.current(1);
      if (event.key === "k") move.current(-1);
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
  return (
    <section class="view conflicts-view" aria-label="Conflicts">
      <header class="view-head">
        <h1>Conflicts</h1>
        <p data-testid="conflicts-count">{openConflicts.value.length ? `${openConflicts.value.length} open` : trees.length ? `${counted(trees.length, "branch", "branches")} to settle` : "none open"}</p>
        {shown && (
          <nav class="conflict-steps" aria-label="Conflicts">
            <IconButton icon="left" label="The conflict before" keys="K" disabled={listed.length < 2} onClick={() => step(-1)} testid="conflict-previous" />
            <span><b>{shown.reference}</b>{listed.length > 1 && <span class="muted"> {at + 1} of {listed.length}</span>}</span>
            <IconButton icon="right" label="The next conflict" keys="J" disabled={listed.length < 2} onClick={() => step(1)} testid="conflict-next" />
          </nav>
        )}
      </header>
      {conflictsProblem.value && <p class="problem" role="alert">{conflictsProblem.value}</p>}
      <div class="conflict-box">
        {trees.length > 0 && <ul class="unasked">{trees.map((tree) => <Unasked key={tree.agent} tree={tree} />)}</ul>}
        {shown && <One key={shown.number} conflict={shown} />}
        {!shown && !trees.length && !conflictsProblem.value && (
          <div class="empty">
            <Icon name="merge" size={28} />
            <h2>Nothing conflicts</h2>
            <p>When two agents changed the same lines, the room asks here what is to stand there.</p>
          </div>
        )}
      </div>
    </section>
  );
}
