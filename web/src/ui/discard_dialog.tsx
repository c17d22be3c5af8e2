/** Taking an agent's work back. Git keeps it, and one click brings it back. */

import { useState } from "preact/hooks";
import { api } from "../api_views";
import { loadWorktrees } from "../state/worktrees";
import type { Worktree } from "../worktree_types";
import { counted } from "../text/format";
import { attempt, Layer, toast } from "./bits";

export function DiscardDialog({ tree, onClose }: { tree: Worktree; onClose: () => void }) {
  const [busy, setBusy] = useState(false);
  const bringBack = async (kept: string): Promise<void> => {
    await attempt(api.restore(tree.agent, kept).then((told) => toast(told.reason ?? "")));
    void loadWorktrees();
  };
  const discard = async (): Promise<void> => {
    setBusy(true);
    const went = await attempt(api.discard(tree.agent).then((told) => toast(told.reason ?? "", { action: { label: "Bring it back", run: () => void bringBack(told.kept) }, long: true })));
    await loadWorktrees();
    setBusy(false);
    if (went) onClose();
  };
  return (
    <Layer label={`Discard the work of ${tree.agent}`} class="merge-dialog" onClose={onClose} testid="discard-dialog">
      <h2>Discard the work of {tree.agent}?</h2>
      <ul class="plan">
        <li>The branch <code>{tree.branch}</code> and its files go back to the state of the main branch. This takes away {tree.ahead > 0 && `${counted(tree.ahead, "commit")}, `}{counted(tree.files, "changed file")}{tree.dirty ? ", with what is not committed" : ""}.</li>
        <li>Git keeps all of it under <code>refs/relay/kept/</code>. The room says the exact name, and “Bring it back” restores it.</li>
        <li>Files that git ignores stay where they are.</li>
      </ul>
      <div class="dialog-act">
        <button type="button" class="button" onClick={onClose}>Keep it</button>
        <button type="button" class="button danger" disabled={busy} onClick={() => void discard()} data-testid="discard-now">{busy ? "Discarding…" : "Discard"}</button>
      </div>
    </Layer>
  );
}
