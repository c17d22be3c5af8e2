/** Names of agents, and what an answer changed. */

import { showReview, showWorktree } from "../state/view";
import { worktreeFor } from "../state/worktrees";
import type { Entry } from "../types";
import { hued, Icon } from "./bits";
import { Diffstat } from "./diffstat";
import { newest } from "../state/landing";
import { Lazy } from "./lazy";

const answerMark = () => import("./verified").then((all) => ({ default: all.AnswerMark }));

export function Who({ name }: { name: string }) {
  return <b class="who" style={hued(name)}>{name}</b>;
}

/** Below an answer that changed files. */
export function Changed({ entry }: { entry: Entry }) {
  const tree = entry.meta.worktree;
  if (!tree) return null;
  return (
    <div class="changed" data-testid="changed">
      <Icon name="branch" size={14} />
      <code>{tree.branch}</code>
      <Diffstat of={tree} files />
      {tree.beside && <span class="muted">with what {tree.beside.join(", ")} did there at once</span>}
      {!worktreeFor(entry.speaker)?.member && <button type="button" class="link" onClick={() => showWorktree(entry.speaker)} data-testid="show-diff">Show diff</button>}
      {!worktreeFor(entry.speaker)?.member && <button type="button" class="link" onClick={() => showReview(entry.speaker)} data-testid="show-review">Review</button>}
      {entry.job !== null && newest.value.jobs.has(entry.job) && <Lazy load={answerMark} given={{ job: entry.job }} over />}
    </div>
  );
}
