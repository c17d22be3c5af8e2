"""Would the worktrees merge, as they stand: each into the main branch, and each pair together?

Invariant: git answers, and only for the worktrees' last surveys; what git could not tell is unknown, never clean.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from relay.airspace.shared.shared_work import SharedWork
from relay.airspace.worktrees.lifecycle import is_ancestor
from relay.airspace.worktrees.merging.undone import undone
from relay.airspace.worktrees.room import WorktreeRoom
from relay.airspace.worktrees.survey import Work
from relay.airspace.worktrees.tracked_worktree import TrackedWorktree
from relay.git.checkout import Checkout
from relay.git.diff import Differ
from relay.git.merge_state import UnsettledFile
from relay.git.run import GitError
from relay.git.scratch_repository import ScratchRepository
from relay.git.trial_merge import Merge, Target, Trial, TrialMerges, Verdict
from relay.model.working_set import could_collide

log = structlog.get_logger(__name__)
#: Calls of git that run at the same time.
AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class _Side:
    """One of a pair. `elsewhere`: it lives at another member of the fleet."""

    commit: str
    paths: frozenset[str]
    moved: bool
    unsettled: tuple[UnsettledFile, ...]
    elsewhere: bool = False


class MergeTrials:
    """Tries merges of these worktrees in the scratch repository, and remembers the answers."""

    def __init__(
        self,
        scratch: ScratchRepository,
        differ: Differ,
        worktrees: Mapping[str, TrackedWorktree],
        room: WorktreeRoom,
    ) -> None:
        self._scratch, self._worktrees = scratch, worktrees
        #: The main checkout; None until the registry has found it.
        self.main: Checkout | None = None
        #: The agents of the fleet's other members.
        self.others: Mapping[str, SharedWork] = {}
        self._trials = TrialMerges(differ, room.join)
        self._room, self._choices = room, 0
        #: Of each agent, the base and the tree that were looked at, and what of others the work undoes.
        self._undone: dict[str, tuple[tuple[str, str], list[Mapping[str, str]]]] = {}

    def forget(self) -> None:
        """What was tried before counts no more."""
        self._trials.forget()

    async def undone(self, name: str, work: Work) -> list[Mapping[str, str]]:
        """What the work of this agent undoes of what others landed (`relay.airspace.worktrees.merging.undone`)."""
        of = (work.base, work.snapshot.tree)
        if self.main is None or not work.records or work.unsettled:
            return []
        if name not in self._undone or self._undone[name][0] != of:
            found: list[Mapping[str, str]] = []
            try:
                found = await undone(self._scratch.git(self.main), name, *of, work.records)
            except GitError as error:
                log.warning("not known what it undoes", agent=name, reason=str(error))
            self._undone[name] = of, found
        return self._undone[name][1]

    async def contains(self, main: str, commit: str) -> bool:
        """Would a merge of this commit change nothing in `main`? Raises GitError."""
        if self.main is None:
            return False
        trial = await self._trials.trial(self._scratch.git(self.main), commit, main, nothing=False)
        return trial.verdict is Verdict.NOTHING

    async def is_needless(self, head: str, merging: str, target: Target) -> bool:
        """Is a merge of the commit `merging` of the main branch into `head` not needed: has the main branch moved on,
        or somebody chosen, so that `target` takes `head` without a conflict? Raises GitError."""
        if self.main is None:
            return False
        git = self._scratch.git(self.main)
        trial = await self._trials.trial(git, head, target.commit, nothing=False)
        if trial.verdict not in (Verdict.CLEAN, Verdict.NOTHING):
            return False
        chosen = any("resolved" in file.by for file in trial.joined)
        return chosen if merging == target.commit else await is_ancestor(git, merging, target.commit)

    async def trials(self, target: Target | None) -> Mapping[str, Trial]:
        """Of each worktree: would it merge into `target` as it stands, with what is not committed?

        Nothing of it is older than the target. Empty without a target or a repository.
        """
        if target is None or self.main is None:
            return {}
        if (choices := await self._room.choices()) != self._choices:
            self._choices = choices
            self.forget()  # somebody has decided what is to stand in a conflict
        git, gate = self._scratch.git(self.main), asyncio.Semaphore(AT_ONCE)
        results: dict[str, Trial] = {}

        async def ask(name: str, work: Work | None) -> None:
            if work is None:
                results[name] = Trial(None)
                return
            if work.unsettled:
                # Its files have git's markers in them: whatever they would merge as, nobody wants it.
                lines = {path: spans for path, spans in work.unsettled if spans}
                paths = tuple(path for path, _ in work.unsettled)
                merging = bool(work.snapshot.merging)
                results[name] = Trial(Verdict.CONFLICTS, paths, lines, unsettled=True, merging=merging)
            async with gate:
                try:
                    head, under_way = work.snapshot.head.commit, work.snapshot.merging
                    if name in results and head is not None and len(under_way) == 1:
                        if await self.is_needless(head, under_way[0], target):
                            results[name] = replace(results[name], needless=True)
                            return
                        if under_way[0] == target.commit:
                            return
                    empty = not work.snapshot.dirty and (
                        work.empty
                        if work.main == target.commit
                        else await is_ancestor(git, work.snapshot.commit, target.commit)
                    )
                    tried = await self._trials.trial(
                        git, work.snapshot.commit, target.commit, nothing=empty, lines=True
                    )
                    if name not in results:
                        results[name] = tried
                        return
                    # What is not settled, and what the main branch has got since then: by the lines of its own file.
                    held = results[name].paths
                    if under_way and head is not None:
                        own = await self._trials.trial(git, head, target.commit, nothing=False, lines=True)
                        known = {path: own.lines.get(path, ()) for path in held}
                        tried = replace(tried, lines={**tried.lines, **known})
                    results[name] = tried.added_to(results[name])
                except GitError as error:
                    log.warning("merge not tried", agent=name, reason=str(error))
                    results.setdefault(name, Trial(None))

        async with asyncio.TaskGroup() as group:
            for name, worktree in list(self._worktrees.items()):
                group.create_task(ask(name, worktree.work), name=f"trial-{name}")
        return results

    async def elsewhere(self, target: Target) -> dict[str, Trial]:
        """The same of agents of other members whose main branch is behind `target`, and is to follow it: what they
        told is about what was there before. Those whose work is not here are left out."""
        if self.main is None:
            return {}
        git, found = self._scratch.git(self.main), dict[str, Trial]()
        for name, other in list(self.others.items()):
            told = other.target
            if name in self._worktrees or told is None or not other.at_hand or not other.commit:
                continue
            if (told.branch, other.unsettled) != (target.branch, ()) or told.commit == target.commit:
                continue
            try:
                if await is_ancestor(git, told.commit, target.commit):
                    nothing = await is_ancestor(git, other.commit, target.commit)
                    found[name] = await self._trials.trial(
                        git, other.commit, target.commit, nothing=nothing, lines=True
                    )
            except GitError as error:  # a main branch that was never here
                log.debug("merge not tried", agent=name, reason=str(error))
        return found

    def pairs(self) -> list[tuple[str, str]]:
        """The pairs that git is asked about, by whoever asks."""
        names = [*self._worktrees, *(name for name in self.others if name not in self._worktrees)]
        sides = {name: side for name in names if (side := self._side(name)) is not None}
        moved = {name for name, side in sides.items() if side.moved}
        return could_collide({name: side.paths for name, side in sides.items()}, moved)

    def _side(self, name: str) -> _Side | None:
        worktree = self._worktrees.get(name)
        work = None if worktree is None else worktree.work
        if work is not None:
            moved = any(record.new_path for record in work.own_records)
            return _Side(work.side, work.paths, moved, work.marked)
        other = self.others.get(name)
        if other is None or not other.commit:
            return None
        return _Side(other.side, other.paths, other.moved, other.marked, elsewhere=True)

    async def merges(
        self,
        pairs: Sequence[tuple[str, str]],
        trials: Mapping[str, Trial],
        *,
        most: int | None = None,
    ) -> Mapping[tuple[str, str], Merge]:
        """Of these pairs, those that git can tell: would the one worktree merge onto the other as they stand?

        What one of a pair does not touch, and the main branch does not take from the other either, lies between
        that other and the main branch (`trials`), not between the two; so does all of one that has nothing to merge.
        `most`: pairs that are asked of git at most; those that are remembered cost nothing.
        """
        if self.main is None:
            return {}
        git, gate = self._scratch.git(self.main), asyncio.Semaphore(AT_ONCE)
        results: dict[tuple[str, str], Merge] = {}

        async def ask(pair: tuple[str, str], a: _Side, b: _Side) -> None:
            async with gate:
                merged = await self._trials.merge(git, a.commit, b.commit)
            if merged is not None:
                # What has markers in it merges with nothing, whatever git makes of the markers.
                held = dict.fromkeys(path for work in (a, b) for path, _ in work.unsettled)
                tried = replace(merged, conflicts=tuple(dict.fromkeys([*merged.conflicts, *held])))
                between = _between(tried, (a, b), [trials.get(name) for name in pair])
                results[pair] = _of_both(between, (a, b))

        asked = 0
        async with asyncio.TaskGroup() as group:
            for pair in dict.fromkeys(pairs):
                a, b = map(self._side, pair)
                if a is None or b is None or not self.at_hand(pair):
                    continue
                verdicts = [trial.verdict for name in pair if (trial := trials.get(name))]
                if Verdict.NOTHING in verdicts:
                    # The one is as good as the main branch; of the other git has told, or it stays unknown.
                    if None not in verdicts:
                        results[pair] = Merge(())
                    continue
                if not self._trials.knows(a.commit, b.commit):
                    if most is not None and asked >= most:
                        continue
                    asked += 1
                group.create_task(ask(pair, a, b), name=f"merge-{pair[0]}-{pair[1]}")
        return results

    def at_hand(self, pair: tuple[str, str]) -> bool:
        """Are the commits of both here? One of an agent elsewhere is once it was fetched."""
        away = [self.others[name] for name in pair if name not in self._worktrees and name in self.others]
        return all(other.at_hand for other in away)


def _of_both(merge: Merge, sides: tuple[_Side, _Side]) -> Merge:
    """Of a pair on two machines, whose main branches may stand at two commits: only what both have touched, since the
    rest is about these commits. A rename moves what others touch, so then all of it stands."""
    if not any(side.elsewhere for side in sides) or any(side.moved for side in sides):
        return merge
    both = sides[0].paths & sides[1].paths
    return replace(
        merge,
        conflicts=tuple(path for path in merge.conflicts if path in both),
        joined=tuple(file for file in merge.joined if file.path in both),
    )


def _between(merge: Merge, works: tuple[_Side, _Side], trials: Sequence[Trial | None]) -> Merge:
    """The conflicts and joined files of a pair without those that the one has with the main branch, of which the
    other only has what the main branch has."""
    alone: set[str] = set()
    for work, trial in zip(works, reversed(trials), strict=True):
        if trial is not None:
            alone |= {*trial.paths, *(file.path for file in trial.joined)} - work.paths
    if not alone:
        return merge
    return replace(
        merge,
        conflicts=tuple(path for path in merge.conflicts if path not in alone),
        joined=tuple(file for file in merge.joined if file.path not in alone),
    )
