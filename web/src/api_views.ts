/** All that the page asks: what its views ask comes with the first of them. */

import { api as first, call, entry, page, query, quote, signed } from "./api";
import type { Advisory, Choice, Sample } from "./airspace_types";
import type { Imported, Task, TaskDetail, TaskPatch } from "./coordination_types";
import type { Agent, CodeThen, Hit, Since, Worded } from "./types";
import type { Checkpoint, FileView, HandoffAnswer, Heads, MomentDiff, Rewound, TakenBack, TreeView, WholeEvent } from "./timeline_types";
import type { PlacedConflict } from "./conflicts/types";
import type { VariantDiff } from "./explore/types";
import type { Difference, Planned } from "./landing/types";
import type { Found, Knowledge, Source } from "./memory/types";
import type { Review } from "./review/types";
import type { Metrics } from "./metrics/types";
import type { BlamedLines, MergeMethod, MergeProposal, WorktreeDiff, WorktreeRuns } from "./worktree_types";

export const api = {
  ...first,
  thread: (idOrNumber: string, limit: number) => page({ thread: idOrNumber, limit }),
  route: (message: string, agents: string[]) =>
    call<object>("POST", `/api/messages/${quote(message)}/route`, signed({ agents })),
  editMessage: (message: string, body: string) =>
    call<{ reason?: string }>("POST", `/api/messages/${quote(message)}/edit`, signed({ body })),
  deleteMessage: (message: string) => call<{ reason?: string }>("POST", `/api/messages/${quote(message)}/delete`, signed({})),
  /** What a message said, the oldest first. */
  versions: async (message: string) =>
    (await call<{ versions: { ts: string; body: string }[] }>("GET", `/api/messages/${quote(message)}/versions`)).versions,
  /** Who goes first, who stops, who merges the main branch. */
  decideWho: (action: Choice["name"], agent: string) =>
    call<{ success: boolean; reason: string }>("POST", "/api/airspace/decide", signed({ action, agent })),
  /** `value`: the reason of a skip, the name of a branch. */
  answerHandoff: (number: number, answer: HandoffAnswer, value = "") =>
    call<{ reason?: string }>("POST", `/api/handoffs/h${number}`, signed({ answer, value })),
  /** `text`: what is to stand there, with choice 4. It waits for git. */
  resolve: (number: number, choice: number, text?: string) =>
    call<{ reason?: string }>("POST", `/api/conflicts/c${number}`, signed({ choice, text })),
  since: (after: string, name: string) => call<Since>("GET", `/api/since${query({ after, name: name || undefined })}`),
  sinceWorded: (after: string, name: string) => call<{ worded: Worded | null }>("GET", `/api/since${query({ after, name: name || undefined, worded: "true" })}`),
  actOnNeed: (id: string, action: string, text: string) =>
    call<{ reason?: string; undo: string | null; opens?: string | null }>("POST", `/api/needs/${quote(id)}`, signed({ action, text: text || undefined })),
  signOut: () => call<{ ok?: boolean }>("POST", "/api/sign-out", {}),
  search: async (q: string, limit: number) =>
    (await call<{ entries: Hit[] }>("GET", `/api/search${query({ q, limit })}`)).entries.map(entry),
  log: async (agent: string, limit: number) =>
    (await call<{ lines: { ts: string; text: string }[] }>("GET", `/api/agents/${quote(agent)}/log${query({ limit })}`)).lines,
  why: async (event: string) =>
    (await call<{ chain: { id: string; type: string; lane: string; at: string; summary: string }[] }>(
      "GET",
      `/api/events/${quote(event)}/why`,
    )).chain,
  agentSet: (agent: string, patch: Partial<Pick<Agent, "model" | "effort" | "enabled">>) =>
    call<object>("PATCH", `/api/agents/${quote(agent)}`, signed(patch)),
  addTask: (title: string) => call<{ task: Task }>("POST", "/api/tasks", signed({ title })),
  setTask: (number: number, patch: TaskPatch) => call<{ undo?: string }>("PATCH", `/api/tasks/${number}`, signed(patch)),
  /** `to`: the agent (null = whoever is free), the column, the priority. */
  someTasks: (tasks: readonly number[], action: "give" | "move" | "priority" | "archive", to: string | null) =>
    call<{ reason?: string; undo?: string }>("POST", "/api/tasks/some", signed({ tasks, action, to })),
  importIssues: (issues: unknown) => call<Imported>("POST", "/api/tasks/import", signed({ issues })),
  /** The tasks that somebody works on. */
  /** `undo`: what the board's undo takes back; "" = nothing. */
  claimed: () => call<{ tasks: Task[]; undo?: string }>("GET", "/api/tasks?status=in_progress"),
  task: async (number: number) => (await call<{ task: TaskDetail }>("GET", `/api/tasks/${number}`)).task,
  unlock: (path: string, reason: string) =>
    call<{ reason?: string }>("POST", "/api/locks/release", signed({ path, reason })),
  /** Times as ISO 8601. */
  airspaceHistory: async (from: string, to: string) =>
    (await call<{ samples: Sample[] }>("GET", `/api/airspace/history${query({ from, to })}`)).samples,
  markAdvisory: (id: string, mark: Advisory["mark"]) =>
    call<Advisory>("POST", `/api/airspace/advisories/${quote(id)}/mark`, signed({ mark })),
  worktreeRuns: (agent: string) => call<WorktreeRuns>("GET", `/api/worktrees/${quote(agent)}/app`),
  runInWorktree: (agent: string, what: "run" | "stop" | "setup") =>
    call<{ reason?: string }>("POST", `/api/worktrees/${quote(agent)}/${what}`, signed({})),
  worktreeDiff: (agent: string) => call<WorktreeDiff>("GET", `/api/worktrees/${quote(agent)}/diff`),
  mergeProposal: (agent: string, method: MergeMethod) =>
    call<MergeProposal>("GET", `/api/worktrees/${quote(agent)}/merge${query({ method, ...signed({}) })}`),
  merge: (agent: string, choice: { method: MergeMethod; message: string; head: string; joined: string; untested?: boolean; anyway?: boolean }) =>
    call<{ reason?: string; commit?: string | null }>("POST", `/api/worktrees/${quote(agent)}/merge`, signed(choice)),
  discard: (agent: string) =>
    call<{ reason?: string; kept: string }>("POST", `/api/worktrees/${quote(agent)}/discard`, signed({})),
  takeBack: (agent: string, commit: string) =>
    call<{ reason?: string }>("POST", `/api/worktrees/${quote(agent)}/takeback`, signed({ commit })),
  abortMerge: (agent: string, settle = false) =>
    call<{ reason?: string }>("POST", `/api/worktrees/${quote(agent)}/abort`, signed(settle ? { settle } : {})),
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
  /** `against`: another variant, "" = what all began with. */
  variantDiff: (number: number, variant: string, against: string) =>
    call<VariantDiff>("GET", `/api/explorations/x${number}/diff${query({ variant, against })}`),
  /** `files`: single files of other variants, as `PATH=VARIANT`. */
  takeVariant: (number: number, variant: string, files: readonly string[]) =>
    call<{ reason?: string }>("POST", `/api/explorations/x${number}`, signed({ answer: "take", variant, files })),
  endExploration: (number: number) => call<{ reason?: string }>("POST", `/api/explorations/x${number}`, signed({ answer: "end" })),
  conflict: (number: number) => call<PlacedConflict>("GET", `/api/conflicts/c${number}`),
  checkpoints: async () => (await call<{ checkpoints: Checkpoint[] }>("GET", "/api/timeline/checkpoints")).checkpoints,
  /** `lane`: whose files; null = the main branch's. */
  makeCheckpoint: (checkpoint: string, lane: string | null) => call<object>("POST", "/api/timeline/checkpoint", signed({ checkpoint, lane })),
  /** `into`: null = where it stands. With conflicts nothing is written, unless `partial`. */
  rewind: (wanted: { lane: string; to: string; into: string | null; dry_run: boolean; partial?: boolean }) =>
    call<Rewound>("POST", "/api/timeline/rewind", signed(wanted), true),
  undoRewind: (what: "undo" | "redo", wanted: { dry_run: boolean; partial?: boolean }) =>
    call<Rewound>("POST", `/api/timeline/${what}`, signed(wanted), true),
  memory: (wanted: { q: string; agent: string; kind: string; tag: string; since: string; limit: number }) =>
    call<Found>("GET", `/api/memory${query(signed(wanted))}`),
  /** Where what was made of an event comes from. */
  memorySource: async (event: string) => (await call<{ source: Source }>("GET", `/api/memory/source/${quote(event)}`)).source,
  /** `name`: `r14`, or the id of an entry of the knowledge. */
  forgetMemory: (name: string) => call<{ reason?: string }>("POST", `/api/memory/${name}/forget`, signed({})),
  judgeMemory: (memory_id: string, useful: boolean) => call<{ useful: number; useless: number }>("POST", "/memory/feedback", signed({ memory_id, useful })),
  knowledge: (wanted: { about?: string; agent?: string; kind?: string; near?: string; limit: number }) =>
    call<Knowledge>("GET", `/knowledge${query(signed(wanted))}`),
  metrics: (days: number | null) => call<Metrics>("GET", `/api/metrics${query({ days })}`),
  verificationDiff: (number: number) => call<Difference>("GET", `/api/verifications/${number}/diff`),
  verifyAgain: (number: number) => call<{ reason?: string }>("POST", `/api/verifications/${number}`, signed({})),
  verifyWork: (agent: string) => call<{ reason?: string }>("POST", "/api/verifications", signed({ agent })),
  decideApproval: (number: number, answer: "approve" | "reject", reason = "") =>
    call<{ reason?: string }>("POST", `/api/approvals/${number}`, signed({ answer, reason: reason || undefined })),
  landingPlan: async (agents: readonly string[]) => (await call<{ plan: Planned[] }>("GET", `/api/landing/plan${query({ agents: agents.join(",") })}`)).plan,
  landingDiff: (entry: number) => call<Difference>("GET", `/api/landing/${entry}/diff`),
  /** `anyway`: the person was told what of others' it undoes. */
  land: (agents: readonly string[], method: MergeMethod = "merge", anyway = false) => call<{ reason?: string }>("POST", "/api/landing", signed({ agents, method, anyway })),
  /** `path`: with the text of this file alone. */
  review: (agent: string, path = "") => call<Review>("GET", `/api/review/${quote(agent)}${query(signed({ path: path || undefined }))}`),
  markReviewed: (agent: string, paths: readonly string[], undo: boolean) => call<{ reason?: string }>("POST", `/api/review/${quote(agent)}/reviewed`, signed({ paths, undo })),
  sendReview: (agent: string, comments: readonly object[]) => call<{ reason?: string }>("POST", `/api/review/${quote(agent)}/comments`, signed({ comments })),
  applySuggestion: (agent: string, comment: string, undo: boolean) => call<{ reason?: string }>("POST", `/api/review/${quote(agent)}/apply`, signed({ comment, undo })),
  takeFromQueue: (agent: string) => call<{ reason?: string }>("POST", `/api/landing/${quote(agent)}/cancel`, signed({})),
  requireLanding: (required: boolean) => call<object>("PATCH", "/api/landing", signed({ required })),
  code: (path: string, at: string, lines: string) => call<CodeThen>("GET", `/api/code${query({ path, at, lines })}`),
  /** `command`: as an answer's `undo` has it; "" = the last change, whoever made it. */
  undoTasks: (command = "") => call<{ reason?: string }>("POST", "/api/tasks/undo", signed(command ? { message: command.split(" ")[1] } : {})),
};
