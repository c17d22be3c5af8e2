/** The shapes of docs/http.md. Cursors are opaque: they are stored and given back, never compared. */

import type { WorktreeRuns } from "./worktree_types";
import type { Advisory, AirspaceState, Choice } from "./airspace_types";
import type { Level, Time } from "./basic_types";
import type { Lock, Session, Task } from "./coordination_types";

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

/** A message that an agent heard while it worked, and after which tool. */
export interface Heard {
  message: string;
  number: number | null;
  speaker: string;
  after: string;
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
  /** The permission request that it is about, by its id; where it says that somebody asks, its name for people. */
  permission?: string;
  request?: string;
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
  /** The people that it is for, where it names no agent: none is asked. */
  told?: string[];
  /** Its agents hear it while they work. */
  steer?: true;
  /** What its agent was told while it worked. */
  heard?: Heard[];
  /** What the answer changed in the agent's worktree. */
  worktree?: { branch: string; files: number; insertions: number; deletions: number; beside?: string[] };
  /** The advisory that this entry speaks of: it, or its id. */
  advisory?: Partial<Advisory> | string;
  /** The level that an advisory's entry says. */
  level?: Level;
  /** What a person can decide about it. */
  actions?: Choice[];
  /** Its author changed what it says: when, and by which entries. */
  edited?: { at: string; by_entries: number[] };
  /** Its author deleted it. */
  deleted?: { at: string; by_entry: number };
  /** The room's word that a message was changed or deleted. */
  edits?: { message: string; number: number; deleted?: true };
}

export interface Entry {
  id: string;
  number: number;
  ts: string;
  speaker: string;
  kind: Kind;
  body: string;
  in_reply_to: string | null;
  /** The entry that began the thread that it is in. */
  thread?: string | null;
  /** How many entries are in the thread that it began; only where the page read it. */
  replies?: number;
  to: string[];
  job: number | null;
  meta: Meta;
  cursor: string;
}

/** Code as it stood when a message was written. */
export interface CodeThen {
  path: string;
  message: string;
  /** An agent's name, or `main`. */
  of: string;
  branch: string | null;
  commit: string | null;
  uncommitted: boolean | null;
  first: number | null;
  last: number | null;
  start: number;
  total: number;
  lines: string[];
  cut: boolean;
}

/** An entry that is kept on top of the room. */
export interface Pin extends Entry {
  pinned_by: string;
}

export interface Hit extends Entry {
  snippet: string;
}

export type JobState = "pending" | "active" | "done" | "failed" | "skipped" | "dead";

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
  /** What it is about, in short; only what was read has it, not what was told. */
  asked?: { number: number; by: string; text: string } | null;
  /** The number of the job that this one was taken together with. */
  folded_into: number | null;
  /** When its agent heard it in the middle of a turn, and after which tool ("" = none); null = with a turn's prompt. */
  heard_at?: Time;
  heard_after?: string | null;
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
  /** It is not installed since its own file has a fault: `detail` says which. */
  broken?: boolean;
  detail: string;
  fix: string;
  version: string;
  /** One line on what it is for. */
  about?: string;
  /** How it hears what is said while it works. */
  limits?: { window: string; used_percent: number; resets_at: string | null }[];
  channel?: { name: string; hears: "boundary" | "next"; why: string };
  breaker: { state: "closed" | "open" | "half_open"; failures: number; threshold: number; retry_at: Time };
  parked_until: Time;
  /** `asked`: who asked, and how it begins; `tool`: its last one. */
  running: { job: number; message_id: string; since: Time; asked?: { by: string; text: string }; tool?: string } | null;
  /** What a person asked for that it worked on last, until then. */
  last?: { message_id: string; number: number; at: Time; asked: { by: string; text: string } } | null;
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

/** Of the whole board: how many tasks are to be done, and the highest number that it shows. */
export interface BoardCounts {
  open: number;
  last: number;
}

export interface RoomState {
  room: { name: string; version: string; started_at: Time; cursor: string; repo: string | null };
  /** Commands of a shell as they work on the room's machine. */
  shell?: { start: string; install: string; import?: string; policies?: string };
  agents: Agent[];
  /** Those that somebody has. */
  tasks: Task[];
  board: BoardCounts;
  locks?: Lock[];
  sessions?: Session[];
  /** The room's clock when it was read. */
  now?: Time;
  people: string[];
  people_at?: Record<string, string>;
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

export interface PermissionRequest {
  id: string;
  agent: string;
  title: string;
  tool: string;
  /** What it would run, or says of itself; "": it does not tell. */
  command?: string;
  paths: string[];
  options: { id: string; name: string; kind: string }[];
  asked_at: Time;
  deadline_at: Time;
  advisory: Partial<Advisory> | string | null;
}

/** One thing that needs a person (docs/inbox.md). */
export interface NeedAction {
  name: string;
  label: string;
  command: string;
  /** The person's own text that it takes, in words. */
  asks: string | null;
}
export interface Need {
  id: string;
  /** What people type for the id. */
  short?: string;
  kind: string;
  at: string;
  about: string;
  text: string;
  ref: string | null;
  ends_at: string | null;
  /** The tasks that it is the need of now, each with what is said of it. */
  tasks?: { ref: string; says: string }[];
  /** What it is told outside by, once, and not before `tell_at`. */
  news?: string;
  tell_at?: string | null;
  actions: NeedAction[];
}

/** What came behind a message, in short (docs/inbox.md). */
export interface Since {
  messages: number;
  line: string;
  lines: { number: number; speaker: string; text: string }[];
}

/** What a local model makes of what came; each point with the messages that it is from. */
export interface Worded {
  model: string;
  points: { text: string; messages: number[] }[];
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
  | { cursor: string | null; type: "task"; data: { changed: Task[]; gone: string[]; board: BoardCounts } }
  | { cursor: string | null; type: "lock"; data: { change: "acquired" | "refreshed" | "released" | "forced"; lock: Lock; by: string | null } }
  | { cursor: string | null; type: "session"; data: { change: "started" | "ended"; session: Session } }
  | { cursor: string | null; type: "verification" | "approval" | "landing"; data: { change: string; number: number; agent: string | null; state: string | null } }
  | { cursor: string | null; type: "output"; data: { verification: number; policy: string; tail: string } }
  | { cursor: string | null; type: "worktree"; data: WorktreeRuns }
  | { cursor: string | null; type: "stream"; data: StreamPiece }
  | { cursor: string | null; type: "people"; data: { people: string[]; people_at?: Record<string, string> } }
  | { cursor: string | null; type: "dispatcher"; data: DispatcherState }
  | { cursor: string | null; type: "fleet"; data: Fleet }
  | { cursor: string | null; type: "lagging"; data: { dropped: number } };
