"""Would an edit that collides with another agent's work be joined with it, when the two are merged (docs/guard.md)?

Invariants:
- what merges decides (`WorktreeRoom.join`), on the commits that a merge would have: what stands in both worktrees,
  and the edit. Nothing but the scratch is written;
- what is not known in `WITHIN_S` counts as no: an edit waits, and is refused as before.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Collection
from pathlib import Path

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.git.run import Git, GitError
from relay.git.signing import of_relay, signed
from relay.git.snapshot import Snapshot, commit_tree
from relay.git.trial_merge import STEPS, merge_trees

#: Seconds that an edit waits for this: less than the guard's route allows (relay/faces/http/routes/guard.py).
WITHIN_S = 1.0
#: The steps of the ladder (docs/merge.md) by which an edit may be joined later.
STEPS_LET_BY = frozenset({"imports", "added", "adjacent"})


class EditJoins:
    """Of the worktrees of one registry. `close` it before what merges is closed."""

    def __init__(self, registry: WorktreeRegistry) -> None:
        self._registry = registry
        self._trying: set[asyncio.Task[str]] = set()

    async def how(self, agent: str, path: str, text: bytes, others: Collection[str]) -> str:
        """By which steps, in words, the file with this text would be joined with what each of the `others` has; ''
        where it would not, where other steps are needed, and where nobody can tell in time."""
        task = asyncio.create_task(self._how(agent, path, text, others), name="edit-joins")
        # What comes too late is not cut off: its process would have to start again for the next one.
        self._trying.add(task)
        task.add_done_callback(self._trying.discard)
        done, _ = await asyncio.wait({task}, timeout=WITHIN_S)
        return task.result() if done else ""

    async def close(self) -> None:
        """End what is still tried for an edit that was answered: it could start the process that merges again."""
        for task in self._trying:
            task.cancel()
        if self._trying:
            await asyncio.wait(self._trying)

    async def _how(self, agent: str, path: str, text: bytes, others: Collection[str]) -> str:
        registry = self._registry
        tracked = [registry.worktrees.get(name) for name in (agent, *others)]
        snapshots = [worktree.snapshot for worktree in tracked if worktree is not None and worktree.snapshot]
        if registry.main is None or len(snapshots) != len(others) + 1 or not others:
            return ""
        git, steps = registry.scratch.git(registry.main), list[str]()
        try:
            edited = await _edited(git, snapshots[0], path, text)
            for other in snapshots[1:]:
                merge = await merge_trees(git, other.commit, edited, registry.room.join)
                if merge is None or path in merge.conflicts:
                    return ""
                steps += [step for file in merge.joined if file.path == path for step in file.by]
        except (GitError, OSError):
            return ""
        # What git merged of the file stands beside them.
        known = [step for step in dict.fromkeys(steps) if step not in ("git", "trivial")]
        return " and ".join(STEPS[step] for step in known) if known and STEPS_LET_BY.issuperset(known) else ""


async def _edited(git: Git, snapshot: Snapshot, path: str, text: bytes) -> str:
    """A commit of what stands in the worktree, with this text in the file. Raises GitError."""
    blob = await git.run("hash-object", "-w", "--no-filters", "--stdin", stdin=text)
    listed = await git.line("ls-tree", snapshot.tree, "--", path)
    mode = listed.partition(" ")[0] or "100644"
    with tempfile.TemporaryDirectory(prefix="relay-edit-") as folder:
        index = Git(git.folder, {**git.env, "GIT_INDEX_FILE": str(Path(folder) / "index")}, git.config)
        await index.run("read-tree", snapshot.tree)
        await index.run("update-index", "--add", "--cacheinfo", f"{mode},{blob.text},{path}")
        tree = await index.line("write-tree")
    who = signed(of_relay("relay"), of_relay("relay"))
    return await commit_tree(git, tree, snapshot.parents, "an edit that is asked about\n", who)
