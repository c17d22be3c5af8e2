/** What a person does about a branch that does not merge: ends the merge under way in its worktree, or settles it in the room. */

import { ApiError } from "../api";
import { api } from "../api_views";
import { loadConflicts, openConflicts } from "../state/conflicts";
import { showConflict } from "../state/view";
import { loadWorktrees } from "../state/worktrees";
import type { Worktree } from "../worktree_types";
import { attempt, toast } from "./bits";

/** Does it conflict with the main branch, so that the room asks what is to stand there? */
export const asks = (tree: Worktree): boolean => tree.merges === "conflicts" && !tree.unsettled && !tree.merging;

export async function giveUp(agent: string): Promise<void> {
  await attempt(api.abortMerge(agent).then((told) => toast(told.reason ?? "", { long: true })));
  await loadWorktrees();
}

/** Opens the first conflict of an agent's work that the room asks about, if there is one. */
async function opened(agent: string): Promise<void> {
  await loadConflicts();
  const asked = openConflicts.value.filter((one) => one.agent === agent).pop(); // the newest is the first
  if (asked) showConflict(asked.number);
}

/** The room asks about each place that conflicts; a merge under way in the agent's worktree is given up for that. Opens the first place. Else why not, in words. */
export async function settle(tree: Worktree): Promise<string> {
  let refused = "";
  try {
    toast((await api.abortMerge(tree.agent, true)).reason ?? "");
    await opened(tree.agent);
  } catch (problem) {
    if (!(problem instanceof ApiError)) throw problem;
    refused = [problem.message, problem.fix].filter(Boolean).join(" ");
  }
  void loadWorktrees();
  return refused;
}
