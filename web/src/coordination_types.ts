/** The shapes of docs/coordination.md: tasks, locks and sessions. */

import type { Time } from "./basic_types";

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
  /** What a claim locks with it. */
  files?: string[];
}

/** The whole of a task: GET /api/tasks/NUMBER. */
export interface TaskDetail extends Task {
  input_data: unknown;
  result: unknown;
  history: { id: string; at: string; by: string | null; change: string; status: string; note: string | null }[];
  /** The history begins later than the task. */
  more: boolean;
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
