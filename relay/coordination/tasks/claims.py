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

Everything here runs in the caller's transaction. (docs/coordination.md, "Work".)
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

from relay.base.durations import iso
from relay.config.coordination import CoordinationSettings
from relay.coordination.locks import table
from relay.coordination.locks.index import LockIndex
from relay.coordination.locks.lock import MAX_TTL_S, MIN_TTL_S, Loss
from relay.coordination.locks.service import Locks
from relay.coordination.sessions import lane_of
from relay.coordination.tasks import task_events, transitions
from relay.coordination.tasks.completion import Completion, file_lost, why_not
from relay.coordination.tasks.task import Status, Task
from relay.coordination.tasks.task_events import By, Change, Followed, Made, Q, next_fence
from relay.coordination.tasks.transitions import BackOff
from relay.log.events import Lane
from relay.model import Caller, Json, Refusal, references
from relay.model.ports import TaskOutcomes
from relay.store.ports import Row, Tx

#: Tasks that are read at once when the files of the first one are held; one look at the locks serves all of them.
PAGE = 200
#: Tasks that were passed over and stand in an answer; all others are passed over as well, without a word.
MOST_HELD = 20
#: Beyond every rank, which is a time in Unix seconds and some hours.
MOST_RANK = 1e300


@dataclass(slots=True)
class Search:
    """What a search for work gave: the claimed task, or None, and the first tasks that were passed over, each with
    who holds which of its files: `{number, file_path, locked_by, expires_at}`."""

    task: Task | None = None
    held: list[Json] = field(default_factory=list)


def by(caller: Caller, cause: Sequence[str] = ()) -> By:
    """The caller, who changes a task."""
    return By(caller.agent, lane_of(caller), cause)


class Claims:
    """The claims of the room."""

    def __init__(
        self, settings: CoordinationSettings, locks: Locks, outcomes: TaskOutcomes | None = None
    ) -> None:
        self.locks, self._outcomes = locks, outcomes
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
            if len(search.held) < MOST_HELD:
                search.held.append({"number": row["number"], **blocked})
            if index is None:
                # From here on a task is locked only when nobody's lock meets its files.
                living = await table.living(tx)
                index = LockIndex(lock for lock in living if lock.holder != caller.holder)
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
        if task is None or task.holder != caller.holder:
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

    def _in_the_way(self, index: LockIndex, files: Sequence[str]) -> Json | None:
        """`{file_path, locked_by, expires_at}` of what meets these files."""
        for target in self.locks.stored_targets(files) if files else ():
            lock = index.longest_meeting(target)
            if lock is not None:
                until = iso(lock.expires_at)
                return {"file_path": target.path, "locked_by": lock.agent, "expires_at": until}
        return None

    async def _claim(self, tx: Tx, caller: Caller, task_id: str, lease_s: float) -> Task | None:
        now, token = await tx.now(), await next_fence(tx)
        lease = {"lease_until": now + lease_s, "lease_s": lease_s, "fence": token, "now": now}
        row = await tx.one(Q.claim_next, **caller.ids, id=task_id, agent_type=caller.agent_type, **lease)
        if row is None:
            return None
        task = Task.of_row(row)
        await task_events.log(tx, Change.CLAIMED, [(None, task)], by=by(caller))
        return task

    async def lock_files(
        self, tx: Tx, caller: Caller, task_id: str, number: int, files: Sequence[str], lease_s: float
    ) -> Json | None:
        """Lock them for the claim, all or none; `{file_path, locked_by, expires_at}` of what is in the way."""
        if not files:
            return None
        wanted = self.locks.stored_targets(files)
        why = f"for task {references.task(number)}"
        ttl_s = min(MAX_TTL_S, max(MIN_TTL_S, lease_s))
        outcome = await self.locks.acquire_in(tx, caller, wanted, ttl_s=ttl_s, reason=why, task_id=task_id)
        answer = outcome.as_json()
        if answer["success"]:
            return None
        return {name: answer[name] for name in ("file_path", "locked_by", "expires_at")}

    async def check_files(self, tx: Tx, caller: Caller, task: Task) -> None:
        """That no other session holds a file of this claim of an agent's by now. Raises Refusal: REFUSED
        `stale_token`."""
        for target in self.locks.stored_targets(task.files) if task.files and not caller.person else ():
            locks = await table.meeting(tx, target, besides=caller.holder)
            if locks:
                raise file_lost(task, locks[0], await tx.now())

    async def end(
        self, tx: Tx, caller: Caller, task: Task, completion: Completion, token: int | None
    ) -> tuple[Task, Followed] | None:
        """End the caller's claim. Gives the task and what followed; None when the caller has no such claim (any
        more). What a person gave an agent, any session of the agent's may end."""
        now, sessionless = await tx.now(), int(caller.person or task.given_to == caller.agent)
        ended = {**completion.columns(), "now": now, "person": sessionless, "fence": token}
        row = await tx.one(Q.end_claim, **caller.ids, id=task.id, **ended)
        if row is None:
            return None
        task = Task.of_row(row)
        change = Change.COMPLETED if task.status is Status.COMPLETED else Change.FAILED
        event = await task_events.log(tx, change, [(None, task)], by=by(caller))
        await self.free_files(tx, task, caller.agent, str(change), None)
        if completion.skill is not None or change is Change.FAILED:
            async with tx.as_room():
                await self._learn(tx, task, completion.skill, by(caller, [event.id]))
        return task, await task_events.follow(tx, [task.id], by=by(caller, [event.id]))

    async def give_back(self, tx: Tx, caller: Caller, task: Task, why: str, lost: Loss | None = None) -> Task:
        """Give back a claim that the caller holds, as an attempt that counts; the task after that. `lost`: the caller
        was made to."""
        now = await tx.now()
        made = await self._lapse(tx, task, at=now, why=why, change=Change.RELEASED, by_=by(caller), lost=lost)
        after = made.tasks[0]
        if after.status is Status.DEAD:
            async with tx.as_room():
                await self._learn(tx, after, None, by(caller, [made.event.id]))
        return after

    async def unverify(self, tx: Tx, task_id: str, why: str, by_: By) -> Task | None:
        """Open a completed task again whose change did not pass, as an attempt that counts; None: it is not completed
        any more. Its skills did not serve."""
        row = await tx.one(Q.task_by_id, id=task_id)
        task = None if row is None else Task.of_row(row)
        if task is None or task.status is not Status.COMPLETED or task.archived_at is not None:
            return None
        now, token = await tx.now(), await next_fence(tx)
        after = transitions.unverified(task, now=now, fence=token, why=why, back_off=self._back_off)
        made = await task_events.make(tx, Change.UNVERIFIED, [(task, after)], by=by_)
        whose = By(task.claimed_by or by_.name, by_.lane, [made.event.id])
        await self._learn(tx, made.tasks[0], None, whose)
        return made.tasks[0]

    async def verify(self, tx: Tx, task_id: str, note: str, by_: By) -> Task | None:
        """Note on a completed task that its change passed; None: it is not completed any more."""
        row = await tx.one(Q.task_by_id, id=task_id)
        task = None if row is None else Task.of_row(row)
        if task is None or task.status is not Status.COMPLETED or task.archived_at is not None:
            return None
        after = replace(task, note=note, updated_at=await tx.now())
        return (await task_events.make(tx, Change.VERIFIED, [(task, after)], by=by_)).tasks[0]

    async def release_of_session(self, tx: Tx, caller: Caller, reason: str, by: str | None = None) -> None:
        """Give back what the caller's session claimed (`Holdings`)."""
        lost = None if by is None else Loss(await tx.now(), by, reason)
        for task in map(Task.of_row, await tx.all(Q.claims_of_session, **caller.ids)):
            await self.give_back(tx, caller, task, f"the session of {caller.agent} ended: {reason}", lost)

    async def take_back(self, tx: Tx) -> list[Task]:
        """Take back every claim whose lease ran out, or whose session is dead; the tasks as they are then."""
        taken = []
        for task, at, why in await _lost(tx):
            # No session did it: a short lane of its own, so that it orders no other event.
            lane = Lane("room", f"work:{task.id}:{task.fence}", short=True)
            whose, change = By("RELAY", lane), Change.RECOVERED
            async with tx.as_room():
                made = await self._lapse(tx, task, at=at, why=why, change=change, by_=whose, lost=Loss(at))
                if made.tasks[0].status is Status.DEAD:
                    whose = By(task.claimed_by or whose.name, lane, [made.event.id])
                    await self._learn(tx, task, None, whose)
            taken.append(made.tasks[0])
        return taken

    async def as_they_stand(self, tx: Tx, tasks: Sequence[Task]) -> list[Task]:
        """The tasks as `take_back` would make them, for a reader: a task whose claim is over is nobody's, even if
        nobody noticed yet. Its token is not that of the next claim."""
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
    ) -> Made:
        now = await tx.now()
        token = await next_fence(tx)
        after = transitions.lapsed(task, at=at, now=now, fence=token, why=why, back_off=self._back_off)
        change = Change.DEAD if after.status is Status.DEAD else change
        made = await task_events.make(tx, change, [(task, after)], by=by_)
        await self.free_files(tx, task, by_.name, why, lost)
        return made

    async def _learn(self, tx: Tx, task: Task, skill: str | None, by_: By) -> None:
        """Tell those who learn from it how a task came out."""
        if self._outcomes is not None:
            success = task.status is Status.COMPLETED
            await self._outcomes.ended(
                tx,
                task.id,
                task.task_type,
                success,
                skill=skill,
                by=by_.name,
                lane=by_.lane,
                cause=by_.cause,
            )

    async def free_files(self, tx: Tx, task: Task, by_: str, why: str, lost: Loss | None) -> None:
        """Free what the claim took; `lost`: its holder did not end it itself."""
        if task.files:
            await self.locks.release_of_task(tx, task.id, by=by_, reason=why, lost=lost)


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


async def working_on(tx: Tx, caller: Caller, task_type: str) -> str | None:
    """The id of the task of this type that the caller's session has claimed; None: of none, or of several."""
    rows = [row for row in await tx.all(Q.claims_of_session, **caller.ids) if row["task_type"] == task_type]
    return str(rows[0]["id"]) if len(rows) == 1 else None


async def taken_since(
    tx: Tx, agent: str, since: float, *, limit: int
) -> list[tuple[str, float | None, float | None]]:
    """What an agent's tasks are about: those it has now, and those it completed from `since` (Unix seconds) on; each
    with when it took it and when it completed it."""
    rows = await tx.all(Q.taken_since, agent=agent, since=since, limit=limit)
    return [(str(row["task_description"]), row["claimed_at"], row["completed_at"]) for row in rows]
