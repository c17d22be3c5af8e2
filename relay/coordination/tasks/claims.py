"""Claims: which session works on which task, by which token, until when.

Invariants:
- a task has at most one claim: one statement gives it, and one statement that checks status, holder, token and lease
  ends it;
- every claim's token is drawn from the room's one counter, so a session that lost a claim never has the token of the
  next one;
- a claim holds while its lease and its session's lease last, by the store's clock. A claim that is over is taken back
  by the next call that asks for work: the attempt counts, and the back-off runs from the moment of the loss;
- a claim that ends, however it ends, gives back the locks that it took. Locks of a claim that its holder lost stay on
  record as leases that are over, so its next write is stale.

Everything here runs in the caller's transaction. (004, "Work Queue"; docs/coordination.md, "Work".)
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from relay.base.durations import iso
from relay.config.coordination import CoordinationSettings
from relay.coordination.locks import table
from relay.coordination.locks.index import LockIndex
from relay.coordination.locks.lock import MAX_TTL_S, MIN_TTL_S, Loss
from relay.coordination.locks.service import Locks
from relay.coordination.tasks import task_events, transitions
from relay.coordination.tasks.completion import file_lost, why_not
from relay.coordination.tasks.task import Status, Task
from relay.coordination.tasks.task_events import By, Change, Followed, Q, next_fence
from relay.coordination.tasks.transitions import BackOff
from relay.log.events import Lane
from relay.model import Caller, Refusal, references
from relay.store.ports import Row, Tx

#: Tasks that are read at once when the files of the first one are held; one look at the locks serves all of them.
PAGE = 200
#: Tasks that were passed over and are told in an answer; all others are passed over as well, without a word.
MOST_TOLD = 20
#: Beyond every rank, which is a time in Unix seconds and some hours.
MOST_RANK = 1e300
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A task that was passed over: who holds which of its files."""

    number: int
    file_path: str
    locked_by: str
    expires_at: str

    def as_json(self) -> Json:
        return {
            "number": self.number,
            "file_path": self.file_path,
            "locked_by": self.locked_by,
            "expires_at": self.expires_at,
        }


@dataclass(slots=True)
class Search:
    """What a search for work gave: the claimed task, or None, and the first tasks that were passed over."""

    task: Task | None = None
    held: list[PassedOver] = field(default_factory=list)

    def passed(self, number: int, blocked: tuple[str, str, str]) -> None:
        if len(self.held) < MOST_TOLD:
            self.held.append(PassedOver(number, *blocked))


def by(caller: Caller, cause: Sequence[str] = ()) -> By:
    """The caller as who changes a task."""
    return By(caller.agent, Lane(caller.session, caller.agent), cause)


class Claims:
    """The claims of the room."""

    def __init__(self, settings: CoordinationSettings, locks: Locks) -> None:
        self._settings = settings
        self._locks = locks
        self._back_off = BackOff(settings.backoff_s, settings.backoff_max_s)

    async def take(self, tx: Tx, caller: Caller, types: Sequence[str] | None, lease_s: float) -> Search:
        """Claim the first task that is ready, of one of the `types` (None: any), and lock its files."""
        search, index = Search(), None
        async for row in self._ready(tx, types):
            files = json.loads(row["files"])
            blocked = None if index is None else self._in_the_way(index, files)
            blocked = blocked or await self.lock_files(tx, caller, row["id"], row["number"], files, lease_s)
            if blocked is None:
                search.task = await self._claim(tx, caller, row["id"], lease_s)
                return search
            search.passed(row["number"], blocked)
            if index is None:
                # From here on a task is locked only when nobody's lock meets its files.
                me = (caller.agent, caller.session)
                index = LockIndex(lock for lock in await table.living(tx) if lock.holder != me)
        return search

    async def take_this(self, tx: Tx, caller: Caller, task: Task, lease_s: float) -> Task | None:
        """Claim this task, which has no reason against it, and lock its files; None: somebody was first."""
        if await self.lock_files(tx, caller, task.id, task.number, task.files, lease_s) is not None:
            return None
        return await self._claim(tx, caller, task.id, lease_s)

    async def undo(self, tx: Tx, caller: Caller, task_id: str) -> None:
        """Undo a claim of the caller's that nobody heard of: no attempt counts, and it can be claimed at once."""
        row = await tx.one(Q.task_by_id, id=task_id)
        task = None if row is None else Task.of_row(row)
        if task is None or (task.claimed_by, task.claimed_session) != (caller.agent, caller.session):
            return
        now, token = await tx.now(), await next_fence(tx)
        note = "Whoever asked for it was gone."
        after = replace(
            transitions.unclaimed(task), status=Status.PENDING, updated_at=now, fence=token, note=note
        )
        await task_events.make(tx, Change.RELEASED, [(task, after)], by=by(caller))
        await self.free_files(tx, task, caller.agent, note, None)

    async def _ready(self, tx: Tx, types: Sequence[str] | None) -> AsyncIterator[Row]:
        """Every task that is ready, in the order in which they are given: one, then pages of them."""
        asked: Json = {"now": await tx.now(), "rank": -MOST_RANK, "number": 0, "limit": 1}
        if types is not None:
            asked["types"] = json.dumps(list(dict.fromkeys(types)))
        while rows := await tx.all(Q.next_ready if types is None else Q.next_ready_of_types, **asked):
            for row in rows:
                yield row
            asked |= {"rank": rows[-1]["rank"], "number": rows[-1]["number"], "limit": PAGE}

    def _in_the_way(self, index: LockIndex, files: Sequence[str]) -> tuple[str, str, str] | None:
        """(path, holder, until) of what meets these files."""
        for target in self._locks.kept(files) if files else ():
            lock = index.longest_meeting(target)
            if lock is not None:
                return target.path, lock.agent, iso(lock.expires_at)
        return None

    async def _claim(self, tx: Tx, caller: Caller, task_id: str, lease_s: float) -> Task | None:
        now = await tx.now()
        row = await tx.one(
            Q.claim_next,
            id=task_id,
            now=now,
            agent=caller.agent,
            session=caller.session,
            agent_type=caller.agent_type,
            lease_until=now + lease_s,
            lease_s=lease_s,
            fence=await next_fence(tx),
        )
        if row is None:
            return None
        task = Task.of_row(row)
        await task_events.log(tx, Change.CLAIMED, [(None, task)], by=by(caller))
        return task

    async def lock_files(
        self, tx: Tx, caller: Caller, task_id: str, number: int, files: Sequence[str], lease_s: float
    ) -> tuple[str, str, str] | None:
        """Lock them for the claim, all or none; (path, holder, until) of what is in the way."""
        if not files:
            return None
        wanted = self._locks.kept(files)
        why = f"for task {references.task(number)}"
        ttl_s = min(MAX_TTL_S, max(MIN_TTL_S, lease_s))
        outcome = await self._locks.acquire_in(tx, caller, wanted, "exclusive", ttl_s, why, task_id)
        answer = outcome.as_json()
        if answer["success"]:
            return None
        return answer["file_path"], answer["locked_by"], answer["expires_at"]

    async def check_files(self, tx: Tx, caller: Caller, task: Task) -> None:
        """That no other session holds a file of this claim of an agent's by now. Raises Refusal: REFUSED
        `stale_token`."""
        for target in self._locks.kept(task.files) if task.files and not caller.person else ():
            locks = await table.meeting(tx, target, besides=(caller.agent, caller.session))
            if locks:
                raise file_lost(task, locks[0], await tx.now())

    async def end(
        self, tx: Tx, caller: Caller, task_id: str, status: Status, result: Json, token: int | None
    ) -> tuple[Task, Followed] | None:
        """End the caller's claim with `completed` or `failed`; `result` has `result` and `error_message`. Gives the
        task and what followed; None when the caller has no such claim (any more)."""
        row = await tx.one(
            Q.end_claim,
            id=task_id,
            status=str(status),
            result=None if result["result"] is None else json.dumps(result["result"], ensure_ascii=False),
            error_message=result["error_message"],
            now=await tx.now(),
            agent=caller.agent,
            session=caller.session,
            person=int(caller.person),
            fence=token,
        )
        if row is None:
            return None
        task = Task.of_row(row)
        change = Change.COMPLETED if status is Status.COMPLETED else Change.FAILED
        event = await task_events.log(tx, change, [(None, task)], by=by(caller))
        await self.free_files(tx, task, caller.agent, str(change), None)
        return task, await task_events.follow(tx, [task.id], by=by(caller, [event.id]))

    async def give_back(self, tx: Tx, caller: Caller, task: Task, why: str, lost: Loss | None = None) -> Task:
        """The task after the caller, who holds its claim, gave it back: an attempt that counts. `lost`: it was made
        to."""
        now = await tx.now()
        return await self._lapse(tx, task, at=now, why=why, change=Change.RELEASED, by_=by(caller), lost=lost)

    async def give_back_all(self, tx: Tx, caller: Caller, reason: str, by_: str | None = None) -> None:
        """Give back what the caller's session claimed: it ends (for `Sessions.at_end`). `by_`: who ends it in its
        place."""
        lost = None if by_ is None else Loss(await tx.now(), by_, reason)
        rows = await tx.all(Q.claims_of_session, agent=caller.agent, session=caller.session)
        for task in map(Task.of_row, rows):
            await self.give_back(tx, caller, task, f"the session of {caller.agent} ended: {reason}", lost)

    async def take_back(self, tx: Tx) -> list[Task]:
        """Take back every claim whose lease ran out, or whose session is dead; the tasks as they are then."""
        taken = []
        for task, at, why in await _lost(tx):
            # Nobody's session did it: a short lane of its own, so that it orders nobody.
            lane = Lane("room", f"work:{task.id}:{task.fence}", short=True)
            async with tx.as_room():
                whose = By("RELAY", lane)
                taken.append(
                    await self._lapse(
                        tx, task, at=at, why=why, change=Change.RECOVERED, by_=whose, lost=Loss(at)
                    )
                )
        return taken

    async def as_they_stand(self, tx: Tx, tasks: Sequence[Task]) -> list[Task]:
        """The tasks as `take_back` would make them, for a reader: one whose claim is over is nobody's, whether
        anybody noticed or not. Its token is not the next one's."""
        if not any(task.claim for task in tasks):
            return list(tasks)
        over = {}
        for task, at, why in await _lost(tx):
            after = transitions.lapsed(
                task, at=at, now=at, fence=task.fence, why=why, back_off=self._back_off
            )
            over[task.id] = await task_events.settle(tx, after)
        return [over.get(task.id, task) for task in tasks]

    async def _lapse(
        self, tx: Tx, task: Task, *, at: float, why: str, change: Change, by_: By, lost: Loss | None
    ) -> Task:
        now = await tx.now()
        token = await next_fence(tx)
        after = transitions.lapsed(task, at=at, now=now, fence=token, why=why, back_off=self._back_off)
        change = Change.DEAD if after.status is Status.DEAD else change
        made = await task_events.make(tx, change, [(task, after)], by=by_)
        await self.free_files(tx, task, by_.name, why, lost)
        return made.tasks[0]

    async def free_files(self, tx: Tx, task: Task, by_: str, why: str, lost: Loss | None) -> None:
        """Free what the claim took; `lost`: its holder did not end it itself."""
        if task.files:
            await self._locks.release_of_task(tx, task.id, by=by_, reason=why, lost=lost)


async def no_claim(tx: Tx, task: Task, caller: Caller, token: int | None) -> Refusal:
    """Why the caller does not hold this task's claim, whose lease ends with its session."""
    until = next((at for lost, at, _ in await _lost(tx) if lost.id == task.id), task.lease_until)
    return why_not(replace(task, lease_until=until), caller, token, await tx.now())


async def _lost(tx: Tx) -> list[tuple[Task, float, str]]:
    """Each claim that is over and was not taken back: its task, since when (Unix seconds), and why."""
    lost = []
    for row in await tx.all(Q.lost_claims, now=await tx.now()):
        task = Task.of_row(row)
        how = "the lease ran out" if row["expired"] else "the session ended"
        lost.append((task, float(row["lost_at"]), f"{how} of {task.claimed_by}"))
    return lost


async def taken_since(tx: Tx, agent: str, since: float, *, limit: int) -> list[str]:
    """What an agent's tasks are about: those it has now, and those it completed from `since` (Unix seconds) on."""
    rows = await tx.all(Q.taken_since, agent=agent, since=since, limit=limit)
    return [str(row["task_description"]) for row in rows]
