"""The registry of worktrees: every worktree of the room, its last snapshot, and the work in it.

Invariants: one task at a time reads a checkout; what did not change is not read again; a caller gets the last
complete survey, never half of one.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import structlog

from relay.airspace.globs import matches
from relay.airspace.text_similarity import Vocabulary
from relay.airspace.worktrees.change_feed import ChangeFeed
from relay.airspace.worktrees.lifecycle import WorktreeChange, WorktreeLifecycle, hide, pattern
from relay.airspace.worktrees.merge_trials import MergeTrials
from relay.airspace.worktrees.merging.semantic_checks import SemanticChecks
from relay.airspace.worktrees.room import MergeTest, WorktreeRoom
from relay.airspace.worktrees.survey import Surveyor, Work, messages
from relay.airspace.worktrees.tracked_worktree import TrackedWorktree, WorktreeGone
from relay.config.settings import AgentSettings, Settings
from relay.git import diff
from relay.git.checkout import Checkout, Head, UnusableCheckout, head_of, list_worktrees, open_checkout
from relay.git.diff import Differ, Outline
from relay.git.kept_snapshots import ref_component
from relay.git.run import GitError
from relay.git.scratch_repository import ScratchRepository
from relay.git.snapshot import Snapshotter
from relay.git.trial_merge import Merge, Target
from relay.model.working_set import WorkingSet, moment

log = structlog.get_logger(__name__)
#: Of a main checkout that is on no branch since before anybody looked.
UNSEEN = "and which one it was on before is not known, so nothing can be merged"
#: Messages of the main branch that say how common a word is in this codebase.
DOCUMENTS = 1000
#: Kinds of agents that can change files.
EDITORS = ("command", "acp", "scripted")
#: Checkouts that are looked at at the same time.
AT_ONCE = 2


class WorktreeRegistry:
    """All worktrees of one room. `open` first; then `refresh` whenever something changed (`watcher.py`).

    `scratch`: where git keeps what nobody committed; None = in the room's folder. `outline` finds definitions.
    `make` false: only worktrees that are there.
    """

    def __init__(
        self,
        settings: Settings,
        room: WorktreeRoom,
        *,
        outline: Outline | None = None,
        scratch: Path | None = None,
        make: bool = True,
    ) -> None:
        self.settings = settings
        self.room = room
        #: Why no agent has a worktree; empty when they can.
        self.trouble = ""
        #: Why single ones have none, by name.
        self.troubles: dict[str, str] = {}
        self.differ = Differ(outline)
        self.scratch = ScratchRepository(scratch or settings.runtime_dir / "airspace.git")
        self.worktrees: dict[str, TrackedWorktree] = {}
        self.main: Checkout | None = None
        self.lifecycle: WorktreeLifecycle | None = None
        #: Held while worktrees are made, merged or removed.
        self.exclusive = asyncio.Lock()
        #: Set when there is something to look at, and when other folders are to be watched.
        self.wake, self.folders_changed = asyncio.Event(), asyncio.Event()
        #: Set once every worktree was looked at, or when there is none: before, nobody's hands are known to be empty.
        self.surveyed = asyncio.Event()
        #: Agents whose turn runs, with the tree that it began with.
        self.turn_trees: dict[str, str] = {}
        #: By name, the checkouts of people's own sessions that are here (docs/attach.md).
        self.guests: Mapping[str, Path] = {}
        self._make = make
        self.merge_trials = MergeTrials(self.scratch, self.differ, self.worktrees, room)
        self.semantic = SemanticChecks(self.scratch, self.worktrees, room)
        self._surveyor = self._surveyor_of(settings)
        self._main_commit: str | None = None
        #: The branch that the main checkout was on when it last was on one.
        self._main_branch: str | None = None
        #: Why it is not known what worktrees are merged into; empty when it is.
        self.no_main = ""
        self._churn: tuple[str, Mapping[bytes, int]] = ("", {})
        #: Of the main branch's newest messages.
        self.vocabulary = Vocabulary()
        self._feeds: set[ChangeFeed] = set()

    async def test(self, tree: str) -> MergeTest | None:
        """The configured tests on a tree of the scratch repository; None: none are configured."""
        return None if self.main is None else await self.room.test(self.scratch.git(self.main), tree)

    # -- who is in it

    async def open(self) -> None:
        """Find the repository and the worktrees that are there, and make those that are missing."""
        async with self.exclusive:
            if self.main is None:
                await self._find_main()
            if self.main is not None:
                await self._track_all()
            else:
                self.surveyed.set()

    def _surveyor_of(self, settings: Settings) -> Surveyor:
        return Surveyor(self.differ, partial(matches, globs=settings.airspace.ignored))

    async def welcome(self, guests: Mapping[str, Path]) -> None:
        """Take over which of people's own sessions are here, by name in the order in which they came."""
        if list(guests.items()) != list(self.guests.items()):
            self.guests = dict(guests)
            await self.open()

    async def apply(self, settings: Settings) -> None:
        """Take over a configuration: new agents get a worktree, those that are gone keep theirs."""
        before, self.settings = self.settings, settings
        if before.merge != settings.merge:
            self.merge_trials.forget()
            self.semantic.forget()
        if before.airspace.ignored != settings.airspace.ignored:
            self._surveyor = self._surveyor_of(settings)
            for worktree in self.worktrees.values():
                worktree.mark_stale(None)
                worktree.work = None
            self.wake.set()
        await self.open()

    async def _find_main(self) -> None:
        self.trouble = ""
        try:
            if self._make:
                await asyncio.to_thread(hide, self.settings.runtime_dir)
            main = await open_checkout(self.settings.repo)
            head = await head_of(main.git)
            if head.commit is None:
                raise UnusableCheckout(f"{main.top} has no commit yet: make the first one")
            await self.scratch.empty(main.hash)
            await self.scratch.borrow([main])
        except (UnusableCheckout, GitError, OSError) as error:
            at = f" at {self.settings.member}" if self.settings.member else ""
            self.trouble = f"Agents{at} have no worktrees, and only read: {error}."
            return
        self.main = self.merge_trials.main = self.semantic.main = main
        self._main_commit, self._main_branch = head.commit, head.branch
        self.lifecycle = WorktreeLifecycle(main, self.settings.worktrees_dir, self.scratch)

    async def _track_all(self) -> None:
        """Track the worktree of each agent and each named checkout, and those that agents which are gone left."""
        assert self.lifecycle is not None
        wanted: set[str] = set()
        for agent in self.settings.agents:
            if agent.kind in EDITORS and (agent.worktree is not None or self.settings.workspace.worktrees):
                wanted.add(agent.name)
                await self._attempt(agent.name, self._track_agent(agent))
        for checkout in self.settings.workspace.checkouts:
            wanted.add(checkout.name)
            await self._attempt(checkout.name, self._track(checkout.name, checkout.path, own=False))
        tops = {each.checkout.top for name, each in self.worktrees.items() if name in wanted}
        for name, path in self.guests.items():
            if name not in wanted and path not in tops:
                # Of two in one checkout the first stands for both: what is changed there is no collision of the two.
                tops.add(path)
                wanted.add(name)
                await self._attempt(name, self._track(name, path, own=False))
        for listed in await self.lifecycle.mine():
            name = listed.path.name.upper()
            if name not in wanted and not listed.gone:
                wanted.add(name)
                await self._attempt(name, self._track(name, listed.path, own=True))
        for name in self.worktrees.keys() - wanted:
            del self.worktrees[name]
        self.folders_changed.set()
        self.wake.set()

    async def _attempt(self, name: str, tracking: Awaitable[None]) -> None:
        """One that cannot be had keeps nobody else from theirs."""
        try:
            await tracking
            self.troubles.pop(name, None)
        except (UnusableCheckout, GitError, OSError) as error:
            if self.troubles.get(name) != str(error):
                log.warning("no worktree", agent=name, reason=str(error))
            self.troubles[name] = str(error)
            self.worktrees.pop(name, None)

    async def _track_agent(self, agent: AgentSettings) -> None:
        assert self.lifecycle is not None
        if agent.worktree is not None:
            await self._track(agent.name, agent.worktree, own=False)
            return
        have = self.worktrees.get(agent.name)
        if have is not None and have.own and await have.is_there():
            return
        if not await asyncio.to_thread(self.lifecycle.path_of(agent.name).is_dir):
            if not self._make:
                return
            await self.room.check_space(agent.name)
        made = await self.lifecycle.ensure(agent.name, (await self.main_head()).commit, agent.role)
        await self._track(agent.name, made.checkout.top, own=True)
        if made.how != "kept":
            log.info("worktree made", agent=agent.name, path=str(made.checkout.top), how=made.how)
            await self.room.record(WorktreeChange(made.how, agent.name, made.branch, "RELAY"))

    async def _track(self, name: str, path: Path, *, own: bool) -> None:
        have = self.worktrees.get(name)
        if have is not None and have.named == path and await have.is_there():
            return
        checkout = await open_checkout(path)
        await self.scratch.borrow([checkout])
        snapshotter = Snapshotter(self.scratch, checkout, ref_component(name), self.not_work(checkout.top))
        branch = ""
        if own and self.lifecycle is not None:
            branch = await self.lifecycle.branch_of(name, checkout)
        self.worktrees[name] = TrackedWorktree(name, path, checkout, snapshotter, own, branch)

    def not_work(self, top: Path) -> tuple[str, ...]:
        """The room's own files inside a checkout, as patterns of `.gitignore`."""
        settings = self.settings
        own = (settings.runtime_dir, settings.transcript_path, settings.lock_path)
        return tuple(pattern(path, top) for path in own if path.resolve().is_relative_to(top))

    # -- what stands in them

    def listen(self) -> ChangeFeed:
        """A feed of the agents whose working sets change from now on."""
        return ChangeFeed(self._feeds)

    async def refresh(self) -> None:
        """Look at what changed since the last look, and tell who listens."""
        if self.main is None:
            return
        await self._sweep()
        await self._look_at_main()
        gate = asyncio.Semaphore(AT_ONCE)
        changed: set[str] = set()

        async def look(worktree: TrackedWorktree) -> None:
            async with gate:
                if await self.survey(worktree):
                    changed.add(worktree.name)

        async with asyncio.TaskGroup() as group:
            for worktree in list(self.worktrees.values()):
                group.create_task(look(worktree), name=f"survey-{worktree.name}")
        self.surveyed.set()
        if changed:
            for feed in self._feeds:
                feed.tell(changed)

    async def _sweep(self) -> None:
        """Empty the scratch when it is full; what is needed of it is written again."""
        assert self.main is not None
        if not await asyncio.to_thread(self.scratch.is_full):
            return
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.exclusive)
            for worktree in list(self.worktrees.values()):
                await stack.enter_async_context(worktree.lock)
            await self.scratch.empty(self.main.hash)
            self.merge_trials.forget()
            self.semantic.forget()
            for worktree in self.worktrees.values():
                worktree.snapshotter.forget()
                worktree.mark_stale(None)
                await worktree.take_snapshot()

    async def _look_at_main(self) -> None:
        assert self.main is not None
        head = await self.main_head()
        if head.commit is not None:
            self._main_commit = head.commit
        if self._main_commit and self._churn[0] != self._main_commit:
            try:
                counts = await diff.churn(self.scratch.git(self.main), self._main_commit)
                self._churn = self._main_commit, counts
                texts = await messages(self.scratch.git(self.main), self._main_commit, DOCUMENTS)
                self.vocabulary = await asyncio.to_thread(Vocabulary.of, texts)
            except GitError as error:
                log.warning("history not read", reason=str(error))

    async def survey(self, worktree: TrackedWorktree) -> bool:
        """Bring one worktree up to date; True when its work changed."""
        main, before = self._main_commit, worktree.work
        assert main is not None
        try:
            async with worktree.lock:
                snapshot = await worktree.take_snapshot()
                if before is not None and (before.snapshot, before.main) == (snapshot, main):
                    return False
                work = await self._surveyor.survey(
                    worktree.snapshotter.git,
                    worktree.checkout,
                    snapshot,
                    main,
                    worktree.first_seen,
                    time.time(),
                )
                work = await self._without_what_is_in(work)
                if before is not None and before.started_at and work.started_at:
                    # A file that is written again has a new time; the work began when it began.
                    work = replace(work, started_at=min(work.started_at, before.started_at))
                worktree.work = work
        except WorktreeGone:
            self.troubles[worktree.name] = f"its folder {worktree.checkout.top} is gone"
            self.worktrees.pop(worktree.name, None)
            self.folders_changed.set()
            return True
        except (GitError, OSError) as error:
            if worktree.trouble != str(error):
                log.warning("worktree not read", agent=worktree.name, reason=str(error))
            worktree.trouble = str(error)
            worktree.mark_stale(None)
            return False
        worktree.trouble = ""
        return work != before

    async def _without_what_is_in(self, work: Work) -> Work:
        """The main branch may have all of it by other commits (a squash): then it has nothing in hand."""
        if not work.records or not await self.merge_trials.contains(work.main, work.snapshot.commit):
            return work
        left = [file for file in work.unsettled if file[0] in dict(work.snapshot.unsettled)]
        return replace(work, records=(), own={}, committed=0, unsettled=tuple(left))

    def find(self, agent: str) -> TrackedWorktree | None:
        """By the agent's name, in any case; not the checkout of a person's own session, in which nobody else acts."""
        found = self.worktrees.get(agent) or self.worktrees.get(agent.upper())
        return None if found is None or found.name in self.guests else found

    def checkout_name(self, agent: str) -> str:
        """How the log calls the checkout that an agent works in: by the first of the configuration that does."""
        return next(iter(self._agents_beside(agent)), agent)

    def is_shared(self, agent: str) -> bool:
        """Does another agent work in the same checkout?"""
        return len(self._agents_beside(agent)) > 1

    def beside(self, wanted: Iterable[TrackedWorktree]) -> list[TrackedWorktree]:
        """These, and those of the agents that work in the same checkouts."""
        tops = {each.checkout.top for each in wanted}
        return [each for each in self.worktrees.values() if each.checkout.top in tops]

    def _agents_beside(self, agent: str) -> list[str]:
        if (worktree := self.worktrees.get(agent)) is None:
            return []
        top, names = worktree.checkout.top, [each.name for each in self.settings.agents]
        found = [(name, each) for name in names if (each := self.worktrees.get(name)) is not None]
        return [name for name, each in found if each.checkout.top == top]

    # -- for the scanner

    async def working_sets(self) -> Sequence[WorkingSet]:
        """W_a of every agent and person with a worktree, weights as of this `moment`."""
        half_life = self.settings.airspace.half_life_s
        now = moment(time.time(), half_life)
        surveyed = [
            (worktree.name, worktree.work)
            for worktree in self.worktrees.values()
            if worktree.work is not None
        ]
        churn = self._churn[1]
        return await asyncio.to_thread(
            lambda: [work.working_set(name, churn, now=now, half_life_s=half_life) for name, work in surveyed]
        )

    async def catch_up(self) -> None:
        """Look anew where the main branch has moved since the last look; a merge that is under way is waited for."""
        target = await self.target()
        if target is None or all(
            worktree.work is None or worktree.trouble or worktree.work.main == target.commit
            for worktree in self.worktrees.values()
        ):
            return
        async with self.exclusive:
            pass
        await self.refresh()

    async def target(self) -> Target | None:
        """What worktrees are merged into, as it is at this moment; None without a repository or a commit, and where
        the branch is not known (`main_head`)."""
        if self.main is None:
            return None
        head = await self.main_head()
        return None if head.commit is None else Target(head.branch, head.commit)

    async def main_head(self) -> Head:
        """What is "main": the one answer for merges, advisories and interfaces. It is the branch that the main
        checkout is on, or was on before it was detached (a look at an older commit, a rebase, a bisection). Where
        nobody saw it, it is not known: no branch and no commit, and `no_main` says so."""
        assert self.main is not None
        head = await head_of(self.main.git)
        if head.branch is None and self._main_branch is not None:
            asked = ("rev-parse", "--verify", "-q", f"refs/heads/{self._main_branch}^{{commit}}")
            commit = await self.main.git.maybe(*asked)
            head = Head(self._main_branch if commit else None, commit)
        elif head.branch is None:
            head = Head(None, None)
        self._main_branch = head.branch
        self.no_main = "" if head.branch else f"{self.main.top} is on no branch, {UNSEEN}."
        return head


async def scan_repo(
    folder: Path, room: WorktreeRoom, *, outline: Outline | None = None
) -> tuple[list[WorkingSet], dict[tuple[str, str], Merge]]:
    """The working sets of all worktrees that a repository really has, each under its branch's or folder's name,
    and the speculative merge of each pair. `room`: joins where git conflicts. Writes nothing there. Raises
    UnusableCheckout, GitError."""
    main = await open_checkout(folder)
    with tempfile.TemporaryDirectory(prefix="relay-scan-") as made:
        # Nothing of the room's is asked: where it would be is in the temporary folder.
        settings = Settings(Path(made).resolve() / "config.json")
        registry = WorktreeRegistry(settings, room, outline=outline, scratch=Path(made) / "scratch.git")
        head = await head_of(main.git)
        if head.commit is None:
            raise UnusableCheckout(f"{main.top} has no commit yet: there is nothing to compare")
        registry.main = registry.merge_trials.main = main
        registry._main_commit = head.commit
        await registry.scratch.empty(main.hash)
        names: set[str] = set()
        for listed in await list_worktrees(main.git):
            if listed.gone or listed.bare:
                continue
            name = listed.branch or listed.path.name
            name = name if name not in names else str(listed.path)
            names.add(name)
            await registry._track(name, listed.path, own=False)
        await registry.refresh()
        unread = [
            f"{worktree.name}: {worktree.trouble}"
            for worktree in registry.worktrees.values()
            if worktree.work is None
        ]
        if unread:
            raise GitError("scan", 1, "; ".join(unread))
        pairs = [(a, b) for a in sorted(names) for b in sorted(names) if a < b]
        # No main branch stands apart here: each checkout is one of the sides.
        return list(await registry.working_sets()), dict(await registry.merge_trials.merges(pairs, {}))
