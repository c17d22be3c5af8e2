/** The shapes of the worktrees and their merges (docs/airspace.md). */

import type { Verification } from "./landing/types";

export interface About {
  number: number;
  text: string;
}

/** How a branch stands, in one line; `tests`: it is what its tests say. */
export interface Standing {
  kind: "collides" | "conflicts" | "queued" | "ready" | "changed";
  text: string;
  tests: boolean;
}

export interface Worktree {
  agent: string;
  path: string;
  branch: string;
  base: string;
  /** git's id of what stands in it now, with what is not committed. */
  tree?: string;
  ahead: number;
  behind: number;
  dirty: boolean;
  files: number;
  insertions: number;
  deletions: number;
  /** Made by the room; else a checkout that was named to it. */
  own: boolean;
  /** Its agent is at work in it now. */
  working?: boolean;
  /** What git would not keep: too big, or not a file. */
  left_out?: string[];
  /** The branch that it is merged into; null: the main checkout is on none. */
  into?: string | null;
  /** "joins": relay joins files in which git conflicts. */
  merges: "clean" | "joins" | "conflicts" | "nothing" | "unknown" | null;
  joined?: JoinedFile[];
  /** With whom it merges, and not by git alone. */
  joins?: { agent: string; files: JoinedFile[] }[];
  conflicts: string[];
  /** Where in its own files: first and last lines, by path. */
  lines?: Record<string, [number, number][]>;
  /** With whom it cannot be merged together, and in which files. */
  collides?: { agent: string; paths: string[] }[];
  /** With whom git has not tried it yet. */
  untried?: string[];
  /** What of others' landed work the branch takes out again, though git merges it. */
  undoes?: { agent: string; path: string; commit: string; did: "landed" | "took back" }[];
  /** The commit as which it landed, where nothing more of it is to land; null: it did not land. */
  landed?: string | null;
  /** The request that it is about: the newest whose turn changed its files. `number`: of its message, 0: none. */
  about?: About | null;
  /** What the tests say of it; null: nothing. Left out where that cannot be read. */
  verified?: Verdict | null;
  /** Null: nothing of it is to land. */
  stands?: Standing | null;
  /** A merge into it is under way. */
  merging?: boolean;
  /** The main branch, as it is now and by what was chosen, has no conflict with the branch itself. */
  needless?: boolean;
  /** The conflicts stand in its own files, with their markers. */
  unsettled?: boolean;
  /** The other member of the fleet where it is: it is only looked at here. */
  member?: string | null;
  /** That member is not here now. */
  away?: boolean;
  /** Its first and its last port; null: it has none, or is elsewhere. */
  ports?: [number, number] | null;
  setup?: WorktreeSetup | null;
  app?: WorktreeApp | null;
  /** What runs in it besides its app: "setup", "archive" or nothing. */
  busy?: string;
  /** What it takes of the disk; `whole`: all of it was seen. */
  disk?: { bytes: number; whole: boolean; at: string } | null;
}

/** What a verification says of a branch. `present`: its files are still those that were tested; `said`: what to know before a merge. */
export interface Verdict extends Pick<Verification, "number" | "reference" | "state" | "reason" | "agent" | "summary"> {
  present: boolean;
  said: string;
}

/** How a worktree was made ready for its agent (docs/worktrees.md). */
export interface WorktreeSetup {
  state: "due" | "running" | "done" | "failed";
  reason: string;
  at: string | null;
  seconds: number;
  copied: string[];
  /** Files that were not copied, each with why. */
  notes: string[];
  /** Only where one worktree was asked for. */
  output?: string;
}

/** The app of a branch, as it runs or ran last. */
export interface WorktreeApp {
  state: "starting" | "running" | "listening" | "stopping" | "stopped" | "exited" | "interrupted";
  by: string;
  started_at: string;
  ports: number[];
  /** The one that its link goes to. */
  port: number | null;
  url: string | null;
  code: number | null;
  reason: string;
  output?: string;
}

/** What is told of one worktree when it changes; `agent` is empty when only sizes did. */
export type WorktreeRuns = { agent: string } & Partial<Pick<Worktree, "ports" | "setup" | "app" | "busy" | "disk">>;

/** One merge of the order in which the fewest are set back. `first`: what the agent has to do before. */
export interface MergeTurn {
  agent: string;
  first: string;
  /** The verification in which its tests failed: it is the last then. */
  failed?: string;
  /** What of others' landed work it would undo: it is the last then, too. */
  undoes?: Worktree["undoes"];
  sets_back: { agent: string; paths: string[] }[];
}

export interface Worktrees {
  worktrees: Worktree[];
  order?: MergeTurn[];
  /** false: the room has just started, and has not looked at all of them yet. */
  surveyed?: boolean;
  /** Why there are none, or why one is missing, by agent. */
  trouble?: string;
  troubles?: Record<string, string>;
  /** Which commands are configured. */
  commands?: { setup: boolean; run: boolean; archive: boolean };
  /** All that the room made together, in bytes; `removable`: the agents whose worktrees are landed and idle. */
  disk?: { bytes: number; cap: number | null; full: boolean; removable: string[] } | null;
}

export type MergeMethod = "merge" | "squash";

/** What a merge would commit: `message` is `text` with `trailers` at its end. */
export interface MergeProposal {
  agent: string;
  branch: string;
  into: string;
  method: MergeMethod;
  /** The work that it was made for. */
  head: string;
  text: string;
  trailers: string[];
  message: string;
  author: string;
  committer: string;
  /** Why another name stands for the committer's; empty when git knows it. */
  note: string;
  /** A person's word that another one goes first; empty or left out when nobody said so. */
  decided?: string;
  commits: number;
  files: number;
  joined?: JoinedFile[];
  /** What the merge changes in the joined files. */
  diff?: string;
  /** The merged tree: what is sent when the joined files are wanted. */
  tree?: string;
  /** What looks wrong in what git merged by itself, each with its path. */
  warnings?: string[];
}

/** A file in which git conflicts, and the steps by which relay joins it. */
export interface JoinedFile {
  path: string;
  by: string[];
  /** The steps in words. */
  how: string;
}

export interface WorktreeDiff {
  agent: string;
  branch: string;
  base: string;
  /** A sentence, while a merge into the branch is under way; else empty, or not told. */
  under_way?: string;
  diff: string;
  files: { path: string; change: string; insertions: number; deletions: number; binary: boolean }[];
  truncated: boolean;
}

/** Lines of a file that follow each other, and who is behind them (docs/merge.md). */
export interface BlamedLines {
  first: number;
  last: number;
  kind: "agent" | "person" | "merged" | "ai_resolved";
  who: string;
  commit: string;
  at: string;
  subject: string;
}
