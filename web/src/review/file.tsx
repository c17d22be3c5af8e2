/** One file of a review: its lines, and what is said of them. */

import { Fragment } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { FileDiff } from "../text/diff";
import { Diffstat } from "../ui/diffstat";
import { Icon } from "../ui/bits";
import { DraftCard, SentCard } from "./comments";
import { cellOf, draftOn, editorLink, grown, hunkNumbers, hunkTexts, isLines, languageOf, linesShown, modeSaid, rowsOf, shownAt, type Cell, type Row } from "./model";
import { drafts, putDraft } from "./state";
import type { Draft, Review, ReviewFile, SentComment, Side } from "./types";

/** Rows of one file that are drawn at a time; characters that are coloured at most. */
const ROWS = 400;
const MOST_COLOURED = 200_000;
const SIGN = { same: " ", add: "+", remove: "-" } as const;
const CHANGE: Readonly<Record<string, string>> = { A: "new", D: "deleted", R: "renamed" };

export interface Acts {
  review: Review;
  /** Read the branch anew. */
  again: () => Promise<void>;
}

/** The coloured markup of the lines, by side and number; empty until the colours are there. */
function useColours(file: FileDiff): ReadonlyMap<string, string> {
  const [found, setFound] = useState<ReadonlyMap<string, string>>(new Map());
  useEffect(() => {
    let gone = false;
    const language = languageOf(file.path);
    setFound(new Map());
    const sides = (["old", "new"] as const).map((side) => ({ side, texts: hunkTexts(file, side), numbers: hunkNumbers(file, side) }));
    const size = sides.reduce((sum, one) => sum + one.texts.reduce((n, text) => n + text.length, 0), 0);
    if (!language || size > MOST_COLOURED) return;
    void import("../text/highlight").then(async ({ colouredLines }) => {
      const lines = new Map<string, string>();
      for (const { side, texts, numbers } of sides)
        for (const [i, text] of texts.entries()) {
          const coloured = await colouredLines(text, language);
          coloured?.forEach((html, at) => lines.set(`${side}:${numbers[i]![at]}`, html));
        }
      if (!gone) setFound(lines);
    });
    return () => { gone = true; };
  }, [file]);
  return found;
}

/** What stands below a line: comments that were sent, and drafts. */
function threads(review: Review, path: string, shown: Readonly<Record<Side, ReadonlyMap<number, string>>>) {
  const at = new Map<string, { sent: SentComment[]; drafts: Draft[] }>();
  const apart: { sent: SentComment[]; drafts: Draft[] } = { sent: [], drafts: [] };
  const put = (side: Side, last: number | null) => {
    if (last === null || !shown[side].has(last)) return apart;
    const key = `${side}:${last}`;
    const here = at.get(key) ?? { sent: [], drafts: [] };
    at.set(key, here);
    return here;
  };
  for (const one of review.comments) if (one.path === path) put(one.side, one.stands === null ? null : one.stands + one.lines.length - 1).sent.push(one);
  for (const one of drafts.value) if (one.path === path) put(one.side, shownAt(shown[one.side], one)).drafts.push(one);
  return { at, apart };
}

function Number_({ cell, link }: { cell: Cell | null; link: (line: number) => string }) {
  if (!cell) return <span class="no" role="cell" />;
  const href = cell.side === "new" ? link(cell.no) : "";
  return <span class="no" role="cell">{href ? <a href={href} tabIndex={-1} data-tip="Open in your editor" data-testid="editor-link">{cell.no}</a> : cell.no}</span>;
}

function Code({ cell, html }: { cell: Cell | null; html: string | undefined }) {
  if (!cell) return <code role="cell" class="rv-none" />;
  return html === undefined ? <code role="cell" class={`rv-${cell.kind}`}>{cell.text}</code> : <code role="cell" class={`rv-${cell.kind}`} dangerouslySetInnerHTML={{ __html: html }} />;
}

function Lines({ file, info, acts, split }: { file: FileDiff; info: ReviewFile; acts: Acts; split: boolean }) {
  const { review } = acts;
  const [many, setMany] = useState(ROWS);
  /** The comment that was begun last. */
  const [opened, setOpened] = useState("");
  const rows = useMemo(() => rowsOf(file, split), [file, split]);
  const shown = useMemo(() => ({ old: linesShown(file, "old"), new: linesShown(file, "new") }), [file]);
  const colours = useColours(file);
  const { at, apart } = threads(review, info.path, shown);
  const link = (line: number): string => (info.new ? editorLink(review.editor, review.path, info.path, line) : "");
  const blobOf = (side: Side): string | null => (side === "new" ? info.new : info.old);
  const grow = (draft: Draft, first: number, last: number): boolean => {
    const next = draft.blob === blobOf(draft.side) ? grown(draft, shown[draft.side], first, last) : null;
    if (next) putDraft(next);
    return next !== null;
  };
  /** `extend`: the comment that was begun last reaches up to here. */
  const comment = (cell: Cell, extend: boolean): void => {
    const begun = drafts.value.find((one) => one.id === opened && one.side === cell.side);
    if (extend && begun && grow(begun, Math.min(begun.first, cell.no), Math.max(begun.last, cell.no))) return;
    const blob = blobOf(cell.side);
    const made = blob && draftOn(info.path, cell.side, blob, shown[cell.side], cell.no, cell.no);
    if (!made) return;
    putDraft(made);
    setOpened(made.id);
  };
  const Add = ({ cell }: { cell: Cell | null }) => (
    <span role="cell">
      {cell && <button type="button" class="rv-plus" tabIndex={-1} data-side={cell.side} data-line={cell.no} aria-label={`Comment on line ${cell.no}${cell.side === "old" ? " as it was" : ""}`} onClick={(event) => comment(cell, event.shiftKey)}><Icon name="plus" size={12} /></button>}
    </span>
  );
  const cards = (here: { sent: SentComment[]; drafts: Draft[] } | undefined) =>
    here && (
      <div class="rv-thread" role="row"><div role="cell">
        {here.sent.map((one) => <SentCard key={one.id} comment={one} acts={acts} />)}
        {here.drafts.map((one) => <DraftCard key={one.id} draft={one} focus={one.id === opened} onGrow={shown[one.side].has(one.last) && one.blob === blobOf(one.side) ? (above) => void grow(one, one.first - (above ? 1 : 0), one.last + (above ? 0 : 1)) : undefined} />)}
      </div></div>
    );
  const below = (row: Row) => {
    if (!isLines(row)) return null;
    const keys = [row.old && `old:${row.old.no}`, row.new && `new:${row.new.no}`].filter((key): key is string => !!key && at.has(key));
    return keys.map((key) => <Fragment key={key}>{cards(at.get(key))}</Fragment>);
  };
  const drawn = (row: Row) => {
    if ("head" in row) return <div class="diff-hunk" role="row"><span role="cell">{row.head}</span> <b role="cell">{row.within}</b></div>;
    if ("note" in row) return <div class="rv-note" role="row"><span role="cell">{row.note}</span></div>;
    const html = (cell: Cell | null) => (cell ? colours.get(`${cell.side}:${cell.no}`) : undefined);
    if (split)
      return (
        <div class="rv-row rv-split" role="row">
          <Add cell={row.old} /><Number_ cell={row.old} link={link} /><Code cell={row.old} html={html(row.old)} />
          <Add cell={row.new} /><Number_ cell={row.new} link={link} /><Code cell={row.new} html={html(row.new)} />
        </div>
      );
    const cell = cellOf(row)!;
    return (
      <div class={`rv-row rv-one rv-${cell.kind}`} role="row">
        <Add cell={cell} /><Number_ cell={row.old} link={link} /><Number_ cell={row.new} link={link} />
        <span class="sign" role="cell">{SIGN[cell.kind]}</span><Code cell={cell} html={html(cell)} />
      </div>
    );
  };
  return (
    <div class="rv-lines">
    <div role="table" aria-label={`Changes of ${info.path}`}>
      {(apart.sent.length > 0 || apart.drafts.length > 0) && cards(apart)}
      {rows.slice(0, many).map((row, i) => <Fragment key={i}>{drawn(row)}{below(row)}</Fragment>)}
    </div>
      {rows.length > many && <button type="button" class="diff-more" onClick={() => setMany(many + ROWS * 4)}>Show {Math.min(rows.length - many, ROWS * 4)} more of {rows.length - many} lines</button>}
    </div>
  );
}

export function FileBox({ info, file, acts, split, open, onToggle, onReviewed, onLoad }: { info: ReviewFile; file: FileDiff | null; acts: Acts; split: boolean; open: boolean; onToggle: () => void; onReviewed: () => void; onLoad: () => void }) {
  const box = useRef<HTMLElement>(null);
  const mode = modeSaid(info);
  const href = info.new ? editorLink(acts.review.editor, acts.review.path, info.path, 1) : "";
  return (
    <section class="diff-file rv-file" ref={box} data-path={info.path} data-testid="review-file" aria-label={info.path}>
      <header class="rv-head">
        <button type="button" class="rv-title" aria-expanded={open} onClick={onToggle}>
          <Icon name={open ? "down_small" : "right"} size={14} />
          <code>{info.old_path && <span class="muted">{info.old_path} → </span>}{info.path}</code>
        </button>
        {CHANGE[info.change] && <span class="tag">{CHANGE[info.change]}</span>}
        {info.binary && <span class="tag">binary</span>}
        {mode && <span class="tag">{mode}</span>}
        {info.uncommitted && <span class="tag" data-tip="Some of it is not committed on the branch yet. Landing commits it first.">not committed</span>}
        {!info.binary && <Diffstat of={{ files: 1, insertions: info.insertions, deletions: info.deletions }} />}
        {href && <a class="link rv-open" href={href} data-testid="editor-file">Open</a>}
        <label class="rv-mark"><input type="checkbox" checked={info.reviewed} onChange={onReviewed} data-testid="reviewed" /> Reviewed</label>
      </header>
      {open && info.binary && <p class="diff-note">A binary file; its bytes are not shown.</p>}
      {open && !info.binary && !file && <p class="diff-note"><button type="button" class="link" onClick={onLoad} data-testid="load-file">Show this file</button> The difference of all files is longer than the room sends at once.</p>}
      {open && !info.binary && file && !file.hunks.length && <p class="diff-note">{mode ? `No line changed, but its ${mode}.` : info.change === "R" ? "Renamed, with the same content." : "No line changed."}</p>}
      {open && !info.binary && file && file.hunks.length > 0 && <Lines file={file} info={info} acts={acts} split={split} />}
    </section>
  );
}
