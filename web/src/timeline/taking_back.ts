/** What of an event can be taken back from its panel, and in words why not. Pure: the room decides, and refuses what it must. */

/** What people and agents do that a rewind can begin from. */
const BEGINS = new Set(["write", "unseen", "turn", "end", "read"]);
const OPERATIONS = new Set(["rewind", "undo", "redo"]);

export interface Asked {
  name: string;
  kind: string;
  /** The room that recorded it; null = this one. */
  replica: string | null;
  nobody: boolean;
  /** The name has lanes here. */
  known: boolean;
  /** It is in a checkout, and in no commit. */
  uncommitted: boolean;
  /** What it was done for: the name and the kind of its first cause by somebody. */
  carried: { name: string; kind: string } | null;
  /** What the room's `undo` or `redo` would act on is this event. */
  next: "undo" | "redo" | null;
}

/** "" = it can be taken back from here. */
export function whyNot(of: Asked): string {
  if (of.replica) return `Another room (${of.replica.slice(0, 8)}) recorded this: it is taken back there.`;
  if (OPERATIONS.has(of.kind)) return of.next ? "" : "Undo and Redo go from the newest rewind to the one before it, and this is not their turn.";
  if (!BEGINS.has(of.kind)) return "It changed no file itself, so there is nothing of it to take back.";
  if (of.nobody) {
    if (of.name === "main" && of.carried && OPERATIONS.has(of.carried.kind)) return `relay committed this for ${of.carried.name}’s rewind: Undo takes it back.`;
    if (of.name === "main" && of.carried) return `relay carried this for ${of.carried.name}: take it back from ${of.carried.name}’s row.`;
    if (of.name === "main") return "relay carried this, and the log does not say for whom: take a commit back with `git revert`.";
    return "It is not known who wrote this, so nobody’s work is taken back from here. Compare with the files before it.";
  }
  if (of.uncommitted) return `${of.name} has not committed this, so the room leaves it alone: undo it in the editor, or with \`git restore\`.`;
  return of.known ? "" : `The log has no row of ${of.name} that can be taken back.`;
}
