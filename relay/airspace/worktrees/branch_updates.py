"""Merging the main branch into the agents' own branches: begun, taken up again, settled, given up.

Invariant: what cannot be done changes nothing and says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import structlog

from relay.airspace.worktrees.lifecycle import (
    ABORTED,
    TAKEN_IN,
    TAKING,
    UNSETTLED,
    WorktreeChange,
    is_ancestor,
)
from relay.airspace.worktrees.merging.merge_into_main import BranchMerger
from relay.airspace.worktrees.merging.proposal import MergeSource
from relay.airspace.worktrees.merging.refusals import Conflict
from relay.airspace.worktrees.merging.update_from_main import UpdateFromMain
from relay.airspace.worktrees.merging.wording import joined_words, listed, taken_in, to_settle
from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.airspace.worktrees.room import WantedMerge
from relay.airspace.worktrees.survey import in_own_lines
from relay.airspace.worktrees.tracked_worktree import TrackedWorktree, WorktreeGone
from relay.config.command_line import command
from relay.git.merge_state import StartedMerge, operation_under_way, started_merge
from relay.git.run import GitError
from relay.git.snapshot import Snapshot
from relay.model import Refusal

log = structlog.get_logger(__name__)
#: Who gives up a merge of a commit that was taken back, and one that is not needed any more.
GONE = "{0} has not the commit any more that was being merged, so relay"
NEEDLESS = "{0} has no conflict with the branch any more, and nobody has written into the merge, so relay"


class BranchUpdates:
    """On the worktrees of one registry. Only `recover` and `give_up_stale` take a worktree's lock themselves."""

    def __init__(self, registry: WorktreeRegistry) -> None:
        self._registry = registry
        #: Of each agent, what the room was last told that it has not settled.
        self._reported: dict[str, str] = {}

    def forget_report(self, agent: str) -> None:
        """Tell the room of it again: somebody asked."""
        self._reported.pop(agent, None)

    async def merger(self, worktree: TrackedWorktree) -> tuple[BranchMerger, MergeSource]:
        registry = self._registry
        assert registry.main is not None and registry.lifecycle is not None
        snapshot = await worktree.take_snapshot(everything=True)
        person = not worktree.own and registry.settings.agent(worktree.name) is None
        since = worktree.work.started_at if worktree.work is not None else 0.0
        source = MergeSource(worktree.name, worktree.checkout, snapshot, worktree.own, person, since)
        head = await registry.main_head()
        merger = BranchMerger(
            registry.main, head, registry.lifecycle, registry.scratch, registry.room, registry.settings
        )
        return merger, source

    async def update_of(self, worktree: TrackedWorktree) -> tuple[UpdateFromMain, MergeSource]:
        registry = self._registry
        assert registry.main is not None and registry.lifecycle is not None
        merger, source = await self.merger(worktree)
        return UpdateFromMain(registry.main, registry.lifecycle, registry.scratch, merger), source

    async def recover(self) -> None:
        """At the start: go on where a daemon that was killed left a merge into an agent's own branch."""
        for worktree in list(self._registry.worktrees.values()):
            try:
                async with worktree.lock:
                    if (
                        worktree.own
                        and worktree.name not in self._registry.turn_trees
                        and await started_merge(worktree.checkout)
                    ):
                        await self.take(worktree, await worktree.take_snapshot(everything=True), begin=False)
                        worktree.mark_stale(None)
            except (GitError, WorktreeGone, OSError) as error:
                log.warning("merge not taken up again", agent=worktree.name, reason=str(error))
        self._registry.wake.set()

    async def give_up_stale(self, agents: Iterable[str]) -> None:
        """Give up merges that are over (`_why_over`), while their agents are not at work."""
        for name in agents:
            worktree = self._registry.worktrees.get(name)
            if (
                worktree is None
                or not worktree.own
                or worktree.snapshot is None
                or not worktree.snapshot.merging
            ):
                continue
            try:
                async with worktree.lock:
                    started = await started_merge(worktree.checkout)
                    if started is None or name in self._registry.turn_trees:
                        continue
                    snapshot = await worktree.take_snapshot(everything=True)
                    if await self._why_over(worktree, started, snapshot):
                        await self.take(worktree, snapshot, begin=False)
            except (GitError, WorktreeGone, OSError) as error:
                log.warning("merge not given up", agent=name, reason=str(error))

    async def is_stale(self, started: StartedMerge) -> bool:
        """Has the branch that is being merged lost the commit? While another one is out nobody says so."""
        target, main = await self._registry.target(), self._registry.main
        if target is None or main is None or target.name != started.into:
            return False
        return not await is_ancestor(main.git, started.other, target.commit)

    async def _why_over(self, worktree: TrackedWorktree, started: StartedMerge, snapshot: Snapshot) -> str:
        """Who gives up a merge that relay began, with the reason; empty while it is to be settled. One that somebody
        has written into is theirs, unless its commit is gone. Raises GitError."""
        if await self.is_stale(started):
            return GONE.format(started.into)
        target = await self._registry.target()
        if target is None or target.name != started.into:
            return ""
        written = await worktree.checkout.git.line("rev-parse", f"{started.commit}^{{tree}}")
        trials = self._registry.merge_trials
        if snapshot.tree != written or not await trials.is_needless(started.head, started.other, target):
            return ""
        return NEEDLESS.format(started.into)

    async def give_up(
        self, worktree: TrackedWorktree, update: UpdateFromMain, started: StartedMerge, why: str
    ) -> str:
        """The ref that keeps what stood in the files."""
        snapshot = await worktree.take_snapshot(everything=True)
        ref = await update.abort(worktree.name, worktree.checkout, snapshot, started)
        worktree.mark_stale(None)
        text = (
            f"{why} gave up the merge of {started.into} into {snapshot.head.branch} of {worktree.name}: its files "
            f"are as before the merge. What stood in them is kept in `{ref}`."
        )
        await self._record(ABORTED, worktree, text, started.head, kept=ref)
        return ref

    async def take(self, worktree: TrackedWorktree, snapshot: Snapshot, *, begin: bool) -> str:
        """Go on with a merge of the main branch into the agent's, or begin one; what the agent is told of it."""
        registry, target = self._registry, await self._registry.target()
        if target is None or not (begin or await started_merge(worktree.checkout)):
            return ""
        update, source = await self.update_of(worktree)
        try:
            started = await update.resume(worktree.name, worktree.checkout, source.snapshot)
            why = await self._why_over(worktree, started, source.snapshot) if started is not None else ""
            if started is not None and why:
                await self.give_up(worktree, update, started, why)
                started, source = (
                    None,
                    replace(source, snapshot=await worktree.take_snapshot(everything=True)),
                )
            if started is None:
                if not begin or await operation_under_way(worktree.checkout):
                    return ""
                taken = await update.begin(source, target)
                if taken is None:
                    return ""
                commit, joined = taken
                if commit:
                    branch = source.snapshot.head.branch
                    how = f"it joined {joined_words(joined)}" if joined else "no conflict"
                    text = f"relay merged {target.name} into {branch} of {worktree.name}: {how}."
                    await self._record(TAKEN_IN, worktree, text, commit)
                    return taken_in(target.name, joined)
                started = await started_merge(worktree.checkout)
                snapshot = await worktree.take_snapshot(everything=True)
                left = await self._unsettled(worktree, snapshot)
                text = (
                    f"relay began to merge {target.name} into {snapshot.head.branch} of {worktree.name}. "
                    f"In conflict: {left}. {worktree.name} settles it by editing; "
                    "relay commits it."
                )
                await self._record(TAKING, worktree, text, None, [path for path, _ in snapshot.unsettled])
            else:
                snapshot = await worktree.take_snapshot(everything=True)
            if started is None:
                return ""
            # Without a marker it is not committed here: a turn that was cut off may have left it half done.
            return to_settle(started.into, snapshot.unsettled)
        except Refusal as refusal:
            text = f"relay could not merge {target.name} into the branch of {worktree.name}: {refusal}"
            await self._record(UNSETTLED, worktree, text)
            return ""
        finally:
            registry.wake.set()

    async def ask(self, agent: str, since: float, work: str, refusal: Conflict) -> Sequence[str]:
        """Ask the room about what conflicts between the main branch and the commit `work` of an agent, who has worked
        on it `since` (Unix seconds); the names of these conflicts."""
        parts = [] if refusal.merge is None else [part for part in refusal.merge.parts if not part.settled]
        if not parts or self._registry.main is None:
            return ()
        git, room = self._registry.scratch.git(self._registry.main), self._registry.room
        about = await room.summary(agent, since)
        asked = [each.text for each in about.requests]
        intent = (asked or about.tasks or ("",))[-1]
        agents = frozenset(self._registry.settings.agent_names)
        ours = await room.authors(self._registry.main, git, agents, refusal.main, work, parts)
        wanted = WantedMerge(agent, refusal.into, refusal.main, work, ours, (agent, intent))
        return await room.ask(wanted, parts)

    async def conclude(self, worktree: TrackedWorktree, snapshot: Snapshot) -> Snapshot:
        """At the end of a turn: commit a merge that is settled, or say what is not."""
        started = await started_merge(worktree.checkout)
        if started is None:
            return snapshot
        update, _ = await self.update_of(worktree)
        if not await update.is_under_way(worktree.checkout, started, snapshot.head):
            return await worktree.take_snapshot(everything=True)
        try:
            if why := await self._why_over(worktree, started, snapshot):
                await self.give_up(worktree, update, started, why)
                return await worktree.take_snapshot(everything=True)
            if not snapshot.unsettled:
                commit = await update.conclude(worktree.name, worktree.checkout, snapshot, started)
                worktree.mark_stale(None)
                text = f"relay committed the merge of {started.into} into {snapshot.head.branch} of {worktree.name}."
                await self._record(TAKEN_IN, worktree, text, commit)
                return await worktree.take_snapshot(everything=True)
            left = await self._unsettled(worktree, snapshot)
            text = (
                f"{worktree.name} has not settled {left}: the merge of {started.into} into {snapshot.head.branch} is "
                f"still under way. `/update @{worktree.name}` asks again; "
                f"{command(f'worktrees abort {worktree.name}')} gives the merge up."
            )
        except Refusal as refusal:
            text = f"relay could not commit the merge of {started.into} into the branch of {worktree.name}: {refusal}"
        await self._record(UNSETTLED, worktree, text, None, [path for path, _ in snapshot.unsettled])
        return snapshot

    async def _unsettled(self, worktree: TrackedWorktree, snapshot: Snapshot) -> str:
        """What is not settled, as people read of it."""
        return listed(await in_own_lines(self._registry.differ, worktree.snapshotter.git, snapshot))

    async def report_committed_markers(self, worktree: TrackedWorktree, snapshot: Snapshot) -> None:
        """Say which conflict markers an agent committed by itself."""
        await self._registry.survey(worktree)
        if left := worktree.work.unsettled if worktree.work else ():
            text = (
                f"{worktree.name} has committed conflict markers: {listed(left)}. {snapshot.head.branch} does not "
                f"merge before they are resolved; `/update @{worktree.name}` asks for it."
            )
            await self._record(UNSETTLED, worktree, text, snapshot.head.commit, [path for path, _ in left])

    async def _record(
        self,
        what: str,
        worktree: TrackedWorktree,
        text: str,
        commit: str | None = None,
        conflicts: Sequence[str] = (),
        kept: str = "",
    ) -> None:
        if what == UNSETTLED and self._reported.get(worktree.name) == text:
            return
        self._reported[worktree.name] = text
        branch = worktree.branch
        details: dict[str, Any] = {"conflicts": list(conflicts)} if conflicts else {}
        details |= {"kept": kept} if kept else {}
        await self._registry.room.record(
            WorktreeChange(what, worktree.name, branch, "RELAY", text, commit, details)
        )
