"""The timeline's moments as HTTP asks for them: how files stood, what differs, checkpoints.

Invariant: what git cannot do is a Refusal with git's reason.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.tracked_worktree import TrackedWorktree, WorktreeGone
from relay.git.checkout import UnusableCheckout
from relay.git.kept_snapshots import KeptSnapshots
from relay.git.run import Git, GitError
from relay.model import Fault, Refusal
from relay.room.journal import ledger
from relay.store.ports import Store, Tx
from relay.timeline import checkpoints, compare
from relay.timeline.branches import branches
from relay.timeline.checkpoints import Checkpoint, CheckpointKind, checked_name
from relay.timeline.jumps import FOLDER, Jumps
from relay.timeline.projection import last_tree


class TimelineService:
    """The moments of one room. `registry`: its worktrees, opened."""

    def __init__(self, store: Store, registry: WorktreeRegistry) -> None:
        self._store, self._registry = store, registry

    async def tree(self, at: str | None, lane: str | None, path: str) -> dict[str, Any]:
        """A folder at a moment, as `compare.tree_view`. Raises Refusal."""
        with git_refusing():
            return await compare.tree_view(self._store, self._git, at, lane, path)

    async def file(self, at: str | None, lane: str | None, path: str) -> dict[str, Any]:
        """A file at a moment, as `compare.file_view`. Raises Refusal."""
        with git_refusing():
            return await compare.file_view(self._store, self._git, at, lane, path)

    async def diff(self, a: str, b: str | None, lane: str | None, path: str) -> dict[str, Any]:
        """What two moments differ in, as `compare.diff_view`. Raises Refusal."""
        with git_refusing():
            return await compare.diff_view(self._store, self._git, a, b, lane, path)

    async def checkpoints(self, limit: int) -> list[dict[str, Any]]:
        """The newest checkpoints, the newest first."""
        found = await self._store.read(lambda tx: checkpoints.newest(tx, limit))
        return [each.as_json() for each in found]

    async def jump(self, to: str, lane: str | None) -> dict[str, Any]:
        """A fresh worktree at a moment: `{folder, moment, lane, tree, commit}`. Raises Refusal."""
        with git_refusing():
            return await self._jumps.make(to, lane)

    async def jumps(self) -> list[dict[str, Any]]:
        """The worktrees of moments that are there: `[{folder, commit}]`. Raises Refusal."""
        with git_refusing():
            return await self._jumps.list()

    async def remove_jump(self, folder: str) -> dict[str, Any]:
        """Take such a worktree away: `{removed}`. Raises Refusal."""
        with git_refusing():
            return await self._jumps.remove(folder)

    async def branches(self) -> list[dict[str, Any]]:
        """The branches of agents, rewinds and retries, as `branches.branches`, each with `uncommitted`: the agent's
        worktree has work that is in no commit. Raises Refusal."""
        registry = self._registry
        target = await registry.target() if self._git else None
        if target is None or registry.main is None:
            raise self._no_main()
        base = registry.settings.worktrees_dir
        with git_refusing():
            rows = await branches(self._store, registry.scratch, registry.main, target.commit, base)
            dirty = {worktree.branch for worktree in registry.worktrees.values() if await _is_dirty(worktree)}
        return [
            {**row, "uncommitted": row["worktree"] is not None and row["branch"] in dirty} for row in rows
        ]

    async def checkpoint(
        self, by: str, name: str, *, lane: str | None = None, source_key: str | None = None
    ) -> dict[str, Any]:
        """A person calls a tree by a name: the main branch's, or what stands in the worktree of the agent `lane` now.
        Gives the checkpoint, and as `earlier` how the one before of this name is called now, null = there is none.
        `source_key` makes it happen once. Raises Refusal."""
        name = checked_name(name)
        if lane is None or lane.casefold() == compare.MAIN:
            tree, commits, worktree = await self._main_tree()
        else:
            tree, commits, worktree = await self._worktree_tree(lane)
        person = ledger.person_lane(by)
        with git_refusing():
            kept = await self._kept.keep(
                tree, commits, lane=person.key, reason=f"checkpoint {name}", at=time.time(), checkpoint=True
            )

        async def work(tx: Tx) -> tuple[Checkpoint | None, Checkpoint | None]:
            known = await last_tree(tx, worktree)
            causes = [known.event] if known is not None and known.tree == tree else []
            metadata = {"worktree": worktree, "by": by}
            event = await checkpoints.make_checkpoint(
                tx,
                person,
                name,
                tree,
                CheckpointKind.USER,
                metadata,
                commit=kept.commit,
                parents=causes,
                source_key=source_key,
            )
            return await checkpoints.of_event(tx, event), await checkpoints.find(tx, name, 1)

        made, earlier = await self._store.write(work, durable=True)
        assert made is not None
        return {**made.as_json(), "earlier": None if earlier is None else f"{name}~1"}

    async def _main_tree(self) -> tuple[str, tuple[str, ...], str]:
        git, target = self._git, await self._registry.target()
        if target is None:
            raise self._no_main()
        with git_refusing():
            tree = await git.line("rev-parse", f"{target.commit}^{{tree}}")
        return tree, (target.commit,), compare.MAIN

    async def _worktree_tree(self, lane: str) -> tuple[str, tuple[str, ...], str]:
        worktree = self._registry.find(lane.rpartition("/")[2])
        if worktree is None:
            names = ", ".join(sorted(self._registry.worktrees)) or "nobody yet"
            raise Refusal(
                f"{lane[:60]!r} has no worktree.", f"These have: {names}.", Fault.UNKNOWN, "unknown_lane"
            )
        try:
            with git_refusing():
                async with worktree.lock:
                    snapshot = await worktree.take_snapshot(everything=True)
        except (WorktreeGone, OSError) as error:
            raise Refusal(f"The worktree of {worktree.name} cannot be read: {error}.", "") from error
        return snapshot.tree, snapshot.parents, worktree.name

    def _no_main(self) -> Refusal:
        why = self._registry.no_main or "it has no commit yet"
        return Refusal(f"There is no main branch: {why}.", "Check one out in the main checkout.")

    @property
    def _jumps(self) -> Jumps:
        registry = self._registry
        assert self._git and registry.main is not None
        return Jumps(self._store, registry.scratch, registry.main, registry.settings.worktrees_dir / FOLDER)

    @property
    def _kept(self) -> KeptSnapshots:
        assert self._registry.main is not None
        return KeptSnapshots(self._registry.scratch, self._registry.main)

    @property
    def _git(self) -> Git:
        main = self._registry.main
        if main is None:
            reason = self._registry.trouble or "the repository is not known yet"
            raise Refusal(
                f"There are no files to look at: {reason}.",
                "Try again when that is mended.",
                Fault.UNAVAILABLE,
            )
        return self._registry.scratch.git(main)


@contextmanager
def git_refusing() -> Iterator[None]:
    """Turn what git cannot do into a Refusal."""
    try:
        yield
    except (GitError, UnusableCheckout, OSError) as error:
        raise Refusal(f"git could not do it: {error}.", "", Fault.UNAVAILABLE) from error


async def _is_dirty(worktree: TrackedWorktree) -> bool:
    """Has an agent's own worktree something that is in no commit? False where it is gone."""
    if not worktree.own:
        return False
    try:
        async with worktree.lock:
            return (await worktree.take_snapshot(everything=True)).dirty
    except WorktreeGone:
        return False
