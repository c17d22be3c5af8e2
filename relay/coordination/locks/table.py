"""The table of locks, within a transaction: who holds what meets a target, and the statements that take and free.

Invariants:
- a lock is taken by one statement that looks for what is in the way itself, so it is atomic by itself;
- the row and its event commit together;
- a lock holds while its own lease and its session's lie ahead, by the store's clock; one that another took over is
  marked as lost, and holds nothing whatever the clock says later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from relay.base.durations import iso
from relay.coordination.locks.conflict_precheck import NO_COMPARISON, Comparison, LockKey
from relay.coordination.locks.lock import Lock, LockRequest, Loss, stale
from relay.coordination.paths.overlap import contains, shape, stands_for
from relay.coordination.paths.targets import Target, above
from relay.coordination.sessions import lane_of, own_lane
from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import Lane, NewEvent
from relay.model import Caller, Refusal
from relay.model.actions import ForceRelease
from relay.store.ports import Queries, Query, Row, StoreError, Tx

Q = Queries(Path(__file__).parents[1])
ACQUIRED, REFRESHED = "lock.acquired", "lock.refreshed"
RELEASED, FORCED = "lock.released", "lock.forced"
LOCK_EVENTS = frozenset({ACQUIRED, REFRESHED, RELEASED, FORCED})
#: The counter that fencing tokens come from, one for the room.
FENCE = "fence"
#: Behind every text that begins with '/': the end of the range of what lies below a folder.
_BEHIND_SLASH = chr(ord("/") + 1)
_LAST = chr(0x10FFFF)
#: Seconds after which a wait that was not seen is none: its process died, or hangs.
STALE_S = 5.0


@lru_cache(maxsize=4096)
def reach(target: Target) -> Mapping[str, Any]:
    """The parameters by which the statements find what meets a target (see locks.sql)."""
    shared = {**target.ids, "shape": shape(target.kind, target.key)}
    if target.kind == "key":
        nothing = {"low": "", "high": "", "whole": "", "bases": "[]"}
        return {**shared, "literal": "key", "above": dumps([target.key]), **nothing}
    base = target.key if target.base is None else target.base
    folders = above(base)
    low, high = (base + "/", base + _BEHIND_SLASH) if base else ("", _LAST)
    below = {"low": low, "high": high, "whole": base, "bases": dumps(["", *folders])}
    return {**shared, "literal": "path", "above": dumps(folders), **below}


async def meeting(
    tx: Tx,
    target: Target,
    *,
    mode: str = "exclusive",
    besides: tuple[str, str] = ("", ""),
    compared: Comparison = NO_COMPARISON,
) -> list[Lock]:
    """The locks that hold now, meet the target and do not go beside one of that mode; without those of the holder
    `besides`. The one that lasts longest comes first. `compared`: with those of others than `besides`."""
    asked = {"mode": mode, "agent": besides[0], "session": besides[1], "now": await tx.now()}
    rows = await tx.all(Q.holders, **reach(target), **compared.of(target), **asked)
    return [Lock.of_row(row) for row in rows]


async def take(
    tx: Tx, caller: Caller, target: Target, request: LockRequest, *, looked: bool
) -> tuple[Lock, bool] | None:
    """Take the lock, or refresh it where the caller holds it, with the event; and whether its lease is new.

    None: another's is in the way, or somebody stands in line and nobody `looked` whether it may be passed. The
    caller's session is alive (`Heartbeat.touch` in this transaction).
    """
    now = await tx.now()
    row = await tx.one(
        Q.take_lock,
        **reach(target),
        **request.compared.of(target),
        **caller.ids,
        path=target.path,
        base=target.base,
        mode=request.mode,
        reason=request.reason,
        now=now,
        expires_at=now + request.ttl_s,
        task_id=request.task_id,
        looked=looked,
        seen=now - STALE_S,
    )
    if row is None:
        return None
    lock, fresh = Lock.of_row(row), bool(row["fresh"])
    if fresh and await events.next_number(tx, FENCE) != lock.token:
        raise StoreError("the counter of fencing tokens moved under a transaction")
    await say(tx, ACQUIRED if fresh else REFRESHED, lock, lane_of(caller), by=caller.agent)
    if row["lost_below"]:
        await _forget_lost(tx, caller, target, now)
    if fresh:
        await _take_over(tx, caller, target, request, now)
    return lock, fresh


async def _take_over(tx: Tx, caller: Caller, target: Target, request: LockRequest, now: float) -> None:
    """Mark as lost what others held of this until their leases ran out: a clock that jumped may come back."""
    about = {**reach(target), **request.compared.of(target)}
    rows = await tx.all(Q.lapsed, **about, **caller.ids, mode=request.mode, now=now)
    if rows:
        async with tx.as_room():  # they are rows of others
            for row in rows:
                await tx.execute(Q.lose_lock, **row, now=now)


async def _forget_lost(tx: Tx, caller: Caller, target: Target, now: float) -> None:
    """Forget the caller's leases that are over, of what the target covers: it has that anew."""
    for lost in await of_session(tx, caller):
        if lost.expires_at <= now and covers(target, lost.target):
            await tx.execute(Q.forget_lost_lock, **lost.ids, now=now)


def covers(whole: Target, part: Target) -> bool:
    """Is all that `part` is about certainly in `whole`?"""
    if whole.kind == "key" or part.kind == "key":
        return whole == part
    if whole.kind == "path":
        name = part.key if part.base is None else part.base
        return name == whole.key or name.startswith(whole.key + "/")
    return stands_for(whole.key, part.key) if part.kind == "path" else contains(whole.key, part.key)


async def free(tx: Tx, caller: Caller, target: Target, token: int | None) -> Lock | None:
    """Free the caller's own lock on exactly this, with the event; None when there is none (of that token)."""
    row = await tx.one(Q.free_lock, **target.ids, **caller.ids, token=token, now=await tx.now())
    return await _recorded(tx, RELEASED, row, caller)


async def renew(tx: Tx, caller: Caller, target: Target, ttl_s: float) -> Lock | None:
    """Let the caller's own lock on exactly this last longer, with the event; None when it holds none."""
    now = await tx.now()
    row = await tx.one(Q.renew_lock, **target.ids, **caller.ids, now=now, expires_at=now + ttl_s)
    return await _recorded(tx, REFRESHED, row, caller)


async def _recorded(tx: Tx, event: str, row: Row | None, caller: Caller) -> Lock | None:
    """The lock that a statement of the caller's changed, with the event; None when it found none."""
    if row is None:
        return None
    lock = Lock.of_row(row)
    await say(tx, event, lock, lane_of(caller), by=caller.agent)
    return lock


async def own(tx: Tx, caller: Caller, target: Target) -> Lock | None:
    """The caller's own row for exactly this, whether it holds or not."""
    row = await tx.one(Q.own_lock, **target.ids, **caller.ids)
    return None if row is None else Lock.of_row(row)


async def free_of_task(
    tx: Tx, task_id: str, *, by: str, reason: str | None, lost: Loss | None
) -> Sequence[Lock]:
    """Free what was taken with the claim of this task, with the events. `lost`: see `_let_go`."""
    query = Q.free_locks_of_task if lost is None else Q.cut_locks_of_task
    return await _let_go(tx, await of_task(tx, task_id), query, {"task_id": task_id}, by, reason, lost)


async def free_of_session(tx: Tx, caller: Caller, *, reason: str | None, lost: Loss | None) -> Sequence[Lock]:
    """Free all that the caller's session holds, with the events. `lost`: see `_let_go`."""
    query = Q.free_locks_of_session if lost is None else Q.cut_locks_of_session
    held = await of_session(tx, caller)
    return await _let_go(tx, held, query, caller.ids, caller.agent, reason, lost)


async def _let_go(
    tx: Tx,
    held: Sequence[Lock],
    query: Query,
    whose: dict[str, str],
    by: str,
    reason: str | None,
    lost: Loss | None,
) -> Sequence[Lock]:
    """End these leases by `query`; those that were not over before.

    A lease that its holder gives back (`lost` is None) leaves no trace. A lease that it lost is cut to the loss and
    stays on record, so that it is found stale. So does a lease that was over or forced before, whoever ends the rest.
    """
    now = await tx.now()
    if not held:
        return []
    await tx.execute(query, **whose, **({"now": now} if lost is None else asdict(lost)))
    freed = [lock for lock in held if lock.expires_at > now]
    for lock in freed:
        await say(tx, RELEASED, lock, Lane(lock.session, lock.agent), by=by, reason=reason)
    return freed


async def force_release(
    tx: Tx, action: ForceRelease, target: Target, *, by: str, cause: Sequence[str] = ()
) -> tuple[list[Lock], list[Lock]]:
    """Take the locks on exactly the action's path, which is `target`, from their holders; gives those, and all that
    meet it. The rows stay, so that the holders are told at their next call. `cause`: the ids of the events that it
    was ordered by."""
    met, taken = await meeting(tx, target), list[Lock]()
    for lock in met:
        if lock.target.ids == target.ids:
            row = await tx.one(Q.force_lock, **lock.ids, now=await tx.now(), by=by, why=action.reason)
            if row is None:
                raise StoreError("a lock that was read in this transaction is gone")
            taken.append(Lock.of_row(row))
            await say(tx, FORCED, taken[-1], own_lane("lock"), by=by, reason=action.reason, cause=cause)
    return taken, met


async def say(
    tx: Tx,
    event: str,
    lock: Lock,
    lane: Lane,
    *,
    by: str,
    reason: str | None = None,
    cause: Sequence[str] = (),
) -> None:
    """Record the event of a change."""
    outputs = {"lock": lock.as_json(), "by": by, "reason": reason}
    await events.record(tx, NewEvent(type=event, lane=lane, outputs=outputs, parents=cause))


async def to_compare(tx: Tx, caller: Caller) -> tuple[list[LockKey], int]:
    """The locks that a request of the caller's may be compared with, and the latest fencing token among them."""
    rows = await tx.all(Q.to_compare, **caller.ids)
    held = [(row["kind"], row["key"], row["base"]) for row in rows]
    return held, max((row["token"] for row in rows), default=0)


async def living(tx: Tx) -> list[Lock]:
    """Every lock that holds now, the next to run out first."""
    return [Lock.of_row(row) for row in await tx.all(Q.living_locks, now=await tx.now())]


async def of_session(tx: Tx, caller: Caller) -> Sequence[Lock]:
    """Every row of the caller's session, whether it holds or not."""
    return [Lock.of_row(row) for row in await tx.all(Q.locks_of_session, **caller.ids)]


async def of_task(tx: Tx, task_id: str) -> Sequence[Lock]:
    """What was taken with the claim of this task."""
    return [Lock.of_row(row) for row in await tx.all(Q.locks_of_task, task_id=task_id)]


async def hand_on(tx: Tx, lock: Lock, task_id: str) -> None:
    """Let the lock end with the claim of another task of its session."""
    await tx.execute(Q.hand_on_lock, **lock.ids, task_id=task_id)


async def why_not(tx: Tx, caller: Caller, target: Target, token: int | None) -> Refusal:
    """Why the caller has no lock of exactly this (and of that token) to release."""
    mine, now = await own(tx, caller, target), await tx.now()
    if mine is None:
        first = await _holder(tx, target)
        if first is None:
            refusal = _not_held(target, "check_locks shows what is held; give the path as it was acquired.")
        else:
            fix = "Only its holder can release a lock; a person can force a release."
            refusal = _not_yours(first.sentence(target, now, caller.agent), first, fix)
    elif mine.expires_at <= now:
        refusal = stale(mine, now)
    else:
        message = f"Fencing token {token} is not that of your lock on {target.path}, which is {mine.token}."
        details = {"file_path": mine.path, "fencing_token": mine.token}
        fix = "Give the token of the lease that you hold, or none."
        refusal = Refusal(message, fix, code="stale_token", details=details)
    refusal.details = {"released": False} | refusal.details
    return refusal


async def why_not_renewed(tx: Tx, caller: Caller, target: Target) -> Refusal:
    """Why the caller has no lock of exactly this to renew."""
    mine, now, first = await own(tx, caller, target), await tx.now(), await _holder(tx, target)
    line = "Wait in line for it (acquire_lock with wait_seconds), and look at what changed before you write."
    if mine is not None:
        lost = stale(mine, now)
        if first is None:
            return lost
        message = f"{lost.message} {first.sentence(target, now, caller.agent)}"
        return Refusal(message, line, code=lost.code, details=lost.details | _held_by(first))
    if first is not None:
        return _not_yours(first.sentence(target, now, caller.agent), first, line)
    return _not_held(target, "acquire_lock takes it; a lock is renewed by the path as it was acquired.")


async def _holder(tx: Tx, target: Target) -> Lock | None:
    """Who holds exactly this now."""
    return next((lock for lock in await meeting(tx, target) if lock.target.ids == target.ids), None)


def _held_by(lock: Lock) -> dict[str, Any]:
    who = {"locked_by": lock.agent, "locked_by_session": lock.session}
    return who | {"expires_at": iso(lock.expires_at), "held": lock.as_json()}


def _not_yours(message: str, lock: Lock, fix: str) -> Refusal:
    return Refusal(message, fix, code="not_yours", details=_held_by(lock))


def _not_held(target: Target, fix: str) -> Refusal:
    return Refusal(f"This session holds no lock on {target.path}.", fix, code="not_held")
