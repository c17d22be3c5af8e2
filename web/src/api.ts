/** One place where the page speaks HTTP. A refusal of any kind is thrown as `ApiError` with what to do. */

import { computed, signal } from "@preact/signals";
import { personName } from "./state/prefs";
import type { Advisory, AirspaceState, Choice, Precision, Sample } from "./airspace_types";
import type { Held, Task, TaskDetail } from "./coordination_types";
import type { Agent, Entry, Hit, Job, PermissionRequest, RoomState } from "./types";
import type { Checkpoint, FileView, HandoffAnswer, Heads, MomentDiff, OpenHandoff, Rewound, TakenBack, TreeView, WholeEvent } from "./timeline_types";
import type { Conflict, PlacedConflict } from "./conflicts/types";
import type { Exploration, VariantDiff } from "./explore/types";
import type { Asked, Difference, Landing, Planned, Verification, WholeVerification } from "./landing/types";
import type { Found, GivenMemory, Knowledge, Source } from "./memory/types";
import type { Metrics } from "./metrics/types";
import type { BlamedLines, MergeMethod, MergeProposal, WorktreeDiff, Worktrees } from "./worktree_types";

export class ApiError extends Error {
  constructor(
    /** HTTP status; 0 = the daemon was not reached; 200 = the domain said no. */
    readonly status: number,
    readonly code: string,
    message: string,
    readonly fix: string = "",
  ) {
    super(message);
  }

  /** The relay that answers has no connection to the room's database. */
  get cutOff(): boolean {
    return this.code === "cut_off";
  }

  /** True when the same request may well succeed later. */
  get passing(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

/** What prints a sign-in link on the room's machine: as the room itself says it, once it has. Until then it is the bare
 * command, as no place of that machine is told without a key (see `linkPlaced`). */
export const linkCommand = signal("relay link");
/** The room has said the command: it works as it stands. */
export const linkPlaced = computed(() => linkCommand.value !== "relay link");

/** The command for a link within what the room says to do; to a stranger it names no place (PLACED). */
const LINK = /`[^`]*relay\S* link\b[^`]*`/;
const PLACED = /`(\S*\/relay\S* link\b[^`]*)`/;

/** A refusal in words, for where `linkCommand` is shown beside it: the command is not said twice. */
export function besideLink(error: ApiError): string {
  return [error.message, LINK.test(error.fix) ? "" : error.fix].filter(Boolean).join(" ");
}

let onUnauthorised: () => void = () => {};
let onAnswered: () => void = () => {};

/** Called after each good answer: the room is there. */
export function whenAnswered(callback: () => void): void {
  onAnswered = callback;
}

export function whenUnauthorised(callback: () => void): void {
  onUnauthorised = callback;
}

/** `whole`: an answer without a reason is one also where it says that nothing was done. */
async function call<T>(method: string, path: string, body?: unknown, whole = false): Promise<T> {
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      credentials: "same-origin",
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      // What writes files waits for whoever writes them now.
      signal: AbortSignal.timeout(whole ? 300_000 : 20_000),
    });
  } catch (problem) {
    if (problem instanceof DOMException && problem.name === "TimeoutError") throw new ApiError(0, "slow", "The room did not answer in time.", "It may have done it all the same: look before you try again.");
    throw new ApiError(0, "unreachable", "The room cannot be reached.", "Is the daemon running? `bash scripts/start.sh` in relay's folder starts it.");
  }
  if (response.ok) onAnswered();
  const data = (await response.json().catch(() => null)) as
    | { error?: { code?: string; message?: string; fix?: string }; success?: boolean; reason?: string; fix?: string }
    | null;
  if (!response.ok) {
    const error = data?.error;
    const refusal = new ApiError(
      response.status,
      error?.code ?? String(response.status),
      error?.message ?? `The room answered ${response.status}.`,
      error?.fix ?? "",
    );
    if (response.status === 401) linkCommand.value = PLACED.exec(refusal.fix)?.[1] ?? linkCommand.value;
    if (response.status === 401 && path !== "/api/sign-in") onUnauthorised();
    throw refusal;
  }
  if (data === null) throw new ApiError(response.status, "not_json", "The room's answer could not be read.");
  if (data.success === false && !(whole && data.reason === undefined)) throw new ApiError(200, "refused", data.reason ?? "The room refused.", data.fix ?? "");
  return data as T;
}

const quote = encodeURIComponent;

function query(values: Record<string, string | number | undefined | null>): string {
  const pairs = Object.entries(values).filter(([, v]) => v !== undefined && v !== null && v !== "");
  return pairs.length ? `?${pairs.map(([k, v]) => `${k}=${quote(String(v))}`).join("&")}` : "";
}

/** What every act says: who does it. The room shows it, and refuses a name that is not the credential's to use. */
const signed = <T extends object>(body: T): T & { name?: string } => ({ ...body, name: personName.value || undefined });

/** Cursors may come as numbers from a store; the page keeps them as the opaque text they are. */
function entry<T extends Entry>(raw: T): T {
  return { ...raw, cursor: String(raw.cursor), to: raw.to ?? [], meta: raw.meta ?? {} };
}

export interface Page {
  entries: Entry[];
  next: string | null;
  /** Older ones exist (for `before` and `around`). */
  more: boolean;
  /** Newer ones exist (for `around`). */
  moreAfter: boolean;
}

async function page(values: Record<string, string | number | undefined>): Promise<Page> {
  const raw = await call<{ entries: Entry[]; next?: string | number | null; more?: boolean; more_after?: boolean }>(
    "GET",
    `/api/transcript${query(values)}`,
  );
  const limit = Number(values.limit ?? 100);
  return {
    entries: raw.entries.map(entry),
    next: raw.next === null || raw.next === undefined ? null : String(raw.next),
    more: raw.more ?? raw.entries.length >= limit,
    moreAfter: raw.more_after ?? false,
  };
}

export const api = {
  signIn: (secret: { link: string } | { key: string }) => call<{ ok: boolean }>("POST", "/api/sign-in", secret),
  signOut: () => call<{ ok?: boolean }>("POST", "/api/sign-out", {}),
  state: () => call<RoomState>("GET", "/api/state"),
  newest: (limit: number) => page({ limit }),
  before: (cursor: string, limit: number) => page({ before: cursor, limit }),
  after: (cursor: string, limit: number) => page({ after: cursor, limit }),
  around: (idOrNumber: string, limit: number) => page({ around: idOrNumber, limit }),
  search: async (q: string, limit: number) =>
    (await call<{ entries: Hit[] }>("GET", `/api/search${query({ q, limit })}`)).entries.map(entry),
  queue: async (limit: number, state = "") =>
    (await call<{ jobs: Job[] }>("GET", `/api/queue${query({ state, limit })}`)).jobs,
  /** The jobs of these messages. */
  jobsOf: async (messages: string[]) =>
    (await call<{ jobs: Job[] }>("GET", `/api/queue${query({ messages: messages.join(","), limit: 1000 })}`)).jobs,
  log: async (agent: string, limit: number) =>
    (await call<{ lines: { ts: string; text: string }[] }>("GET", `/api/agents/${quote(agent)}/log${query({ limit })}`)).lines,
  why: async (event: string) =>
    (await call<{ chain: { id: string; type: string; lane: string; at: string; summary: string }[] }>(
      "GET",
      `/api/events/${quote(event)}/why`,
    )).chain,
  post: (message: { body: string; name?: string; in_reply_to?: string; client_id: string }) =>
    call<{ id: string; cursor: string; number: number }>("POST", "/api/messages", message),
  route: (message: string, agents: string[]) =>
    call<object>("POST", `/api/messages/${quote(message)}/route`, signed({ agents })),
  retry: (job: number) => call<{ reason?: string }>("POST", `/api/queue/${job}/retry`, signed({})),
  agentDo: (agent: string, action: "pause" | "resume" | "cancel" | "try") =>
    call<{ reason?: string }>("POST", `/api/agents/${quote(agent)}/${action}`, signed({})),
  agentSet: (agent: string, patch: Partial<Pick<Agent, "model" | "effort" | "enabled">>) =>
    call<object>("PATCH", `/api/agents/${quote(agent)}`, signed(patch)),
  addTask: (title: string) => call<{ task: Task }>("POST", "/api/tasks", signed({ title })),
  setTask: (number: number, patch: Partial<Pick<Task, "status" | "title">>) =>
    call<object>("PATCH", `/api/tasks/${number}`, signed(patch)),
  /** The tasks that somebody works on. */
  claimed: async () => (await call<{ tasks: Task[] }>("GET", "/api/tasks?status=in_progress")).tasks,
  task: async (number: number) => (await call<{ task: TaskDetail }>("GET", `/api/tasks/${number}`)).task,
  held: () => call<Held>("GET", "/api/locks"),
  unlock: (path: string, reason: string) =>
    call<{ reason?: string }>("POST", "/api/locks/release", signed({ path, reason })),
  airspace: (files: "all" | "touched") => call<AirspaceState>("GET", `/api/airspace${query({ files })}`),
  /** Times as ISO 8601. */
  airspaceHistory: async (from: string, to: string) =>
    (await call<{ samples: Sample[] }>("GET", `/api/airspace/history${query({ from, to })}`)).samples,
  advisories: (limit: number) =>
    call<{ advisories: Advisory[]; precision: Precision }>("GET", `/api/airspace/advisories${query({ limit })}`),
  markAdvisory: (id: string, mark: Advisory["mark"]) =>
    call<Advisory>("POST", `/api/airspace/advisories/${quote(id)}/mark`, signed({ mark })),
  /** Who goes first, who stops, who merges the main branch. */
  decideWho: (action: Choice["name"], agent: string) =>
    call<{ success: boolean; reason: string }>("POST", "/api/airspace/decide", signed({ action, agent })),
  worktrees: () => call<Worktrees>("GET", "/api/worktrees"),
  worktreeDiff: (agent: string) => call<WorktreeDiff>("GET", `/api/worktrees/${quote(agent)}/diff`),
  mergeProposal: (agent: string, method: MergeMethod) =>
    call<MergeProposal>("GET", `/api/worktrees/${quote(agent)}/merge${query({ method, ...signed({}) })}`),
  merge: (agent: string, choice: { method: MergeMethod; message: string; head: string; joined: string; untested?: boolean }) =>
    call<{ reason?: string; commit?: string | null }>("POST", `/api/worktrees/${quote(agent)}/merge`, signed(choice)),
  discard: (agent: string) =>
    call<{ reason?: string; kept: string }>("POST", `/api/worktrees/${quote(agent)}/discard`, signed({})),
  abortMerge: (agent: string) =>
    call<{ reason?: string }>("POST", `/api/worktrees/${quote(agent)}/abort`, signed({})),
  restore: (agent: string, kept: string) =>
    call<{ reason?: string }>("POST", `/api/worktrees/${quote(agent)}/restore`, signed({ kept })),
  timelineHeads: (wanted: { after?: number; before?: number; path?: string; limit: number }) =>
    call<Heads>("GET", `/api/timeline/heads${query(wanted)}`),
  timelineEvent: (event: string | number) => call<WholeEvent>("GET", `/api/timeline/events/${quote(String(event))}`),
  /** Moments as the room names them; `lane`: whose files, "" = those of the moment itself. */
  timelineTree: (at: string, lane: string, path: string) => call<TreeView>("GET", `/api/timeline/tree${query({ at, lane, path })}`),
  timelineFile: (at: string, lane: string, path: string) => call<FileView>("GET", `/api/timeline/file${query({ at, lane, path })}`),
  blame: (path: string, at: string) => call<{ lines: BlamedLines[] }>("GET", `/api/blame${query({ path, at })}`),
  timelineDiff: (a: string, b: string, lane = "", path = "") => call<MomentDiff>("GET", `/api/timeline/diff${query({ a, b, lane, path })}`),
  takenBack: () => call<TakenBack>("GET", "/api/timeline/rewinds"),
  handoffs: async () => (await call<{ handoffs: OpenHandoff[] }>("GET", "/api/handoffs")).handoffs,
  /** `value`: the reason of a skip, the name of a branch. */
  answerHandoff: (number: number, answer: HandoffAnswer, value = "") =>
    call<{ reason?: string }>("POST", `/api/handoffs/h${number}`, signed({ answer, value })),
  explorations: async () => (await call<{ explorations: Exploration[] }>("GET", "/api/explorations")).explorations,
  /** `against`: another variant, "" = what all began with. */
  variantDiff: (number: number, variant: string, against: string) =>
    call<VariantDiff>("GET", `/api/explorations/x${number}/diff${query({ variant, against })}`),
  /** `files`: single files of other variants, as `PATH=VARIANT`. */
  takeVariant: (number: number, variant: string, files: readonly string[]) =>
    call<{ reason?: string }>("POST", `/api/explorations/x${number}`, signed({ answer: "take", variant, files })),
  endExploration: (number: number) => call<{ reason?: string }>("POST", `/api/explorations/x${number}`, signed({ answer: "end" })),
  conflicts: (limit: number) => call<Conflict[]>("GET", `/api/conflicts${query({ limit })}`),
  conflict: (number: number) => call<PlacedConflict>("GET", `/api/conflicts/c${number}`),
  /** `text`: what is to stand there, with choice 4. It waits for git. */
  resolve: (number: number, choice: number, text?: string) =>
    call<{ reason?: string }>("POST", `/api/conflicts/c${number}`, signed({ choice, text })),
  checkpoints: async () => (await call<{ checkpoints: Checkpoint[] }>("GET", "/api/timeline/checkpoints")).checkpoints,
  /** `lane`: whose files; null = the main branch's. */
  makeCheckpoint: (checkpoint: string, lane: string | null) => call<object>("POST", "/api/timeline/checkpoint", signed({ checkpoint, lane })),
  /** `into`: null = where it stands. With conflicts nothing is written, unless `partial`. */
  rewind: (wanted: { lane: string; to: string; into: string | null; dry_run: boolean; partial?: boolean }) =>
    call<Rewound>("POST", "/api/timeline/rewind", signed(wanted), true),
  undoRewind: (what: "undo" | "redo", wanted: { dry_run: boolean; partial?: boolean }) =>
    call<Rewound>("POST", `/api/timeline/${what}`, signed(wanted), true),
  permissions: async () => (await call<{ requests: PermissionRequest[] }>("GET", "/api/permissions")).requests,
  decide: (request: string, option: string) =>
    call<{ reason?: string }>("POST", `/api/permissions/${quote(request)}`, signed({ option })),
  memory: (wanted: { q: string; agent: string; kind: string; tag: string; since: string; limit: number }) =>
    call<Found>("GET", `/api/memory${query(signed(wanted))}`),
  /** Where what was made of an event comes from. */
  memorySource: async (event: string) => (await call<{ source: Source }>("GET", `/api/memory/source/${quote(event)}`)).source,
  /** `name`: `r14`, or the id of an entry of the knowledge. */
  forgetMemory: (name: string) => call<{ reason?: string }>("POST", `/api/memory/${name}/forget`, signed({})),
  judgeMemory: (memory_id: string, useful: boolean) => call<{ useful: number; useless: number }>("POST", "/memory/feedback", signed({ memory_id, useful })),
  givenMemories: async (message: string) => (await call<{ memories: GivenMemory[] }>("GET", `/api/messages/${quote(message)}/memories${query(signed({}))}`)).memories,
  knowledge: (wanted: { about?: string; agent?: string; kind?: string; near?: string; limit: number }) =>
    call<Knowledge>("GET", `/knowledge${query(signed(wanted))}`),
  metrics: (days: number | null) => call<Metrics>("GET", `/api/metrics${query({ days })}`),
  verifications: async (wanted: { task?: string; numbers?: string; limit?: number }) =>
    (await call<{ verifications: Verification[] }>("GET", `/api/verifications${query(wanted)}`)).verifications,
  verification: (number: number) => call<WholeVerification>("GET", `/api/verifications/${number}`),
  verificationDiff: (number: number) => call<Difference>("GET", `/api/verifications/${number}/diff`),
  verifyAgain: (number: number) => call<{ reason?: string }>("POST", `/api/verifications/${number}`, signed({})),
  verifyWork: (agent: string) => call<{ reason?: string }>("POST", "/api/verifications", signed({ agent })),
  approvals: async () => (await call<{ approvals: Asked[] }>("GET", "/api/approvals")).approvals,
  decideApproval: (number: number, answer: "approve" | "reject", reason = "") =>
    call<{ reason?: string }>("POST", `/api/approvals/${number}`, signed({ answer, reason: reason || undefined })),
  landing: () => call<Landing>("GET", "/api/landing"),
  landingPlan: async (agents: readonly string[]) => (await call<{ plan: Planned[] }>("GET", `/api/landing/plan${query({ agents: agents.join(",") })}`)).plan,
  landingDiff: (entry: number) => call<Difference>("GET", `/api/landing/${entry}/diff`),
  land: (agents: readonly string[]) => call<{ reason?: string }>("POST", "/api/landing", signed({ agents })),
  takeFromQueue: (agent: string) => call<{ reason?: string }>("POST", `/api/landing/${quote(agent)}/cancel`, signed({})),
  requireLanding: (required: boolean) => call<object>("PATCH", "/api/landing", signed({ required })),
  undoTasks: () => call<object>("POST", "/api/tasks/undo", signed({})),
};
