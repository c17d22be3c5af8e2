/** The difference of two moments, read when somebody wants it. */

import { useState } from "preact/hooks";
import { api } from "../api_views";
import type { MomentDiff } from "../timeline_types";
import type { WorktreeDiff } from "../worktree_types";
import { DiffView } from "../ui/worktrees_diff";
import { Icon } from "../ui/bits";
import "../style/worktrees.css";
import { useAnswer } from "./answer";

/** As the diff of a worktree is shown. */
function asDiff(found: MomentDiff): WorktreeDiff {
  return {
    agent: "",
    branch: "",
    base: found.a.tree,
    diff: found.files.map((file) => file.patch ?? "").join(""),
    files: found.files.map((file) => ({ path: file.path, change: file.kind, insertions: 0, deletions: 0, binary: false })),
    truncated: false,
  };
}

/** `at`: the commit, or the moment of the main branch, that `b` is; empty: it is none. */
export function Between({ a, b, lane = "", name, at = "", open: atFirst = false }: { a: string; b: string; lane?: string; name: string; at?: string; open?: boolean }) {
  const [open, setOpen] = useState(atFirst);
  const { found, problem } = useAnswer(() => (open ? api.timelineDiff(a, b, lane) : null), [a, b, lane, open]);
  return (
    <div class="tl-between">
      {!atFirst && <button type="button" class="link" aria-expanded={open} onClick={() => setOpen(!open)} data-testid="tl-lines"><Icon name={open ? "down_small" : "right"} size={13} /> {open ? "Hide the lines" : name}</button>}
      {problem && <p class="problem" role="alert">{problem}</p>}
      {open && !found && !problem && <p class="muted" role="status">Reading the difference…</p>}
      {open && found && (found.files.length ? <DiffView key={`${a} ${b} ${lane}`} told={asDiff(found)} conflicts={[]} at={at} /> : <p class="muted">Nothing differs.</p>)}
    </div>
  );
}

