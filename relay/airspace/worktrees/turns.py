"""The worktrees of the agents' turns: made ready before a turn, read after it.

Invariants: while an agent's turn runs, its worktree is never written; a turn begins even without its worktree:
the agent then only reads.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import structlog

from relay.airspace.worktrees.branch_updates import BranchUpdates
from relay.airspace.worktrees.lifecycle import FORWARDED, WorktreeChange, is_ancestor
from relay.airspace.worktrees.merging.wording import to_clean
from relay.airspace.worktrees.registry import EDITORS, WorktreeRegistry
from relay.airspace.worktrees.tracked_worktree import TrackedWorktree, WorktreeGone
from relay.config.settings import AgentSettings
from relay.git.diff import Record, changed_files, touches_of
from relay.git.merge_state import StartedMerge, operation_under_way, started_merge
from relay.git.run import Git, GitError
from relay.git.snapshot import Snapshot
from relay.model import Changes, Workplace

log = structlog.get_logger(__name__)


class TurnWorktrees:
    """Where each turn works, and what it changed there (`relay.room.dispatch.running.TurnHooks`)."""

    def __init__(self, registry: WorktreeRegistry, branch_updates: BranchUpdates) -> None:
        self.registry, self._branch_updates = registry, branch_updates
        #: By agent: the tree that its turn began with, before it was cut off where it goes on.
        self.first_trees: dict[str, str] = {}

    async def before_turn(
        self, agent: str, *, take_main: bool = False, exact: bool = False
    ) -> Workplace | None:
        """Where the turn that begins now works; None: where its configuration says, reading only. `exact`: the
        worktree stays at the tree that it has, though the main branch went on."""
        settings = self.registry.settings.agent(agent)
        if settings is None or settings.kind not in EDITORS:
            return None
        try:
            return await self._prepare(settings, take_main, exact)
        except (GitError, WorktreeGone, OSError) as error:
            self.registry.turn_trees.pop(agent, None)
            self.registry.troubles[agent] = str(error)
            log.warning("no worktree for this turn", agent=agent, reason=str(error))
            return None

    async def _prepare(self, settings: AgentSettings, take_main: bool, exact: bool) -> Workplace | None:
        registry, agent = self.registry, settings.name
        worktree = registry.worktrees.get(agent)
        if worktree is None or not await worktree.is_there():
            await registry.open()
            worktree = registry.worktrees.get(agent)
        if worktree is None:
            return None
        # Before the look: from here on nobody merges it or takes it away.
        registry.turn_trees[agent] = ""
        async with worktree.lock:
            snapshot = await worktree.take_snapshot(everything=True)
            note = ""
            if take_main:
                self._branch_updates.forget_report(agent)  # who asks is answered
            if worktree.own:
                note = await self._branch_updates.take(worktree, snapshot, begin=take_main)
                snapshot = await worktree.take_snapshot(everything=True) if note or take_main else snapshot
                if not snapshot.dirty and not exact:
                    snapshot = await self._forward(worktree, snapshot)
            registry.turn_trees[agent] = snapshot.tree
        folder = await self._folder_of(settings, worktree)
        place = Workplace(
            folder,
            may_edit=True,
            root=worktree.checkout.top,
            note=note,
            tree=snapshot.tree,
            commits=snapshot.parents,
        )
        return await self._asked(worktree, snapshot, place) if take_main else place

    async def _asked(self, worktree: TrackedWorktree, snapshot: Snapshot, place: Workplace) -> Workplace:
        """What is left to do for an agent that was asked to take the main branch in, where it is in already."""
        target = await self.registry.target()
        if target is None or not snapshot.head.commit:
            return place
        if not await is_ancestor(worktree.checkout.git, target.commit, snapshot.head.commit):
            return place
        await self.registry.survey(worktree)
        if left := worktree.work.unsettled if worktree.work else ():
            return replace(place, note=to_clean(left))
        return replace(place, done=f"{snapshot.head.branch} has all of {target.name}: nothing is left to do")

    async def _folder_of(self, settings: AgentSettings, worktree: TrackedWorktree) -> Path:
        """The agent's `cwd` inside the repository is the same folder of its worktree."""
        registry = self.registry
        wanted = await asyncio.to_thread((settings.cwd or registry.settings.repo).resolve)
        for top in (worktree.checkout.top, registry.main.top if registry.main else worktree.checkout.top):
            if wanted.is_relative_to(top):
                folder = worktree.checkout.top / wanted.relative_to(top)
                await asyncio.to_thread(folder.mkdir, 0o777, True, True)
                return folder
        return worktree.checkout.top

    async def _forward(self, worktree: TrackedWorktree, snapshot: Snapshot) -> Snapshot:
        """A worktree without work of its own begins where the main branch is now."""
        registry = self.registry
        assert registry.lifecycle is not None and registry.main is not None
        branch, before = snapshot.head.branch, snapshot.head.commit
        main = (await registry.main_head()).commit
        if branch != worktree.branch or before is None or main is None or main == before:
            return snapshot
        try:
            behind = await is_ancestor(registry.main.git, before, main)
            if not (
                behind or await registry.merge_trials.contains(main, before)
            ) or await operation_under_way(worktree.checkout):
                return snapshot
            # Others made one commit of it: it is held as it was, as when the room does that.
            details = {} if behind else {"kept": await registry.lifecycle.hold(worktree.name, before)}
            await registry.lifecycle.forward(worktree.checkout, branch, before, main)
        except GitError as error:
            log.warning("worktree stays behind", agent=worktree.name, reason=str(error))
            return snapshot
        await registry.room.record(
            WorktreeChange(FORWARDED, worktree.name, branch, "RELAY", commit=main, details=details)
        )
        return await worktree.take_snapshot(everything=True)

    async def after_turn(self, agent: str) -> Changes | None:
        """What the turn that ends now changed in the agent's worktree; None: nothing, or nobody knows. The counts are
        of all of the turn, the touches of what it did since it was cut off."""
        registry = self.registry
        began, worktree = registry.turn_trees.pop(agent, None), registry.worktrees.get(agent)
        first = self.first_trees.pop(agent, "")
        if not began or worktree is None:
            return None
        first = first or began
        try:
            async with worktree.lock:
                snapshot = await worktree.take_snapshot(everything=True)
                merged = await started_merge(worktree.checkout) if worktree.own else None
                if merged is not None:
                    snapshot = await self._branch_updates.conclude(worktree, snapshot)
            if merged is not None and not snapshot.merging:
                await self._branch_updates.report_committed_markers(worktree, snapshot)
            if snapshot.tree == began == first:
                return None
            async with worktree.lock:
                git = worktree.snapshotter.git
                since = await changed_files(git, began, snapshot.tree)
                records = since if first == began else await changed_files(git, first, snapshot.tree)
                counts = await self._counts(git, first, snapshot, records, merged)
        except (GitError, WorktreeGone, OSError) as error:
            log.warning("changes of a turn not read", agent=agent, reason=str(error))
            return None
        registry.wake.set()
        return Changes(
            snapshot.head.branch or f"detached at {str(snapshot.head.commit)[:9]}",
            len(records),
            *counts,
            before=began,
            after=snapshot.tree,
            commits=snapshot.parents,
            touches=touches_of(since),
        )

    async def _counts(
        self,
        git: Git,
        first: str,
        snapshot: Snapshot,
        records: Sequence[Record],
        merged: StartedMerge | None,
    ) -> tuple[int, int]:
        """Lines that came and went since the tree `first`. A file that had git's markers counts against the branch's
        own, once it is settled: to take markers away is no work."""
        differ, marked = self.registry.differ, merged.marked if merged is not None else frozenset()
        sides = [(first, [record for record in records if record.last_path not in marked])]
        settled = {record.last_path for record in records} & marked
        settled -= {os.fsencode(path) for path, _ in snapshot.unsettled}
        if merged is not None and settled:
            own = await changed_files(git, merged.head, snapshot.tree)
            sides.append((merged.head, [record for record in own if record.last_path in settled]))
        found = [
            hunks[record.old, record.new]
            for since, changed in sides
            for hunks in [await differ.hunks(git, since, snapshot.tree, changed)]
            for record in changed
        ]
        return sum(each.insertions for each in found), sum(each.deletions for each in found)
