"""What the worktrees ask of a room with a database: may this be merged, what is it about, and keep what happened.

Invariants:
- the event `worktree.changed` and what the room says of it are one transaction. A database that cannot take them now
  is waited for, a while; the change itself is in git already and is not undone for it;
- what a branch changes and somebody else has locked is not merged. A merge writes the branch for its agent: the
  agent's own locks, in any session, are no hindrance, nor are those of the person who merges.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import structlog

from relay.airspace.pair_facts import SemanticConflict
from relay.airspace.worktrees.commit_message import Asked, WorkSummary
from relay.airspace.worktrees.lifecycle import (
    CHANGED,
    DISCARDED,
    MERGED,
    TAKEN_BACK,
    TAKEN_IN,
    WorktreeChange,
)
from relay.airspace.worktrees.room import (
    KnownTests,
    LastLanding,
    LockedFiles,
    MergeTest,
    WantedMerge,
    WorktreeRoom,
)
from relay.app.tasks import work_requests
from relay.app.wiring.conflicts.asking import ask_about
from relay.app.wiring.merge_tools import MergeTools
from relay.config.merge import JOIN, MergeStrategy
from relay.coordination.writes.fencing import LockCheck
from relay.coordination.writes.lock_guard import caller_of
from relay.faces.blamed_file import known_of
from relay.git.checkout import Checkout
from relay.git.run import Git, GitError
from relay.git.trial_merge import ChosenText, ConflictPart, Merge
from relay.log import events
from relay.log.commit_trailers import commit_trailers
from relay.log.events import Event, Lane, NewEvent
from relay.merge.blame import Known, behind_lines, blame
from relay.merge.resolution import journal
from relay.model import LOCKED
from relay.model.ports import Voice
from relay.room.journal import ledger
from relay.store.ports import Store, StoreBusy, StoreError, Tx
from relay.timeline.projection import last_tree
from relay.verification import present

log = structlog.get_logger(__name__)
_TOLD = "worktrees_trouble"
#: Seconds between attempts: a database that is locked for longer is not waited for.
WAITS_S = (0.1, 0.5, 2.0, 5.0)
#: Open questions that are looked at.
_MOST = 200


class Desk(Protocol):
    """What the worktrees' desk does (`relay.app.worktrees.desk`), which stands above this folder."""

    def leaving(
        self, agent: str, by: str, done: str
    ) -> AbstractAsyncContextManager[Callable[[], Awaitable[bool]]]: ...

    async def check_space(self, agent: str) -> None: ...

    def wake(self) -> None: ...


class StoredWorktreeRoom(WorktreeRoom):
    """The room of this store; `judge` knows its locks. `tools`: what joins and tests merges, None = git alone merges;
    `folder`: where merged trees are exported; `voice`: asks agents, None = people alone are asked."""

    def __init__(
        self,
        store: Store,
        judge: LockCheck,
        tools: MergeTools | None = None,
        folder: Path | None = None,
        voice: Voice | None = None,
    ) -> None:
        self._store, self._judge = store, judge
        self._tools, self._folder, self._voice = tools, folder, voice
        #: Of a running room: the worktrees as people work with them; None = nothing runs there, and none is too big.
        self.desk: Desk | None = None

    async def join(self, git: Git, ours: str, theirs: str, merge: Merge) -> Merge:
        if self._tools is None:
            return merge

        async def chosen(ids: Sequence[str]) -> Mapping[str, ChosenText]:
            return await self._store.read(lambda tx: journal.chosen(tx, ids))

        return await self._tools.join(git, ours, theirs, merge, chosen)

    async def resolved_by(self, ids: Sequence[str]) -> Sequence[str]:
        people = await self._store.read(lambda tx: journal.written_by(tx, ids)) if ids else []
        return [f"Resolved-by: {' '.join(person.split())}" for person in people]

    async def warnings(self, git: Git, ours: str, theirs: str) -> Sequence[str]:
        return () if self._tools is None else await self._tools.warnings(git, ours, theirs)

    async def known_tests(self, agent: str, tree: str) -> KnownTests:
        """Nothing is known also where the database cannot be read."""
        try:
            found = await self._store.read(lambda tx: present.of_work(tx, {agent: tree}))
        except (StoreError, self._store.transient, self._store.errors):
            return KnownTests()
        known = found.get(agent)
        return KnownTests() if known is None else KnownTests(known.said, known.fails)

    async def across_files(
        self, git: Git, sides: Sequence[tuple[str, str]]
    ) -> Sequence[SemanticConflict] | None:
        return None if self._tools is None else await self._tools.across_files(git, sides)

    async def ask(self, wanted: WantedMerge, parts: Sequence[ConflictPart]) -> Sequence[str]:
        async def work(tx: Tx) -> list[str]:
            asked = list[journal.AskedConflict]()
            for part in parts:
                question = journal.Question(
                    wanted.agent,
                    wanted.into,
                    wanted.ours_at,
                    wanted.theirs_at,
                    journal.Behind(*wanted.ours.get(part.id, ())),
                    journal.Behind(*wanted.theirs),
                )
                asked += await journal.ask(tx, question, [part], lambda path: self._strategy(path).use)
            for each in asked:
                if each.is_new:
                    await ask_about(tx, each, self._strategy(each.part.path), self._voice)
            return [each.name for each in asked]

        return await self._store.write(work, durable=True)

    async def authors(
        self,
        checkout: Checkout,
        git: Git,
        agents: frozenset[str],
        main: str,
        side: str,
        parts: Sequence[ConflictPart],
    ) -> Mapping[str, tuple[str, str]]:
        found = dict[str, tuple[str, str]]()
        for path in dict.fromkeys(part.path for part in parts):
            here = [part for part in parts if part.path == path]
            try:
                known = await known_of(checkout, path, agents, self._store)
            except (GitError, StoreError, self._store.transient, self._store.errors) as error:
                log.warning("whose commits these are is known to git alone", path=path, reason=str(error))
                known = Known(agents)
            try:
                # What the main branch has not got, or has as no text, has no lines.
                there = any(part.places[1] for part in here) and await git.maybe(
                    "rev-parse", "-q", "--verify", f"{main}:{path}"
                )
                lines = await blame(git, main, path, known) if there else []
                for part in here:
                    found[part.id] = await behind_lines(git, main, side, part, lines, known)
            except GitError as error:
                log.warning("who changed a file is not known", path=path, reason=str(error))
        return found

    async def tested(self, places: Sequence[str], test: MergeTest) -> Sequence[str]:
        async def work(tx: Tx) -> list[str]:
            if test.passed:
                await journal.validated(tx, places)
                return []
            why = f"the tests fail with it: {test.told}"
            opened = await journal.failed(tx, places, why, lambda path: self._strategy(path).tests)
            for each in opened:
                await ask_about(tx, each, self._strategy(each.part.path), self._voice)
            return [each.name for each in opened]

        return await self._store.write(work, durable=True) if places else ()

    def _strategy(self, path: str) -> MergeStrategy:
        return JOIN if self._tools is None else self._tools.strategy(path)

    async def test(self, git: Git, tree: str) -> MergeTest | None:
        if self._tools is None or self._folder is None:
            return None
        return await self._tools.test(self._store, git, self._folder, tree)

    async def choices(self) -> int:
        try:
            choices = await self._store.read(journal.choices)
            return choices if self._tools is None else hash((choices, self._tools.ways()))
        except (StoreError, self._store.transient, self._store.errors):
            return 0

    async def check_merge(self, agent: str, by: str, paths: Sequence[str]) -> None:
        """Raises what the store raises when nobody can tell."""
        caller = caller_of(agent, None)
        refusals = await self._store.read(lambda tx: self._judge.refusals(tx, caller, paths))
        others = [refusal for refusal in refusals if refusal.locked_by not in (agent, by)]
        locked = [refusal for refusal in others if refusal.code == LOCKED]
        if locked:
            more = f" {len(locked) - 1} more of its files are locked too." if len(locked) > 1 else ""
            holder, lock = locked[0].locked_by, locked[0].lock
            raise LockedFiles(
                f"{locked[0].text}{more}",
                f"Wait, or take the lock from {holder} (`/unlock {lock} why`), and merge again.",
            )

    async def summary(self, agent: str, since: float, paths: Collection[str] | None = None) -> WorkSummary:
        """Empty where the database cannot be read: the message is then made of what git knows."""

        async def work(tx: Tx) -> WorkSummary:
            return await work_requests.summary(tx, agent, since, paths)

        try:
            return await self._store.read(work)
        except (StoreError, self._store.transient, self._store.errors):
            return WorkSummary()

    async def subjects(self, branches: Mapping[str, tuple[float, Collection[str]]]) -> Mapping[str, Asked]:
        """Empty also where the database cannot be read."""

        async def work(tx: Tx) -> dict[str, Asked]:
            found = {
                agent: await work_requests.subject(tx, agent, *branch) for agent, branch in branches.items()
            }
            return {agent: asked for agent, asked in found.items() if asked is not None}

        try:
            return await self._store.read(work) if branches else {}
        except (StoreError, self._store.transient, self._store.errors):
            return {}

    async def landed(self, agents: Sequence[str]) -> Mapping[str, LastLanding]:
        """Empty also where the database cannot be read."""
        try:
            return await self._store.read(lambda tx: _landed(tx, agents)) if agents else {}
        except (StoreError, self._store.transient, self._store.errors):
            return {}

    async def trailers(self, agent: str, branch: str, tree: str) -> tuple[str, ...]:
        """Those of the event that last said how the agent's worktree stands. None where the database cannot be read,
        or knows nothing yet."""
        try:
            event = await self._store.read(lambda tx: _newest_of(tx, agent))
        except (StoreError, self._store.transient, self._store.errors) as error:
            log.warning("a commit names no event", agent=agent, reason=str(error))
            return ()
        return () if event is None else commit_trailers(event, agent=agent, branch=branch, tree=tree)

    async def record(
        self, change: WorktreeChange, also: Callable[[Any], Awaitable[None]] | None = None
    ) -> None:
        if self.desk is not None:
            self.desk.wake()

        async def work(tx: Tx) -> None:
            lane = Lane("room", f"worktree:{ledger.new_id()}", short=True)
            new = NewEvent(
                CHANGED, lane, outputs=change.as_json(), branch=change.branch, snapshot=change.commit
            )
            event = await events.append(tx, new)
            if change.what in (MERGED, TAKEN_IN):
                # What it was asked about is decided, in one way or the other.
                for asked in await journal.newest(tx, only_open=True, limit=_MOST):
                    if asked.question.agent == change.agent:
                        await journal.gone(tx, asked)
            if change.text:
                meta = {"notice": "worktree", "agent": change.agent, "change": change.what}
                await ledger.say(tx, change.text, parents=[event.id], meta=meta)
            if also is not None:
                await also(tx)

        for wait in (*WAITS_S, None):
            try:
                await self._store.write(work, durable=True)
                return
            except (StoreBusy, OSError, self._store.transient) as error:
                if wait is None:
                    log.warning("change of a worktree not recorded", error=str(error), **change.as_json())
                    return
                await asyncio.sleep(wait)

    @asynccontextmanager
    async def leaving(self, agent: str, by: str, done: str) -> AsyncIterator[Callable[[], Awaitable[bool]]]:
        if self.desk is None:
            async with super().leaving(agent, by, done) as archive:
                yield archive
        else:
            async with self.desk.leaving(agent, by, done) as archive:
                yield archive

    async def check_space(self, agent: str) -> None:
        if self.desk is not None:
            await self.desk.check_space(agent)

    async def report_trouble(self, trouble: str, member: str) -> None:
        """Again only when the reason is another."""
        told = f"{_TOLD}:{member}" if member else _TOLD

        async def work(tx: Tx) -> None:
            if await events.setting(tx, told) == trouble:
                return
            await events.put_setting(tx, told, trouble)
            if trouble:
                await ledger.say(tx, trouble, meta={"notice": "worktrees"})

        # Reading costs nothing; only news takes the write lock.
        if (await self._store.read(lambda tx: events.setting(tx, told)) or "") != trouble:
            await self._store.write(work)


async def _newest_of(tx: Tx, agent: str) -> Event | None:
    """The event that last said how an agent's worktree stands. Where none does (a checkout of a person's), what its
    person did last, or the room."""
    if (known := await last_tree(tx, agent)) is not None:
        return await events.get(tx, known.event)
    lane = await tx.one(events.Q.lane, session=ledger.ROOM, lane=f"human:{agent}")
    if lane is not None and lane["seq"]:
        return await events.get(tx, lane["head"])
    return next(iter(await events.read_after(tx, await events.last_pos(tx) - 1, limit=1)), None)


async def _landed(tx: Tx, agents: Sequence[str]) -> dict[str, LastLanding]:
    found = {}
    for event in await events.newest_of_agents(tx, CHANGED, agents, (MERGED, TAKEN_BACK, DISCARDED)):
        told = event.outputs
        if told["change"] == MERGED:
            squash, files = told.get("method") == "squash", told.get("files", 0)
            into = told.get("into", "main")
            found[told["agent"]] = LastLanding(told["commit"], event.at, told["by"], into, squash, files)
    return found
