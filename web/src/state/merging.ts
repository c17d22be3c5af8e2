/** What a merge would do, in words, from what the room says of the worktrees. Pure. */

import { counted } from "../text/format";
import type { JoinedFile, MergeTurn, Worktree } from "../worktree_types";

type Told = Pick<Worktree, "agent" | "merges" | "conflicts"> & Partial<Pick<Worktree, "into" | "landed" | "joined" | "lines" | "collides" | "unsettled" | "needless">>;

/** The first few paths, and how many more. */
export function fewPaths(paths: readonly string[], most = 3): string {
  const more = paths.length - most;
  return more > 0 ? `${paths.slice(0, most).join(", ")} and ${more} more` : paths.join(", ");
}

/** Files that relay joins, and how: "src/cart.py by imports". */
export function joinedWords(files: readonly JoinedFile[], most = 3): string {
  return fewPaths(files.map((file) => `${file.path} by ${file.how}`), most);
}

/** A path with the lines of its conflict: "src/cart.py (lines 3-9)". */
export function place(tree: Told, path: string): string {
  const spans = tree.lines?.[path] ?? [];
  const told = spans.map(([first, last]) => (last > first ? `${first}-${last}` : `${first}`)).join(", ");
  return told ? `${path} (line${/^\d+$/.test(told) ? "" : "s"} ${told})` : path;
}

/** Whether it merges into what it would really be merged into. */
export function mergeWords(tree: Told): string {
  const into = tree.into ?? "the main branch";
  switch (tree.merges) {
    case "joins": return `merges into ${into}; relay joins ${joinedWords(tree.joined ?? [])}`;
    case "clean": return `merges clean into ${into}`;
    case "conflicts": return `${tree.needless ? `a merge of ${into} is under way, and ${into} has no conflict with its branch any more; not settled` : tree.unsettled ? "conflicts not settled" : `conflicts with ${into}`} in ${fewPaths(tree.conflicts.map((path) => place(tree, path)))}`;
    case "nothing": return tree.landed ? `nothing to merge: ${into} has all of it` : "nothing to merge";
    default: return `git cannot tell whether it merges into ${into}`;
  }
}

/** The same, as a sentence. */
export function mergeSentence(tree: Told): string {
  const words = mergeWords(tree);
  return `${words.startsWith("git ") ? words : words[0]!.toUpperCase() + words.slice(1)}.`;
}

/** Whom a merge of it sets back. */
export function setsBack(tree: Pick<Told, "into" | "collides">): string[] {
  const into = tree.into ?? "the main branch";
  return (tree.collides ?? []).map((hit) => `This sets ${hit.agent} back: it will conflict with ${into} in ${fewPaths(hit.paths.map((path) => `\`${path}\``))}, and has to merge ${into} into its branch.`);
}

/** What of others it undoes, or brings back. */
export function undoesWords(tree: Pick<Partial<Worktree>, "undoes">): string[] {
  return (tree.undoes ?? []).map((hit) => `This would ${hit.did === "took back" ? `bring back what ${hit.agent} took back` : `undo what ${hit.agent} landed`} in \`${hit.path}\`.`);
}

/** Who is better merged before, when this one sets more of the others back than is needed; empty when nobody is. */
export function betterFirst(tree: Told, turns: readonly MergeTurn[]): string {
  const at = turns.findIndex((turn) => turn.agent === tree.agent);
  const before = turns.slice(0, Math.max(at, 0)).filter((turn) => turn.sets_back.some((hit) => hit.agent === tree.agent));
  const fewer = before.every((turn) => turn.sets_back.length < (tree.collides ?? []).length);
  if (!before.length || !fewer) return "";
  return `Better merge ${before.map((turn) => turn.agent).join(", then ")} first: then fewer are set back.`;
}

/** What a merge will do, from what is known of the worktree; the room has the last word. */
export function plan(tree: Worktree, turns: readonly MergeTurn[] = []): string[] {
  const commits = `${tree.ahead} ${tree.ahead === 1 ? "commit" : "commits"}`;
  return [
    `${tree.ahead ? `${commits} of` : "The work on"} \`${tree.branch}\` ${tree.ahead > 1 ? "come" : "comes"} into the main branch: ${counted(tree.files, "file")}, ${counted(tree.insertions, "line")} added, ${tree.deletions} removed.`,
    tree.dirty && tree.own ? "What is not committed yet is committed onto this branch first." : "",
    tree.dirty && !tree.own ? "This checkout has uncommitted work. The room commits only in worktrees that it made: commit it yourself first." : "",
    tree.behind ? `The main branch has ${counted(tree.behind, "new commit")} since then.` : "",
    mergeSentence(tree),
    tree.own && tree.merges !== "conflicts" ? "The agent's worktree then moves to the merged state." : "",
    ...setsBack(tree),
    ...undoesWords(tree),
    betterFirst(tree, turns),
    tree.merges === "conflicts" ? "Nothing is merged before that is settled." : "If there is a conflict, or uncommitted work is in the way, nothing is merged.",
  ].filter(Boolean);
}
