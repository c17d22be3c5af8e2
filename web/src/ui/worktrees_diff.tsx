/**
 * A diff as people read it: a list of files, and each file's hunks.
 *
 * Invariant: the document never holds more than LINES_OPEN lines that nobody asked for; what is bigger is closed,
 * and opens piece by piece.
 */

import { useMemo, useRef, useState } from "preact/hooks";
import { lineCount, parseDiff, type FileDiff } from "../text/diff";
import type { WorktreeDiff } from "../worktree_types";
import { Behind, useBehind } from "./behind";
import { Icon } from "./bits";
import { Diffstat } from "./diffstat";

/** Lines of one file that are drawn at a time. */
const LINES_FILE = 400;
/** Lines of a whole diff that are drawn before anybody asks. */
const LINES_OPEN = 1500;

const SIGN = { same: " ", add: "+", remove: "-", note: "" } as const;
const CHANGE: Readonly<Record<string, string>> = { added: "new", deleted: "deleted", renamed: "renamed", copied: "copied", mode: "mode" };

type Row = { head: string; within: string } | FileDiff["hunks"][number]["lines"][number];

/** The number of the line above that stands in the new file; 0: there is none in this hunk. */
function newAbove(rows: readonly Row[], i: number): number {
  for (let at = i - 1; at >= 0; at--) {
    const row = rows[at]!;
    if ("head" in row) return 0;
    if (row.new !== null) return row.new;
  }
  return 0;
}

function Lines({ file, at }: { file: FileDiff; at: string }) {
  const [shown, setShown] = useState(LINES_FILE);
  const behind = useBehind(file.path, file.binary || file.change === "deleted" ? "" : at);
  const rows = useMemo(() => file.hunks.flatMap((h): Row[] => [{ head: h.head, within: h.within }, ...h.lines]), [file]);
  if (file.binary) return <p class="diff-note">A binary file; its bytes are not shown.</p>;
  if (!rows.length) return <p class="diff-note">{file.change === "renamed" ? "Renamed, with the same content." : "No line changed."}</p>;
  return (
    <div class={`diff-lines ${behind.size ? "diff-told" : ""}`}>
      <div role="table" aria-label={`Changes of ${file.path}`}>{rows.slice(0, shown).map((row, i) =>
        "head" in row ? (
          <div key={i} class="diff-hunk" role="row"><span role="cell">{row.head}</span> <b>{row.within}</b></div>
        ) : (
          <div key={i} class={`diff-line diff-${row.kind}`} role="row">
            <span class="no" role="cell">{row.old ?? ""}</span>
            <span class="no" role="cell">{row.new ?? ""}</span>
            {behind.size > 0 && <Behind of={behind.get(row.new ?? 0)} before={behind.get(newAbove(rows, i))} />}
            <span class="sign" role="cell">{SIGN[row.kind]}</span>
            <code role="cell">{row.text}</code>
          </div>
        ),
      )}</div>
      {rows.length > shown && (
        <button type="button" class="diff-more" onClick={() => setShown(shown + LINES_FILE * 4)}>Show {Math.min(rows.length - shown, LINES_FILE * 4)} more of {rows.length - shown} lines</button>
      )}
    </div>
  );
}

function File({ file, open, onToggle, conflict, at = "" }: { file: FileDiff; open: boolean; onToggle: () => void; conflict: boolean; at?: string }) {
  return (
    <section class="diff-file" data-path={file.path} data-testid="diff-file" aria-label={file.path}>
      <button type="button" class="diff-file-head" aria-expanded={open} onClick={onToggle}>
        <Icon name={open ? "down_small" : "right"} size={14} />
        <code>{file.from && <span class="muted">{file.from} → </span>}{file.path}</code>
        {CHANGE[file.change] && <span class="tag">{CHANGE[file.change]}</span>}
        {file.binary && <span class="tag">binary</span>}
        {conflict && <span class="tag tag-bad">conflicts</span>}
        {!file.binary && <Diffstat of={{ files: 1, insertions: file.insertions, deletions: file.deletions }} />}
      </button>
      {open && <Lines file={file} at={at} />}
    </section>
  );
}

/** The files of a diff, one below the other. */
export function DiffFiles({ text }: { text: string }) {
  const files = useMemo(() => parseDiff(text), [text]);
  const first = useMemo(() => openAtFirst(files), [files]);
  /** Those that somebody has opened or closed. */
  const [turned, setTurned] = useState<ReadonlySet<string>>(new Set());
  const toggle = (path: string): void => {
    const next = new Set(turned);
    if (!next.delete(path)) next.add(path);
    setTurned(next);
  };
  return <div class="diff-files wrap">{files.map((file) => <File key={file.path} file={file} open={first.has(file.path) !== turned.has(file.path)} conflict={false} onToggle={() => toggle(file.path)} />)}</div>;
}

/** The files that are open at first: from the top, until LINES_OPEN lines. */
export function openAtFirst(files: readonly FileDiff[]): Set<string> {
  const open = new Set<string>();
  let lines = 0;
  for (const file of files) {
    const mine = Math.min(lineCount(file), LINES_FILE);
    if (lines + mine > LINES_OPEN) break;
    lines += mine;
    open.add(file.path);
  }
  return open;
}

/** `at`: the commit that the difference leads to, of whose lines is told who is behind them; empty: nobody is named. */
export function DiffView({ told, conflicts, at = "" }: { told: WorktreeDiff; conflicts: readonly string[]; at?: string }) {
  const files = useMemo(() => parseDiff(told.diff), [told]);
  const [open, setOpen] = useState(() => openAtFirst(files));
  const [wrap, setWrap] = useState(true);
  const box = useRef<HTMLDivElement>(null);
  const toggle = (path: string): void => {
    const next = new Set(open);
    if (!next.delete(path)) next.add(path);
    setOpen(next);
  };
  const go = (path: string): void => {
    setOpen(new Set([...open, path]));
    requestAnimationFrame(() => box.current?.querySelector(`[data-path="${CSS.escape(path)}"]`)?.scrollIntoView({ block: "start" }));
  };
  const unread = told.files.filter((f) => !files.some((d) => d.path === f.path));
  return (
    <div class={`diff ${wrap ? "wrap" : ""}`} ref={box} data-testid="diff">
      <nav class="diff-tree" aria-label="Files of the diff">
        <ul>
          {files.map((file) => (
            <li key={file.path}>
              <button type="button" onClick={() => go(file.path)} data-tip={file.path}>
                <span class={`kind kind-${file.change}`} aria-hidden="true">{{ added: "A", deleted: "D", renamed: "R", copied: "C", mode: "M", modified: "M" }[file.change]}</span>
                <span class="path"><bdi>{file.path}</bdi></span>
                {conflicts.includes(file.path) ? <span class="tag tag-bad">!</span> : file.binary ? <span class="muted">bin</span> : <Diffstat of={{ files: 1, insertions: file.insertions, deletions: file.deletions }} />}
              </button>
            </li>
          ))}
          {unread.map((f) => <li key={f.path} class="unread"><span class="path"><bdi>{f.path}</bdi></span><span class="muted">not in the text</span></li>)}
        </ul>
      </nav>
      <div class="diff-files">
        <div class="diff-tools">
          <span class="muted">{files.length} {files.length === 1 ? "file" : "files"} against <code>{told.base.slice(0, 12)}</code></span>
          <button type="button" class="link" onClick={() => setOpen(open.size ? new Set() : new Set(files.map((f) => f.path)))}>{open.size ? "Close all" : "Open all"}</button>
          <label><input type="checkbox" checked={wrap} onChange={(e) => setWrap(e.currentTarget.checked)} /> Wrap lines</label>
        </div>
        {told.truncated && <p class="diff-note diff-note-warn">The diff is longer than the room sends; the rest is in the worktree.</p>}
        {files.map((file) => <File key={file.path} file={file} open={open.has(file.path)} conflict={conflicts.includes(file.path)} onToggle={() => toggle(file.path)} at={at} />)}
      </div>
    </div>
  );
}
