/** The shapes of docs/airspace.md. */

import type { Level, Lines, Point, Time } from "./basic_types";

export interface AirAgent {
  agentId: string;
  kind: "agent" | "person";
  files: { path: string; lines: Lines; weight: number; change?: string; new_path?: string | null }[];
  intent: string[];
  startedAt: Time;
  committed: number | null;
  branch: string | null;
  /** Another one when any file of its checkout is. */
  tree?: string | null;
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
  set_back?: { agent: string; branch: string; said: string; needless?: boolean; paths: string[]; lines: Record<string, [number, number][]> }[];
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
