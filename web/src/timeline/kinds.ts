/** What an event is drawn as: its kind, by type and change. Each kind has a shape of its own, so that no colour is needed to tell them apart. */

export interface Kind {
  id: string;
  /** In the legend and in the filter. */
  name: string;
}

/** By number; the number is what the columns hold. At most 31, since a level holds a bit for each. */
export const KINDS: readonly Kind[] = [
  { id: "write", name: "Change" },
  { id: "unseen", name: "Change over another's, unseen" },
  { id: "read", name: "Read" },
  { id: "turn", name: "Turn" },
  { id: "end", name: "End of a turn" },
  { id: "branch", name: "Branch" },
  { id: "merge", name: "Merge" },
  { id: "worktree", name: "Worktree" },
  { id: "rewind", name: "Rewind" },
  { id: "undo", name: "Rewind undone" },
  { id: "redo", name: "Rewind redone" },
  { id: "given_up", name: "Rewind given up" },
  { id: "checkpoint", name: "Checkpoint" },
  { id: "handoff", name: "Handoff" },
  { id: "conflict", name: "Conflict" },
  { id: "settled", name: "Conflict settled" },
  { id: "gone", name: "Change that was taken back" },
];

const NUMBER = new Map(KINDS.map((kind, number) => [kind.id, number]));
export const kindNumber = (id: string): number => NUMBER.get(id) ?? -1;
export const [WRITE, UNSEEN, READ, TURN, END, GONE] = ["write", "unseen", "read", "turn", "end", "gone"].map(kindNumber) as [number, number, number, number, number, number];
export const EVERY = 2 ** KINDS.length - 1;

const OF_TYPE: Readonly<Record<string, string>> = {
  "files.changed": "write",
  "files.read": "read",
  "turn.started": "turn",
  "turn.ended": "end",
  "helper.started": "turn",
  "helper.ended": "end",
  "timeline.rewound": "rewind",
  "timeline.undone": "undo",
  "timeline.redone": "redo",
  "timeline.given_up": "given_up",
  "timeline.merged": "merge",
  "checkpoint.made": "checkpoint",
  "exploration.ended": "merge",
  handoff: "handoff",
  "conflict.found": "conflict",
  "conflict.settled": "settled",
};
const OF_CHANGE: Readonly<Record<string, string>> = { created: "branch", recreated: "branch", merged: "merge", taken_in: "merge", conflicted: "conflict", taking: "conflict" };

/** The kind's number of an event of this type; `change`: what was done to a worktree. */
export function kindOf(type: string, change: string, unseen: boolean): number {
  if (type === "files.changed" && unseen) return UNSEEN;
  const id = type === "worktree.changed" ? (OF_CHANGE[change] ?? "worktree") : (OF_TYPE[type] ?? "worktree");
  return kindNumber(id);
}

/** Which kind is drawn where several share a place: the rarer and the graver first. */
const RANK = ["conflict", "handoff", "checkpoint", "rewind", "undo", "redo", "merge", "branch", "settled", "unseen", "given_up", "worktree", "write", "read", "gone", "turn", "end"].map(kindNumber);

export function gravest(mask: number): number {
  if (!(mask & (mask - 1))) return 31 - Math.clz32(mask | 1);
  for (const kind of RANK) if (mask & (1 << kind)) return kind;
  return 0;
}

/** Kinds that are shown one by one where changes are only counted. */
export const SPECIAL = RANK.slice(0, RANK.indexOf(UNSEEN)).reduce((mask, kind) => mask | (1 << kind), 0);
/** Kinds that are drawn as bars, and not counted. */
export const BARS = (1 << TURN) | (1 << END);
/** What the filter offers. */
export const CHOICES: readonly string[] = ["write", "unseen", "gone", "read", "conflict", "settled", "checkpoint", "handoff", "branch", "merge", "rewind", "undo", "redo"];
