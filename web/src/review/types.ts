/** The shapes of a review (docs/review.md). */

import type { WorktreeDiff } from "../worktree_types";

export type Side = "new" | "old";

export interface ReviewFile {
  path: string;
  old_path: string | null;
  change: string;
  insertions: number;
  deletions: number;
  binary: boolean;
  /** git's ids of the file before and after; null: it was not there. */
  old: string | null;
  new: string | null;
  old_mode: string | null;
  new_mode: string | null;
  uncommitted: boolean;
  /** By the person who looks, as it is now. */
  reviewed: boolean;
}

/** What a comment is about: lines of one side of a file, as they were. */
export interface Lines {
  path: string;
  side: Side;
  first: number;
  last: number;
  /** The text of these lines then. */
  lines: string[];
}

export interface SentComment extends Lines {
  /** `m17.2`. */
  id: string;
  message: number;
  by: string;
  at: string;
  text: string;
  suggestion: string[] | null;
  /** The line on which its lines begin now; null: they have changed. */
  stands: number | null;
  /** The commit by which its suggestion was applied. */
  applied: string | null;
  /** Its lines stand, and what it suggests is not applied; of a branch that has landed: so it was then. */
  open: boolean;
}

/** A comment that is not sent yet. */
export interface Draft extends Lines {
  id: string;
  /** git's id of the file that the lines are of. */
  blob: string;
  text: string;
  /** What should stand there, as one text; null: it suggests nothing. */
  suggestion: string | null;
}

export interface Review extends Omit<WorktreeDiff, "files"> {
  files: ReviewFile[];
  comments: SentComment[];
  into: string | null;
  head: string | null;
  /** The folder of the worktree. */
  path: string;
  dirty: boolean;
  own: boolean;
  working: boolean;
  /** Of a branch that has nothing more: what of it landed last. */
  landed: { commit: string; at: string; by: string; into: string; method: "merge" | "squash"; files: number; diff: string; truncated: boolean } | null;
  /** Sentences: where something else lands than what the branch has, since a conflict was settled. */
  settled: string[];
  /** `ui.editor`; empty: there are no links. */
  editor: string;
}
