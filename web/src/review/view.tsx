/**
 * A person reads through an agent's branch: file by file, with what they have reviewed and what they say of it.
 *
 * Invariant: what is shown is what the room says would land; a mark or a comment is the room's before it is shown as such.
 */

import "../style/views.css";
import "../style/worktrees.css";
import "../style/review.css";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError } from "../api";
import { api } from "../api_views";
import { DiscardDialog } from "../ui/discard_dialog";
import { LandDialog } from "../landing/land_dialog";
import { entryOfAgent, landing } from "../state/landing";
import { memory } from "../state/prefs";
import { agents } from "../state/room";
import { loadWorktrees, worktreeFor, worktrees } from "../state/worktrees";
import { phone, reviewOf, show } from "../state/view";
import { parseDiff, type FileDiff } from "../text/diff";
import { counted, full, moment } from "../text/format";
import { attempt, Icon, toast, Words } from "../ui/bits";
import { Diffstat } from "../ui/diffstat";
import { Who } from "../ui/proximity";
import { DiffFiles, openAtFirst } from "../ui/worktrees_diff";
import { FileBox, type Acts } from "./file";
import { SentCard } from "./comments";
import { BranchLine, BranchNotes } from "./head";
import { asked, saysSomething } from "./model";
import { drafts, keepDrafts, openDrafts } from "./state";
import type { Review, ReviewFile } from "./types";

/** Comments that are shown of files which the branch does not change, the newest ones. */
const ELSEWHERE = 10;
/** Milliseconds between two looks whether the worktree has changed. */
const LOOK_MS = 5000;
const KIND: Readonly<Record<string, string>> = { A: "added", D: "deleted", R: "renamed" };

function Tree({ files, review, onGo }: { files: readonly ReviewFile[]; review: Review; onGo: (path: string) => void }) {
  const said = (path: string): number => review.comments.filter((one) => one.path === path && one.stands !== null).length + drafts.value.filter((one) => one.path === path).length;
  return (
    <nav class="diff-tree rv-tree" aria-label="Files of the branch">
      <ul>
        {files.map((file) => (
          <li key={file.path}>
            <button type="button" onClick={() => onGo(file.path)} data-tip={file.path} class={file.reviewed ? "rv-done" : ""}>
              <span class={`kind kind-${KIND[file.change] ?? "modified"}`} aria-hidden="true">{file.change}</span>
              <span class="path"><bdi>{file.path}</bdi></span>
              {said(file.path) > 0 && <span class="rv-said" aria-label={counted(said(file.path), "comment")}><Icon name="reply" size={12} /> {said(file.path)}</span>}
              {file.binary ? <span class="muted">bin</span> : <Diffstat of={{ files: 1, insertions: file.insertions, deletions: file.deletions }} />}
              {file.reviewed && <span aria-label="reviewed"><Icon name="check" size={13} /></span>}
            </button>
          </li>
        ))}
      </ul>
    </nav>
  );
}

/** What is not sent yet, and the one button that sends it. */
function Outbox({ review, again }: Acts) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const saying = drafts.value.filter(saysSomething);
  if (!saying.length) return null;
  const send = async (): Promise<void> => {
    setBusy(true);
    setProblem("");
    try {
      const done = await api.sendReview(review.agent, saying.map(asked));
      keepDrafts(drafts.value.filter((one) => !saying.some((sent) => sent.id === one.id)));
      toast(done.reason ?? `Said to ${review.agent}.`);
      await again();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setProblem([error.message, error.fix].filter(Boolean).join(" "));
    }
    setBusy(false);
  };
  return (
    <div class="rv-outbox" role="region" aria-label="Comments that are not sent">
      {problem && <p class="problem" role="alert"><Words text={problem} /></p>}
      <span>{counted(saying.length, "comment")} not sent</span>
      <button type="button" class="button small primary" disabled={busy} onClick={() => void send()} data-testid="send-comments">{busy ? "Sending…" : `Send ${counted(saying.length, "comment")} to ${review.agent}`}</button>
    </div>
  );
}

function Reader({ review, again, change }: Acts & { change: (next: Review) => void }) {
  const [loaded, setLoaded] = useState<Readonly<Record<string, FileDiff>>>({});
  const texts = useMemo(() => new Map(parseDiff(review.diff).map((file) => [file.path, file])), [review.diff]);
  useEffect(() => setLoaded({}), [review.diff]);
  const first = useMemo(() => {
    const small = openAtFirst([...texts.values()]);
    return new Set(review.files.filter((file) => !file.reviewed && (small.has(file.path) || file.binary || !texts.has(file.path))).map((file) => file.path));
  }, [texts]);
  const [turned, setTurned] = useState<ReadonlySet<string>>(new Set());
  const [split, setSplit] = useState(memory.get("review-split") === "1");
  const [wrap, setWrap] = useState(true);
  const box = useRef<HTMLDivElement>(null);
  const here = useRef("");
  const open = (path: string): boolean => first.has(path) !== turned.has(path);
  const turn = (path: string): void => setTurned((before) => { const next = new Set(before); if (!next.delete(path)) next.add(path); return next; });
  const boxOf = (path: string): HTMLElement | null => box.current?.querySelector(`[data-path="${CSS.escape(path)}"]`) ?? null;
  const go = (path: string): void => {
    here.current = path;
    if (!open(path)) turn(path);
    requestAnimationFrame(() => {
      boxOf(path)?.scrollIntoView({ block: "start" });
      boxOf(path)?.querySelector<HTMLElement>(".rv-title")?.focus({ preventScroll: true });
    });
  };
  const step = (by: number): void => {
    const at = review.files.findIndex((file) => file.path === here.current);
    const next = review.files[Math.max(0, Math.min(review.files.length - 1, at < 0 ? 0 : at + by))];
    if (next) go(next.path);
  };
  const line = (by: number): void => {
    const all = [...(box.current?.querySelectorAll<HTMLElement>(".rv-plus") ?? [])];
    if (!all.length) return;
    const now = all.indexOf(document.activeElement as HTMLElement);
    const begin = now >= 0 ? now + by : all.findIndex((one) => !here.current || one.closest(".rv-file") === boxOf(here.current));
    const next = all[Math.max(0, Math.min(all.length - 1, begin))]!;
    here.current = next.closest<HTMLElement>(".rv-file")!.dataset.path!;
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  };
  const mark = async (file: ReviewFile): Promise<void> => {
    const undo = file.reviewed;
    const went = await attempt(api.markReviewed(review.agent, [file.path], undo));
    if (!went) return;
    change({ ...review, files: review.files.map((one) => (one.path === file.path ? { ...one, reviewed: !undo } : one)) });
    if (open(file.path) !== undo) turn(file.path);
  };
  const load = async (path: string): Promise<void> => {
    await attempt(api.review(review.agent, path).then((told) => setLoaded((before) => ({ ...before, ...Object.fromEntries(parseDiff(told.diff).map((file) => [file.path, file])) }))));
  };
  const beside = (next: boolean): void => { setSplit(next); memory.set("review-split", next ? "1" : null); };
  const acts = useRef({ step, line, mark, beside });
  acts.current = { step, line, mark, beside };
  useEffect(() => {
    let afterG = 0;
    const onKey = (event: KeyboardEvent): void => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) && !(target as HTMLInputElement).matches("[type=checkbox]") || document.querySelector("dialog[open]")) return;
      if (event.key === "g") afterG = Date.now();
      // `g n` and the like lead to other views.
      if (Date.now() - afterG < 1200) return;
      const file = review.files.find((one) => one.path === (target.closest<HTMLElement>(".rv-file")?.dataset.path ?? here.current));
      const keys: Record<string, () => unknown> = {
        n: () => acts.current.step(1),
        p: () => acts.current.step(-1),
        j: () => acts.current.line(1),
        k: () => acts.current.line(-1),
        s: () => acts.current.beside(!split),
        v: () => file && acts.current.mark(file),
      };
      const act = keys[event.key];
      if (!act) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      act();
    };
    document.addEventListener("keydown", onKey, true);
    return () => document.removeEventListener("keydown", onKey, true);
  }, [review, split]);
  const sum = (side: "insertions" | "deletions"): number => review.files.reduce((n, file) => n + file[side], 0);
  const done = review.files.filter((file) => file.reviewed).length;
  const paths = new Set(review.files.map((file) => file.path));
  const elsewhere = review.comments.filter((one) => !paths.has(one.path) && (one.stands !== null || one.applied)).slice(0, ELSEWHERE);
  const two = split && !phone.value;
  return (
    <div class={`diff rv ${wrap ? "wrap" : ""}`} data-testid="review">
      <Tree files={review.files} review={review} onGo={go} />
      <div class="diff-files" ref={box}>
        <div class="diff-tools">
          <span data-testid="review-done">{done} of {review.files.length} reviewed</span>
          <Diffstat of={{ files: review.files.length, insertions: sum("insertions"), deletions: sum("deletions") }} />
          <span class="muted">against <code>{review.base.slice(0, 9)}</code>{review.into && <> of {review.into}</>}</span>
          {!phone.value && (
            <div class="segments" role="group" aria-label="How the lines stand">
              <button type="button" aria-pressed={!split} onClick={() => beside(false)} data-testid="unified">Unified</button>
              <button type="button" aria-pressed={split} onClick={() => beside(true)} data-testid="split">Side by side</button>
            </div>
          )}
          <label><input type="checkbox" checked={wrap} onChange={(event) => setWrap(event.currentTarget.checked)} /> Wrap lines</label>
        </div>
        {review.files.some((file) => file.uncommitted) && <p class="diff-note" data-testid="review-dirty">What is marked as not committed lands with the rest.</p>}
        {review.files.map((file) => <FileBox key={file.path} info={file} file={texts.get(file.path) ?? loaded[file.path] ?? null} acts={{ review, again }} split={two} open={open(file.path)} onToggle={() => { here.current = file.path; turn(file.path); }} onReviewed={() => void mark(file)} onLoad={() => void load(file.path)} />)}
        {elsewhere.length > 0 && <section class="rv-elsewhere" aria-label="Comments on other files"><h3>On files that the branch does not change now</h3>{elsewhere.map((one) => <div key={one.id}><code>{one.path}</code><SentCard comment={one} acts={{ review, again }} /></div>)}</section>}
        <p class="rv-keys muted">Keys: <kbd>n</kbd> <kbd>p</kbd> file, <kbd>j</kbd> <kbd>k</kbd> line, <kbd>Enter</kbd> comment on it (a click with <kbd>Shift</kbd>: up to that line), <kbd>v</kbd> reviewed, <kbd>s</kbd> side by side.</p>
        <Outbox review={review} again={again} />
      </div>
    </div>
  );
}

/** What of a branch that has nothing more landed last. */
function Landed({ of, acts }: { of: NonNullable<Review["landed"]>; acts: Acts }) {
  const { agent, comments } = acts.review;
  const open = comments.filter((one) => one.open);
  return (
    <div class="diff rv rv-landed" data-testid="review-landed">
      <div class="diff-files">
        <div class="diff-note" role="status">
          <h2><Icon name="landing" size={16} /> {agent}'s branch has landed</h2>
          <p>{of.method === "squash" ? "As one commit on" : "On"} {of.into}, <time dateTime={of.at} data-tip={full(of.at)}>{moment(of.at, Date.now())}</time>, as {of.by} asked: commit <code data-testid="landed-commit">{of.commit.slice(0, 9)}</code>, {counted(of.files, "file")}. Nothing was changed since.</p>
        </div>
        {open.length > 0 && <section class="rv-elsewhere" data-testid="landed-open"><h3>{open.length === 1 ? "It landed; this comment was open" : "It landed; these comments were open"}</h3>{open.map((one) => <div key={one.id}><code>{one.path}</code><SentCard comment={one} acts={acts} /></div>)}</section>}
        {of.truncated && <p class="diff-note diff-note-warn">The difference is longer than the room sends.</p>}
        <DiffFiles text={of.diff} />
      </div>
    </div>
  );
}

export default function ReviewView() {
  const agent = reviewOf.value;
  const [review, setReview] = useState<Review | null>(null);
  const [problem, setProblem] = useState("");
  const [asking, setAsking] = useState<"" | "land" | "squash" | "discard">("");
  const tree = agent ? worktreeFor(agent) : undefined;
  /** The newest reading: an older one that comes later counts for nothing. */
  const reading = useRef(0);
  const read = async (): Promise<void> => {
    if (!agent) return;
    const mine = ++reading.current;
    try {
      const told = await api.review(agent);
      if (mine === reading.current) { setReview(told); setProblem(""); }
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (mine === reading.current) setProblem([error.message, error.fix].filter(Boolean).join(" "));
    }
  };
  // Read anew when what stands in the worktree has changed, when a turn begins or ends, and when somebody comes back.
  const turn = agents.value.find((one) => one.name === agent)?.running?.message_id ?? "";
  const version = tree ? `${turn} ${tree.tree} ${tree.base} ${tree.ahead} ${tree.dirty} ${tree.working}` : "";
  useEffect(() => void read(), [agent, version]);
  // The room says that a turn is over a moment before its worktree is free.
  const ending = review?.working === true && !turn;
  useEffect(() => {
    if (!ending) return;
    const timer = setInterval(() => void read(), 1000);
    return () => clearInterval(timer);
  }, [ending]);
  useEffect(() => {
    if (agent) openDrafts(agent);
    setReview(null);
    void loadWorktrees();
    const back = (): void => { if (!document.hidden) void read(); };
    document.addEventListener("visibilitychange", back);
    // Not every edit changes what the room tells by itself.
    const timer = setInterval(() => { if (!document.hidden) void loadWorktrees(); }, LOOK_MS);
    return () => {
      document.removeEventListener("visibilitychange", back);
      clearInterval(timer);
    };
  }, [agent]);
  const names = (worktrees.value ?? []).filter((one) => !one.member);
  const queued = agent ? entryOfAgent(agent) : undefined;
  const lands = !!tree && ["clean", "joins", "unknown", "conflicts"].includes(tree.merges ?? "") && queued?.state !== "testing";
  return (
    <section class="view review-view" aria-label={agent ? `Review of ${agent}` : "Review"}>
      <header class="view-head">
        <h1>Review</h1>
        {names.length > 0 && (
          <label class="rv-whose"><span class="offscreen">Whose branch</span>
            <select value={agent ?? ""} onChange={(event) => (reviewOf.value = event.currentTarget.value || null)} data-testid="review-of">
              {!names.some((one) => one.agent === agent) && <option value={agent ?? ""}>{agent ?? "Choose a branch"}</option>}
              {names.map((one) => <option key={one.agent} value={one.agent}>{one.agent}: {counted(one.files, "file")}</option>)}
            </select>
          </label>
        )}
        {review && <p><code>{review.branch}</code>{review.working && <span class="tag working"><Who name={review.agent} /> is at work</span>}{queued && <button type="button" class="link" onClick={() => show("landing")}>in the landing queue</button>}</p>}
        {review && tree && (
          <div class="rv-ways">
            <button type="button" class="button small" disabled={!landing.value || !lands} onClick={() => setAsking("land")} data-testid="review-land">Land…</button>
            <button type="button" class="button small" disabled={!landing.value || !lands} onClick={() => setAsking("squash")} data-testid="review-squash">Squash…</button>
            {tree.own && <button type="button" class="button small" disabled={tree.working === true || (!tree.files && !tree.ahead)} onClick={() => setAsking("discard")} data-testid="review-discard">Discard…</button>}
          </div>
        )}
        {review && review.files.length > 0 && <BranchLine agent={review.agent} />}
      </header>
      {review && <BranchNotes agent={review.agent} underWay={review.under_way ?? ""} settled={review.settled} />}
      {problem && <p class="problem rv-problem" role="alert"><Words text={problem} /></p>}
      {!agent && <div class="empty"><h2>Whose branch?</h2><p>{names.length ? "Choose an agent above." : "No agent has a worktree here."}</p></div>}
      {agent && !review && !problem && <p class="diff-note" role="status">Reading the branch…</p>}
      {review && !review.files.length && (review.landed ? <Landed of={review.landed} acts={{ review, again: read }} /> : <div class="empty" data-testid="review-empty"><h2>{review.agent}'s branch has no changes</h2><p>It has nothing that the main branch does not have.</p></div>)}
      {review && review.files.length > 0 && <Reader key={review.agent} review={review} again={read} change={setReview} />}
      {agent && (asking === "land" || asking === "squash") && <LandDialog agents={[agent]} squash={asking === "squash"} onClose={() => { setAsking(""); void read(); }} />}
      {tree && asking === "discard" && <DiscardDialog tree={tree} onClose={() => { setAsking(""); void read(); }} />}
    </section>
  );
}
