/** The shapes of docs/http.md. Cursors are opaque: they are stored and given back, never compared. */

export type Kind = "human" | "agent" | "system" | "dispatcher" | "advisory";

export interface Decision {
  action: string;
  agents: string[];
  reason: string;
  took_ms?: number | null;
  model?: string;
  /** The person who overruled the dispatcher. */
  by?: string;
}

export interface Footer {
  decision?: string;
  owner?: string;
  blockers?: string;
}

export interface Meta {
  unverified?: boolean;
  history?: boolean;
  decision?: Decision;
  /** The id of the message whose cycle answers this one too. */
  folded_into?: string;
  /** The hop limit holds it back until a person says /continue. */
  held?: boolean;
  /** A notice of the room, and what it is about. */
  notice?: string;
  footer?: Footer;
  usage?: { input_tokens?: number; output_tokens?: number; cost_usd?: number };
  tools?: string[];
  error?: unknown;
  command?: unknown;
  truncated?: boolean;
}

export interface Entry {
  id: string;
  number: number;
  ts: string;
  speaker: string;
  kind: Kind;
  body: string;
  in_reply_to: string | null;
  to: string[];
  job: number | null;
  meta: Meta;
  cursor: string;
}

export interface Hit extends Entry {
  snippet: string;
}

export type JobState = "pending" | "active" | "done" | "failed" | "skipped" | "dead";

/** Times are ISO 8601 text or Unix seconds; `instant()` in text/format.ts reads both. */
export type Time = string | number | null;

export interface Job {
  id: number;
  message_id: string;
  agent: string;
  state: JobState;
  attempts: number;
  reason: string | null;
  error_class: string | null;
  created_at: Time;
  not_before: Time;
  started_at: Time;
  ended_at: Time;
  answer_id: string | null;
  /** The number of the job that this one was taken together with. */
  folded_into: number | null;
}

export interface Meter {
  used: number;
  limit: number;
}

export interface Agent {
  name: string;
  kind: string;
  preset: string | null;
  model: string | null;
  effort: string | null;
  enabled: boolean;
  paused: boolean;
  installed: boolean;
  detail: string;
  fix: string;
  version: string;
  breaker: { state: "closed" | "open" | "half_open"; failures: number; threshold: number; retry_at: Time };
  parked_until: Time;
  running: { job: number; message_id: string; since: Time } | null;
  queued: number;
  budget: { turns_per_hour?: Meter | null; tokens?: Meter | null; usd?: Meter | null } | null;
}

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
}

export interface DispatcherState {
  enabled: boolean;
  model: string;
  host: string;
  state: "ok" | "fallback" | "off" | "unknown";
  detail: string;
}

export interface Command {
  name: string;
  usage: string;
  help: string;
}

export interface RoomState {
  room: { name: string; version: string; started_at: Time; cursor: string; repo: string | null };
  agents: Agent[];
  tasks: Task[];
  people: string[];
  dispatcher: DispatcherState;
  storage: { engine: string; path: string };
  tail: { catching_up: boolean; offset: number; size: number };
  commands: Command[];
}

export interface Cycle {
  message_id: string;
  state: "routing" | "routed" | "absorbed" | "clarified" | "folded" | "steward" | "commanded" | "none";
  action?: string | null;
  agents?: string[];
  reason?: string;
  took_ms?: number | null;
  by?: string;
  folded_into?: string | null;
}

export interface StreamPiece {
  job: number;
  agent: string;
  message_id: string;
  text: string;
  offset: number;
  tool?: string;
}

export type Frame =
  | { cursor: string | null; type: "hello"; data: { cursor: string; version: string } }
  | { cursor: string | null; type: "entry"; data: Entry }
  | { cursor: string | null; type: "receipt"; data: Job }
  | { cursor: string | null; type: "cycle"; data: Cycle }
  | { cursor: string | null; type: "agent"; data: Agent }
  | { cursor: string | null; type: "task"; data: { tasks: Task[] } }
  | { cursor: string | null; type: "stream"; data: StreamPiece }
  | { cursor: string | null; type: "people"; data: { people: string[] } }
  | { cursor: string | null; type: "dispatcher"; data: DispatcherState }
  | { cursor: string | null; type: "lagging"; data: { dropped: number } };
