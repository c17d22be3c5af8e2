"""Locks: what two sessions would change at once, one of them holds (`relay.faces.services.LocksApi`).

Invariants:
- two locks that hold and meet belong to one session, or are both shared;
- every call is a heartbeat, also one that is refused: a refusal is decided in the transaction and raised behind it;
- several paths are taken all or none;
- who waits and goes away (cancelled, dead) leaves nothing behind: neither a place in line nor a lock.

(004, "File Locking"; issue 3, "Locks"; docs/coordination.md, "Locks".)
"""

from __future__ import annotations

from collections.abc import Sequence

from relay.coordination import lock_table as table
from relay.coordination import waits
from relay.coordination.lock import (
    DEFAULT_TTL_S,
    Granted,
    Json,
    Lock,
    Outcome,
    Wish,
    stale,
    wish,
)
from relay.coordination.lock_table import Q
from relay.coordination.paths import Target, target, targets
from relay.coordination.sessions import Heartbeat, iso
from relay.log.store import Store, Tx
from relay.model import Caller, Fault, Rejected


class Locks:
    """The locks of the room. `fold`: the repository's file system folds case."""

    def __init__(self, store: Store, heartbeat: Heartbeat, *, fold: bool = False) -> None:
        self._store = store
        self._heartbeat = heartbeat
        self._fold = fold

    async def acquire(
        self,
        caller: Caller,
        paths: Sequence[str],
        *,
        mode: str = "exclusive",
        ttl_s: float = DEFAULT_TTL_S,
        reason: str | None = None,
        wait_s: float = 0.0,
        idempotency_key: str | None = None,
    ) -> Json:
        wanted = wish(targets(paths, self._fold), mode=mode, ttl_s=ttl_s, reason=reason)
        outcome = await self._store.write(lambda tx: self._acquire(tx, caller, wanted), actor=caller)
        return outcome.as_json()

    async def acquire_in(
        self,
        tx: Tx,
        caller: Caller,
        wanted: Sequence[Target],
        mode: str = "exclusive",
        ttl_s: float = DEFAULT_TTL_S,
        reason: str | None = None,
        task_id: str | None = None,
    ) -> Outcome:
        """All of these or none, in the caller's own transaction; `task_id`: they end with the claim of that task
        (`release_of_task`), except those that the session held before. Raises Rejected (malformed)."""
        asked = wish(wanted, mode=mode, ttl_s=ttl_s, reason=reason, task_id=task_id)
        return await self._acquire(tx, caller, asked)

    async def _acquire(self, tx: Tx, caller: Caller, wanted: Wish, place: int | None = None) -> Outcome:
        session = await self._heartbeat.touch(tx, caller)
        outcome = await self._grant(tx, caller, wanted, place)
        if isinstance(outcome, Granted):
            until = max(lock.expires_at for lock in outcome.locks)
            await self._heartbeat.promise(tx, caller, session, until)
        return outcome

    async def _grant(self, tx: Tx, caller: Caller, wanted: Wish, place: int | None = None) -> Outcome:
        """Take all that is wished, or name what is in the way."""
        if len(wanted.targets) > 1 or place is not None or await waits.line(tx):
            blocked = await waits.obstacle(tx, caller, wanted, place)
            if blocked is not None:
                return blocked
        locks: list[Lock] = []
        fresh: set[int] = set()
        for one in wanted.targets:
            taken = await table.take(tx, caller, one, wanted)
            if taken is None:
                blocked = await waits.obstacle(tx, caller, wanted, place)
                if blocked is None or locks:
                    raise AssertionError(f"{one.path} could not be taken, and nothing is in the way")
                return blocked
            locks.append(taken[0])
            if taken[1]:
                fresh.add(taken[0].token)
        return Granted(tuple(locks), frozenset(fresh))

    async def release(self, caller: Caller, path: str, *, fencing_token: int | None = None) -> Json:
        meant = target(path, self._fold)

        async def work(tx: Tx) -> Json | Rejected:
            await self._heartbeat.touch(tx, caller)
            freed = await table.free(tx, caller, meant, fencing_token)
            if freed is None:
                return await _why_not(tx, caller, meant)
            return {"success": True, "released": True, "file_path": meant.path}

        return _told(await self._store.write(work, actor=caller))

    async def release_of_task(
        self, tx: Tx, task_id: str, *, by: str, reason: str | None = None
    ) -> list[Lock]:
        """Free what was taken with the claim of this task, in the caller's own transaction."""
        rows = await tx.all(Q.free_locks_of_task, task_id=task_id)
        return await table.free_all(tx, rows, by=by, reason=reason)

    async def release_of_session(self, tx: Tx, caller: Caller, reason: str) -> None:
        """Free all that the caller's session holds, and its places in line (for `Sessions.at_end`)."""
        who = {"agent": caller.agent, "session": caller.session}
        await tx.execute(Q.forget_waits_of_session, **who)
        rows = await tx.all(Q.free_locks_of_session, **who)
        await table.free_all(tx, rows, by=caller.agent, reason=reason)

    def target(self, path: str) -> Target:
        """What that text means in this repository. Raises Rejected (malformed)."""
        return target(path, self._fold)

    def targets(self, paths: Sequence[str]) -> tuple[Target, ...]:
        """Several, each once, in the order in which they are taken. Raises Rejected (malformed)."""
        return targets(paths, self._fold)


async def _why_not(tx: Tx, caller: Caller, meant: Target) -> Rejected:
    """Why the caller has no lock of exactly this to release or renew."""
    mine = await table.own(tx, caller, meant)
    if mine is not None:
        return stale(mine)
    held = await table.meeting(tx, meant)
    others = [lock for lock in held if (lock.target.kind, lock.target.key) == (meant.kind, meant.key)]
    if others:
        first = others[0]
        return Rejected(
            Fault.REFUSED,
            "not_yours",
            f"{first.agent} (session {first.session}) holds {meant.path} until {iso(first.expires_at)}.",
            "Only its holder releases a lock; a person may with a forced release.",
            {"released": False, "locked_by": first.agent, "locked_by_session": first.session}
            | {"expires_at": iso(first.expires_at), "held": first.as_json()},
        )
    return Rejected(
        Fault.REFUSED,
        "not_held",
        f"This session holds no lock on {meant.path}.",
        "check_locks shows what is held; give the path as it was acquired.",
        {"released": False},
    )


def _told(answer: Json | Rejected) -> Json:
    if isinstance(answer, Rejected):
        raise answer
    return answer
