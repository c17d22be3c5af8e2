/** One place where the page speaks HTTP. A refusal of any kind is thrown as `ApiError` with what to do. */

import { computed, signal } from "@preact/signals";
import { personName } from "./state/prefs";
import type { Usage } from "./text/usage";
import type { Advisory, AirspaceState, Precision } from "./airspace_types";
import type { Held, Task } from "./coordination_types";
import type { Entry, Job, Need, PermissionRequest, Pin, RoomState } from "./types";
import type { OpenHandoff } from "./timeline_types";
import type { Conflict } from "./conflicts/types";
import type { Exploration } from "./explore/types";
import type { Asked, Landing, Verification, WholeVerification } from "./landing/types";
import type { GivenMemory } from "./memory/types";
import type { Worktrees } from "./worktree_types";

let starting = "`bash scripts/start.sh` in relay's folder";
/** The command that starts this very room, once it has said so. */
export function knowStart(command: string): void {
  starting = `\`${command}\``;
}

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
export async function call<T>(method: string, path: string, body?: unknown, whole = false): Promise<T> {
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      credentials: "same-origin",
      headers: body === undefined ? {} : { "Content-Type": body instanceof Blob ? "application/octet-stream" : "application/json" },
      body: body === undefined || body instanceof Blob ? body : JSON.stringify(body),
      // What writes files waits for whoever writes them now.
      signal: AbortSignal.timeout(whole ? 300_000 : 20_000),
    });
  } catch (problem) {
    if (problem instanceof DOMException && problem.name === "TimeoutError") throw new ApiError(0, "slow", "The room did not answer in time.", "It may have done it all the same: look before you try again.");
    throw new ApiError(0, "unreachable", "The room cannot be reached.", `Is the daemon running? ${starting} starts it.`);
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

export const quote = encodeURIComponent;

export function query(values: Record<string, string | number | undefined | null>): string {
  const pairs = Object.entries(values).filter(([, v]) => v !== undefined && v !== null && v !== "");
  return pairs.length ? `?${pairs.map(([k, v]) => `${k}=${quote(String(v))}`).join("&")}` : "";
}

/** What every act says: who does it. The room shows it, and refuses a name that is not the credential's to use. */
export const signed = <T extends object>(body: T): T & { name?: string } => ({ ...body, name: personName.value || undefined });

/** Cursors may come as numbers from a store; the page keeps them as the opaque text they are. */
export function entry<T extends Entry>(raw: T): T {
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

export async function page(values: Record<string, string | number | undefined>): Promise<Page> {
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

/** What the room's own view asks; `api_views.ts` has the rest. */
export const api = {
  signIn: (secret: { link: string } | { key: string }) => call<{ ok: boolean }>("POST", "/api/sign-in", secret),
  tasks: async () => (await call<{ tasks: Task[] }>("GET", "/api/tasks")).tasks,
  state: () => call<Omit<RoomState, "commands">>("GET", "/api/state?commands=no&tasks=claimed"),
  commands: async () => (await call<RoomState>("GET", "/api/state")).commands,
  newest: (limit: number) => page({ limit }),
  before: (cursor: string, limit: number) => page({ before: cursor, limit }),
  after: (cursor: string, limit: number) => page({ after: cursor, limit }),
  around: (idOrNumber: string, limit: number) => page({ around: idOrNumber, limit }),
  queue: async (limit: number, state = "") =>
    (await call<{ jobs: Job[] }>("GET", `/api/queue${query({ state, limit })}`)).jobs,
  /** The jobs of these messages. */
  jobsOf: async (messages: string[]) =>
    (await call<{ jobs: Job[] }>("GET", `/api/queue${query({ messages: messages.join(","), limit: 1000 })}`)).jobs,
  post: (message: { body: string; name?: string; in_reply_to?: string; client_id: string }) =>
    call<{ id: string; cursor: string; number: number }>("POST", "/api/messages", message),
  pins: async () => (await call<{ pins: Pin[] }>("GET", "/api/pins")).pins.map(entry),
  pin: (message: string, pinned: boolean) => call<{ reason?: string }>("POST", `/api/messages/${quote(message)}/${pinned ? "pin" : "unpin"}`, signed({})),
  retry: (job: number) => call<{ reason?: string }>("POST", `/api/queue/${job}/retry`, signed({})),
  agentDo: (agent: string, action: "pause" | "resume" | "cancel" | "try") =>
    call<{ reason?: string }>("POST", `/api/agents/${quote(agent)}/${action}`, signed({})),
  usage: () => call<Usage>("GET", "/api/usage"),
  held: () => call<Held>("GET", "/api/locks"),
  airspace: (files: "all" | "touched") => call<AirspaceState>("GET", `/api/airspace${query({ files })}`),
  advisories: (limit: number) =>
    call<{ advisories: Advisory[]; precision: Precision }>("GET", `/api/airspace/advisories${query({ limit })}`),
  worktrees: () => call<Worktrees>("GET", "/api/worktrees"),
  handoffs: async () => (await call<{ handoffs: OpenHandoff[] }>("GET", "/api/handoffs")).handoffs,
  explorations: async () => (await call<{ explorations: Exploration[] }>("GET", "/api/explorations")).explorations,
  conflicts: (limit: number) => call<Conflict[]>("GET", `/api/conflicts${query({ limit })}`),
  needs: () => call<Need[]>("GET", "/api/needs"),
  permissions: async () => (await call<{ requests: PermissionRequest[] }>("GET", "/api/permissions")).requests,
  decide: (request: string, option: string) =>
    call<{ reason?: string }>("POST", `/api/permissions/${quote(request)}`, signed({ option })),
  givenMemories: async (message: string) => (await call<{ memories: GivenMemory[] }>("GET", `/api/messages/${quote(message)}/memories${query(signed({}))}`)).memories,
  verifications: async (wanted: { task?: string; numbers?: string; limit?: number }) =>
    (await call<{ verifications: Verification[] }>("GET", `/api/verifications${query(wanted)}`)).verifications,
  verification: (number: number) => call<WholeVerification>("GET", `/api/verifications/${number}`),
  approvals: async () => (await call<{ approvals: Asked[] }>("GET", "/api/approvals")).approvals,
  landing: () => call<Landing>("GET", "/api/landing"),
};
