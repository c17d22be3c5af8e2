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
  /** The number of the handoff that it is about. */
  handoff?: number;
  /** The number of the conflict that it is about. */
  conflict?: number;
  /** The number of the exploration that it is about. */
  exploration?: number;
  /** The number of the approval that it asks for. */
  approval?: number;
  /** The number of the verification that it is about. */
  verification?: number;
  /** The type of the event that a notice of what agents did tells of. */
  coordination?: string;
  footer?: Footer;
  /** What an agent answered that it will touch, passed on to the others. */
  intent?: { agent: string; paths: string[] };
  usage?: Usage;
  tools?: string[];
  error?: unknown;
  command?: unknown;
  truncated?: boolean;
  /** What its agent was given of the room's memory with the turn. */
  memories?: { id: string; memory_type: string; reference: string }[];
  /** What the answer changed in the agent's worktree. */
  worktree?: { branch: string; files: number; insertions: number; deletions: number; beside?: string[] };
  /** The advisory that this entry speaks of: it, or its id. */
  advisory?: Partial<Advisory> | string;
  /** The level that an advisory's entry says. */
  level?: Level;
  /** What a person can decide about it. */
  actions?: Choice[];
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

/** `used` is all but `cache_read`. */
export interface TokenMeter extends Meter {
  input: number;
  cache_write: number;
  cache_read: number;
  output: number;
}

/** What an answer cost. The kinds of tokens share nothing. In older entries `input_tokens` is all of the input. */
export interface Usage {
  input_tokens?: number;
  cache_write_tokens?: number;
  cache_read_tokens?: number;
  output_tokens?: number;
  cost_usd?: number;
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
  /** The member of the fleet where it lives, "" = the one whose page this is. */
  member?: string;
  /** That one cannot be reached: why, in words that "since" may follow, and its last sign of life. */
  away?: boolean;
  absence?: string;
  heard_at?: Time;
  budget: { turns_per_hour?: Meter | null; tokens?: TokenMeter | null; usd?: Meter | null } | null;
}

/** A relay that shares the room. Times in Unix seconds, by the database's clock. */
export interface FleetMember {
  name: string;
  state: "live" | "away" | "left";
  leader: boolean;
  host: string;
  folder: string;
  url: string;
  version: string;
  joined_at: number;
  heartbeat_at: number;
  /** The database's clock less its own. */
  clock_offset_s: number;
  agents: string[];
}

export interface Fleet {
  /** The member whose page this is. */
  name: string;
  leader: string;
  members: FleetMember[];
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
}

export interface Held {
  locks: Lock[];
  sessions: Session[];
  /** The room's clock when it was read. */
  now: Time;
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
  /** Commands of a shell as they work on the room's machine. */
  shell?: { start: string; install: string; import?: string; policies?: string };
  agents: Agent[];
  tasks: Task[];
  locks?: Lock[];
  sessions?: Session[];
  /** The room's clock when it was read. */
  now?: Time;
  people: string[];
  dispatcher: DispatcherState;
  fleet?: Fleet;
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

export type Level = "clear" | "advisory" | "resolution";
export type Point = readonly [number, number, number];
/** Line ranges (first, last), both included. */
export type Lines = readonly (readonly [number, number])[];

/** The shapes of docs/airspace.md. */
export interface AirAgent {
  agentId: string;
  kind: "agent" | "person";
  files: { path: string; lines: Lines; weight: number; change?: string; new_path?: string | null }[];
  intent: string[];
  startedAt: Time;
  committed: number | null;
  branch: string | null;
  position: Point | null;
  /** Where it lives, when that is another relay of the room; `away`: that one is not here, and this is what was seen last. */
  member?: string;
  away?: boolean;
}

export interface Evidence {
  text: string;
  path?: string;
  other_path?: string;
  lines?: Lines;
  symbol?: string;
}

export interface Reading {
  risk: number;
  weight: number;
  alone: boolean;
  evidence: (Evidence | string)[];
}

export interface Link {
  a: string;
  b: string;
  risk: number;
  distance: number;
  level: Level;
  /** Clear, and a collision is foretold. */
  ahead?: boolean;
  channels: Record<string, number>;
  readings?: Record<string, Reading>;
}

export interface Advisory {
  id: string;
  agents: string[];
  level: Level;
  risk: number;
  opened_at: Time;
  closed_at: Time;
  files: string[];
  transmit: string[];
  steer: string[];
  hold: string[];
  reason: string;
  evidence: (Evidence | string)[];
  text: string;
  /** Why it is open now; `text` is what was said last. */
  line?: string;
  message_id: string | null;
  answers: Record<string, { intent: string[]; text: string; message_id: string | null; at: Time }>;
  deadline_at: Time;
  /** Whom the room asked, of the agents; absent = all. */
  asked?: string[];
  /** Whom it did not ask, and why. */
  not_asked?: Record<string, string>;
  outcome: boolean | null;
  /** The same with what git could not say: it was averted, or is still open. */
  verdict?: "open" | "true" | "false" | "averted";
  mark: "useful" | "noise" | null;
  steering: "waiting" | "left" | "stayed" | null;
  /** Of its agents, those whose work the main branch does not take now. */
  set_back?: { agent: string; branch: string; paths: string[]; lines: Record<string, [number, number][]> }[];
  /** What a person can decide about it now. */
  actions?: Choice[];
}

/** A decision of a person where agents collide; `command` is the same, to be written in the room. */
export interface Choice {
  name: "first" | "stop" | "update";
  agent: string;
  label: string;
  command: string;
}

/** Counts of resolution advisories whose branches did, did not, or may still conflict; `averted` = steered away before. */
/** How many came true, of one kind. */
export interface Counted {
  true: number;
  false: number;
  open: number;
  averted?: number;
  useful?: number;
  noise?: number;
}

export interface Precision extends Counted {
  /** Of those that never were more than traffic. */
  traffic?: Counted;
  /** Of what was foretold: drawn, or told at an edit. */
  lookahead?: Counted;
}

export interface AirspaceState {
  profile: string;
  enabled: boolean;
  thresholds: { traffic: number; resolution: number; slack: number };
  agents: AirAgent[];
  links: Link[];
  advisories: Advisory[];
  positions: Record<string, Point>;
  /** All files when it was read; in a frame those that somebody works on, or left out = as before. */
  fileCoordinates?: Record<string, Point>;
  counts: { agents: number; pairs: number; clear: number; advisory: number; resolution: number; files: number };
  /** Pairs that nobody knows of across files as they stand; `why` that could not be done, null = not yet. */
  unchecked?: { a: string; b: string; why: string | null }[];
  graph: { files: number; edges: number; failed: string[]; building: boolean };
  precision: Precision;
  at: Time;
}

export interface Sample {
  at: Time;
  positions: Record<string, Point>;
  links: { a: string; b: string; risk: number; level: Level; ahead?: boolean }[];
  advisories: string[];
}

export interface PermissionRequest {
  id: string;
  agent: string;
  title: string;
  tool: string;
  paths: string[];
  options: { id: string; name: string; kind: string }[];
  asked_at: Time;
  deadline_at: Time;
  advisory: Partial<Advisory> | string | null;
}

export type Frame =
  | { cursor: string | null; type: "airspace"; data: AirspaceState }
  | { cursor: string | null; type: "advisory"; data: Advisory }
  | { cursor: string | null; type: "permission"; data: object }
  | { cursor: string | null; type: "hello"; data: { cursor: string; version: string } }
  | { cursor: string | null; type: "entry"; data: Entry }
  | { cursor: string | null; type: "receipt"; data: Job }
  | { cursor: string | null; type: "cycle"; data: Cycle }
  | { cursor: string | null; type: "agent"; data: Agent }
  | { cursor: string | null; type: "task"; data: { changed: Task[]; gone: string[] } }
  | { cursor: string | null; type: "lock"; data: { change: "acquired" | "refreshed" | "released" | "forced"; lock: Lock; by: string | null } }
  | { cursor: string | null; type: "session"; data: { change: "started" | "ended"; session: Session } }
  | { cursor: string | null; type: "verification" | "approval" | "landing"; data: { change: string; number: number; agent: string | null; state: string | null } }
  | { cursor: string | null; type: "output"; data: { verification: number; policy: string; tail: string } }
  | { cursor: string | null; type: "stream"; data: StreamPiece }
  | { cursor: string | null; type: "people"; data: { people: string[] } }
  | { cursor: string | null; type: "dispatcher"; data: DispatcherState }
  | { cursor: string | null; type: "fleet"; data: Fleet }
  | { cursor: string | null; type: "lagging"; data: { dropped: number } };
