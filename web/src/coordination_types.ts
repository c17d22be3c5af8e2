/** The shapes of docs/coordination.md: tasks, locks and sessions. */

import type { Time } from "./basic_types";
import type { Verification } from "./landing/types";
import type { Job } from "./types";

export type TaskStatus = "pending" | "in_progress" | "done";

export interface Task {
  id: string;
  number: number;
  title: string;
  status: TaskStatus;
  badge: "failed" | "blocked" | "dead" | null;
  assignee: string | null;
  created_by: string;
  created_at: Time;
  updated_at: Time;
  priority: number | null;
  task_type?: string;
  /** The whole of it; the title is its first line. */
  description?: string;
  depends_on?: { id: string; number: number }[];
  /** Attempts that are over, of `max_attempts`. */
  attempts?: number;
  max_attempts?: number;
  lease_until?: Time;
  /** A second attempt is not made before this. */
  not_before?: Time;
  error_message?: string | null;
  /** Why it stands where it stands. */
  note?: string | null;
  /** What it will touch; a session's claim locks it. */
  files?: string[];
  /** What stands below its title, Markdown. */
  body?: string;
  /** The messages by which people gave it to agents, the last behind. */
  given?: { message: string; number: number; agent: string }[];
  /** The address of the issue that it was imported from. */
  source?: string | null;
  /** The commit with which the work for it came into the main branch. */
  landed?: string | null;
  /** It is in its agent's branch, and not in the main branch. */
  in_branch?: boolean;
}

/** What a task led to (docs/board.md). */
export interface TaskWork {
  conversation: { id: string; number: number; speaker: string; kind: string; at: Time; text: string; jobs: Job[] }[];
  changes: { message: string; agent: string; at: Time; branch: string; files: number; insertions: number; deletions: number }[];
  branch: {
    agent: string; branch: string | null; ahead: number; behind: number; files: number; insertions: number; deletions: number;
    changed: { path: string; change: string; insertions: number; deletions: number }[];
  } | null;
  verifications: Verification[];
  /** Of the turns that have ended; `shared` of them answered other messages too. */
  cost: { turns: number; input: number; cache_write: number; cache_read: number; output: number; usd: number; unpriced: number; shared: number; seconds: number };
}

/** What is changed of a task. */
export interface TaskPatch {
  status?: TaskStatus;
  title?: string;
  description?: string;
  priority?: number;
  files?: string[];
  depends_on?: number[];
}

/** What an import did. */
export interface Imported {
  reason: string;
  made: number[];
  updated: number[];
  unchanged: number[];
  kept: number[];
  refused: { entry: string | number; reason: string }[];
  /** The command that takes it back, where it changed the board. */
  undo?: string;
}

/** The whole of a task: GET /api/tasks/NUMBER. */
export interface TaskDetail extends Task {
  input_data: unknown;
  result: unknown;
  history: { id: string; at: string; by: string | null; change: string; to: string | null; status: string; note: string | null }[];
  /** The history begins later than the task. */
  more: boolean;
  work: TaskWork;
}

/** A lock that somebody holds (docs/coordination.md). */
export interface Lock {
  file_path: string;
  locked_by: string;
  session: string;
  mode: "exclusive" | "shared";
  fencing_token: number;
  reason: string | null;
  acquired_at: Time;
  expires_at: Time;
  kind: "path" | "glob" | "key";
  /** Who stands in line for it, in order. */
  waiting?: { agent: string; session: string; since: Time; until: Time }[];
}

export interface Attached {
  program: string;
  person: string;
  state: "working" | "waiting" | "idle" | "gone";
  since: Time;
  branch: string;
  checkout: string;
  tool: string;
  paths: string[];
}

export interface Session {
  session_id: string;
  agent_id: string;
  agent_type: string;
  kind: "process" | "given";
  alive: boolean;
  started_at: Time;
  heartbeat_at: Time;
  lease_until: Time;
  ended_at: Time;
  end_reason?: string | null;
  /** How many tasks it has claimed, or which. */
  claims?: number | unknown[];
  /** A person's own session, which its program's hooks tell of (docs/attach.md); null = it is none. */
  attached?: Attached | null;
}

export interface Held {
  locks: Lock[];
  sessions: Session[];
  /** The room's clock when it was read. */
  now: Time;
}
