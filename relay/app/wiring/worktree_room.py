"""What the worktrees ask of a room with a database: may this be merged, what is it about, and keep what happened.

Invariants:
- the event `worktree.changed` and what the room says of it are one transaction. A database that cannot take them now
  is waited for, a while; the change itself is in git already and is not undone for it;
- what a branch changes and somebody else has locked is not merged. A merge writes the branch for its agent: the
  agent's own locks, in any session, are no hindrance, nor are those of the person who merges;
- a merge's message has only words of the time in which the work was made; an answer that changed no file says nothing
  of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import structlog

from relay.airspace.advisories import table
from relay.airspace.pair_facts import SemanticConflict
from relay.airspace.worktrees.commit_message import Asked, WorkSummary, asked_of, by_weight
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
from relay.app.wiring.conflicts.asking import ask_about
from relay.app.wiring.merge_tools import MergeTools
from relay.base.durations import parse_iso
from relay.config.merge import JOIN, MergeStrategy
from relay.coordination.tasks import claims
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
from relay.model import LOCKED, Kind, Message
from relay.model.ports import Voice
from relay.room.dispatch.view_queries import task_in_short
from relay.room.journal import ledger
from relay.store.ports import Store, StoreBusy, StoreError, Tx
from relay.timeline.projection import CHANGED as FILES_CHANGED
from relay.timeline.projection import last_tree
from relay.verification import present

log = structlog.get_logger(__name__)
_TOLD = "worktrees_trouble"
#: Seconds between attempts: a database that is locked for longer is not waited for.
WAITS_S = (0.1, 0.5, 2.0, 5.0)
#: Answers and tasks that are looked at, the work of many days; and events of files of each turn's lane.
_MOST, _MOST_CHANGES = 200, 500
#: Seconds by which a file's time may be before that of the turn which wrote it: git keeps whole seconds.
_COARSE_S = 2.0


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
            return await _summary(tx, agent, since - _COARSE_S, paths)

        try:
            return await self._store.read(work)
        except (StoreError, self._store.transient, self._store.errors):
            return WorkSummary()

    async def subjects(self, branches: Mapping[str, tuple[float, Collection[str]]]) -> Mapping[str, Asked]:
        """Empty also where the database cannot be read."""

        async def work(tx: Tx) -> dict[str, Asked]:
            found = {agent: await _subject(tx, agent, *branch) for agent, branch in branches.items()}
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


async def _subject(tx: Tx, agent: str, since: float, paths: Collection[str]) -> Asked | None:
    taken = await claims.taken_since(tx, agent, since - _COARSE_S, limit=_MOST)
    asked = list[Asked]()
    for answer in reversed(await ledger.answers_since(tx, agent, since - _COARSE_S, limit=_MOST)):
        if "worktree" in answer.meta and (turn := await _turn(tx, answer)).concerns(paths):
            asked += reversed(_asked_in(agent, turn, taken))
            # No older one can name it.
            if any(each.title and not each.is_review for each in asked):
                break
    return next(iter(by_weight(asked)), None)


@dataclass(frozen=True, slots=True)
class _Turn:
    """A turn that changed files. `asked`: what it was asked, the first one first; `began`, `ended`: Unix seconds;
    `paths`: what it changed, None = not known."""

    answer: Message
    asked: Sequence[Message]
    began: float
    ended: float
    paths: frozenset[str] | None = None

    def concerns(self, paths: Collection[str] | None) -> bool:
        """Has it changed one of these, as far as that is known?"""
        return self.paths is None or paths is None or not self.paths.isdisjoint(paths)


async def _summary(tx: Tx, agent: str, since: float, paths: Collection[str] | None) -> WorkSummary:
    """`since`, `paths`: as of `WorktreeRoom.summary`."""
    taken = await claims.taken_since(tx, agent, since, limit=_MOST)
    answers = await ledger.answers_since(tx, agent, since, limit=_MOST)
    turns = [await _turn(tx, answer) for answer in answers if "worktree" in answer.meta]
    turns = [turn for turn in turns if turn.concerns(paths)]
    asked = [each for turn in turns for each in _asked_in(agent, turn, taken)]
    # Each once, where it was asked last: what was asked for again is the newest.
    last = {each.text: each for each in asked}
    requests = [each for each in dict.fromkeys(asked) if last[each.text] == each]
    advisories = (await table.load_state(tx)).advisories.values()
    decided = next((words for advisory in advisories if (words := advisory.decided_against(agent))), "")
    answer = turns[-1].answer.body if turns else ""
    tasks = tuple(
        text
        for text, took, done_at in taken
        # Of an attached session nobody knows the turns.
        if not any(each.job for each in answers)
        or any((took or 0.0) <= turn.ended and turn.began <= (done_at or turn.ended) for turn in turns)
    )
    return WorkSummary(tasks, tuple(requests), answer, decided)


def _asked_in(
    agent: str, turn: _Turn, taken: Sequence[tuple[str, float | None, float | None]]
) -> list[Asked]:
    """What a turn was asked, what weighs most last. `taken`: as of `claims.taken_since`."""
    people = [message for message in turn.asked if message.kind == Kind.HUMAN]
    number = people[-1].number if people else 0
    # A task that the agent took or completed meanwhile says it better than "take the next task".
    done = {text for text, *at in taken if any(each and turn.began <= each <= turn.ended for each in at)}
    if len(done) == 1:
        return [Asked(done.pop(), number)]
    # Of several that one turn was asked at once, the first is what it began with.
    return [Asked(asked_of(agent, task_in_short(each.body)), each.number) for each in reversed(people)]


async def _turn(tx: Tx, answer: Message) -> _Turn:
    """The turn that an answer ended; where the log does not say more, with the message that it answers alone."""
    at = parse_iso(answer.ts)
    row = await tx.one(ledger.Q.event_of_message, id=answer.id)
    event = await events.get(tx, row["event_id"]) if row else None
    ended = await events.get(tx, event.parents[0]) if event is not None and event.parents else None
    began = await events.get(tx, ended.inputs["turn"]) if ended and ended.type == ledger.TURN_ENDED else None
    if ended is None or began is None:
        ids = [answer.in_reply_to] if answer.in_reply_to else []
        return _Turn(answer, await _messages(tx, ids), at, at)
    lane = Lane(ended.session, ended.lane)
    changes = await events.of_lane(tx, lane, FILES_CHANGED, limit=_MOST_CHANGES)
    known = len(changes) < _MOST_CHANGES or changes[-1].seq < began.seq
    paths = {path for each in changes if began.seq < each.seq < ended.seq for path in each.file_touches or ()}
    asked = await _messages(tx, began.inputs["messages"])
    found = frozenset(paths) if known and paths else None
    return _Turn(answer, asked, parse_iso(began.at), at, found)


async def _messages(tx: Tx, ids: Sequence[str]) -> list[Message]:
    found = [await ledger.message(tx, id) for id in ids]
    return [message for message in found if message is not None]
