/** What the room says of its timeline, as JSON (docs/timeline.md). */

/** Columns: a value an event; `lane`, `who`, `type`, `file`, `word`, `change` are places in the lists below them, -1 = none. */
export interface Heads {
  number: number[];
  /** Milliseconds after `start`. */
  at: number[];
  lane: number[];
  who: number[];
  type: number[];
  files: number[];
  file: number[];
  /** What it did, in words. */
  word: number[];
  /** What was done to a worktree. */
  change: number[];
  unseen: number[];
  tree: number[];
  /** The room that recorded it, a place in `replicas`; -1 = this one. */
  replica: number[];
  causes: number[][];
  /** Unix milliseconds. */
  start: number;
  lanes: string[];
  names: string[];
  types: string[];
  paths: string[];
  words: string[];
  changes: string[];
  replicas: string[];
  more: boolean;
}

export interface EventHead {
  number: number;
  id: string;
  type: string;
  lane: string;
  seq: number;
  at: string;
  role: string | null;
  branch: string | null;
  snapshot: string | null;
  files: string[];
  /** The room that recorded it; null = this one. */
  replica: string | null;
}

export interface TouchValue {
  path: string;
  before: string | null;
  after: string | null;
  kind: "write" | "delete" | "rename" | "mode";
  from?: string;
}

export interface WholeEvent extends EventHead {
  inputs: Record<string, unknown> | null;
  outputs: ({ touches?: TouchValue[]; source?: string; worktree?: string } & Record<string, unknown>) | null;
  knew: { seen: EventHead[]; unseen: { path: string; event: string }[] };
}

export type RewindAction = "restored" | "deleted" | "merged" | "kept" | "conflict";

/** The answer of a rewind, an undo and a redo; of a preview `rewind` is null. */
export interface Rewound {
  success: boolean;
  rewind: string | null;
  event?: string;
  lane: string;
  to: string;
  removed: string[];
  files: { path: string; before: string | null; after: string | null; action: RewindAction }[];
  invalidated: { event: string; lane: string; read: string; wrote: string }[];
  left?: string[];
  conflicts: string[];
  branch: string | null;
  undo_with: string;
  /** Of an undo for which there is no place any more: why. */
  skipped?: string;
}

/** A rewind that stands: of `events`, by their numbers, it left nothing where it wrote (`into`). */
export interface StandingRewind {
  number: number;
  event: string;
  lane: string;
  by: string;
  into: "worktree" | "main" | "branch";
  branch: string | null;
  events: number[];
}

/** What is taken back now. `undo`, `redo`: the ids of the events that these act on. */
export interface TakenBack {
  rewinds: StandingRewind[];
  undo: string | null;
  redo: string | null;
}

export type HandoffAnswer = "retry" | "skip" | "branch" | "escalate";
/** A handoff that is not through. `answers`: what the room takes of people now. */
export interface OpenHandoff {
  number: number;
  name: string;
  state: string;
  source: string;
  target: string;
  event: string | null;
  answers: HandoffAnswer[];
}

export interface MomentOf {
  words: string;
  number: number;
  event: string | null;
}

/** Who wrote what stands there last; null where the log does not know it. */
interface Written {
  by: string | null;
  event: string | null;
  number: number | null;
  at: string | null;
}

export interface TreeEntry extends Written {
  path: string;
  kind: "file" | "folder" | "link" | "submodule";
  mode: string;
  blob: string;
  size: number | null;
}

export interface TreeView {
  moment: MomentOf;
  lane: string | null;
  tree: string;
  path: string;
  entries: TreeEntry[];
}

export interface FileView extends Written {
  moment: MomentOf;
  path: string;
  kind: string;
  mode: string;
  blob: string;
  size: number;
  binary: boolean;
  cut: boolean;
  text: string | null;
}

export interface MomentDiff {
  a: MomentOf & { tree: string };
  b: MomentOf & { tree: string };
  /** `patch`: git's text; null of one that is too long to show. */
  files: { path: string; kind: string; before: string | null; after: string | null; patch: string | null; from?: string }[];
}

export interface Checkpoint {
  name: string;
  number: number;
  event: string;
  lane: string;
  at: string;
  tree: string;
  kind: string;
}
