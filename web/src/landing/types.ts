/** The shapes of verifications, approvals and the landing queue (docs/verification.md). What is null is not known. */

import type { Standing, Worktree } from "../worktree_types";

export type State = "queued" | "running" | "waiting" | "passed" | "failed" | "error" | "not_tested" | "cancelled";

export type Outcome = "queued" | "running" | "waiting" | "passed" | "failed" | "timed_out" | "error" | "cancelled";

/** One attempt of one policy. */
export interface Result {
  policy: string;
  attempt: number;
  tier: number;
  executor: string;
  state: Outcome;
  reason: string;
  exit_code: number | null;
  seconds: number;
  output_bytes: number;
  /** It failed, and passed when it was run again. */
  flaky: boolean;
  /** null: no program of ours ran. */
  sandboxed: boolean | null;
  /** `v3`: it was run there, on the same files. */
  reused: string | null;
  url: string | null;
  began: string | null;
  ended: string | null;
  /** What was printed; of one that runs, the last of it. Only where one verification is read. */
  output?: string;
}

export interface Verification {
  number: number;
  reference: string;
  state: State;
  tier: number | null;
  /** The policy whose tier is the highest. */
  decides: string | null;
  reason: string;
  source: string;
  agent: string;
  asker: string;
  branch: string;
  commit: string | null;
  base: string | null;
  tree: string | null;
  files: string[] | null;
  summary: string;
  /** The id of a task. */
  task: string | null;
  /** `job`: of a turn, whose answer it is; `part`: of the landing queue, with the `agents` that are tested together. */
  about: { job?: number; task?: string; part?: "entry" | "batch" | "join"; agents?: string[]; entries?: number[] };
  at: string;
  began: string | null;
  ended: string | null;
  results: Result[];
}

export interface WholeVerification extends Verification {
  approvals: Approval[];
}

export interface Approval {
  number: number;
  reference: string;
  verification: string;
  policies: string[];
  files: string[];
  state: "waiting" | "approved" | "rejected" | "expired" | "withdrawn";
  asker: string;
  agent: string;
  at: string;
  expires: string;
  decided_by: string | null;
  decided_at: string | null;
  reason: string;
}

/** With what is to be approved. */
export interface Asked extends Approval {
  change: Verification;
}

export type EntryState = "asked" | "waiting" | "testing" | "landed" | "put_out" | "cancelled";

/** A branch in the landing queue. */
export interface Entry {
  number: number;
  agent: string;
  asker: string;
  state: EntryState;
  branch: string;
  at_commit: string | null;
  policies: string[];
  /** The paths that it changes; only in the queue. */
  files?: string[] | null;
  /** What it waits for. */
  note: string;
  /** The test that it is in, or was in last. */
  verification: string | null;
  /** That test, while it runs. */
  testing?: Verification;
  /** What a person is asked of it. */
  approvals?: Approval[];
  task: string | null;
  /** Its merge on the main branch. */
  commit: string | null;
  /** Of one that landed: who took its merge back. */
  taken_back?: { by: string; at: string | null } | null;
  /** Of one that landed: did its test pass, and by what was it tested? */
  tested?: boolean;
  approved?: { reference: string; decided_by: string | null; policies: string[] }[];
  results?: Result[];
  reason: string;
  output: string;
  at: string;
  began: string | null;
  ended: string | null;
}

export interface Landing {
  queue: Entry[];
  ended: Entry[];
  /** Whose work the queue took out, and that is still to land. */
  put_out?: string[];
  /** While the main branch fails its tests. `need`: its id in the inbox, where somebody may have put it off. */
  main_fails?: { need: string; reference: string; reason: string; branch: string } | null;
  /** Agents' branches land by the queue only. */
  required: boolean;
  /** How many are tested together at most. */
  batch: number;
  policies: number;
  merge_test: boolean;
  /** Why the policies cannot be used. */
  trouble: string;
}

/** What would be put into the queue for an agent. */
export interface Planned {
  agent: string;
  /** The other member of the fleet where its worktree is. */
  member?: string | null;
  branch: string;
  merges: string | null;
  collides: { agent: string; paths: string[] }[];
  undoes?: Worktree["undoes"];
  /** How the branch stands: of several, those that are ready are chosen. */
  stands?: Standing | null;
  files: string[];
  policies: string[];
  needs_approval: boolean;
  /** Why it would not land; empty = it may. */
  why: string;
}

export interface Difference {
  diff: string;
  truncated: boolean;
}
