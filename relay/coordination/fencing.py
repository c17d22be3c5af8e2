"""May this file be written now? What a hook, git and a changeset ask before a write is let through.

Invariants:
- a write is refused where another holds what meets the file, shared or not: shared is for reading;
- it is refused where the writer's own lease on what meets the file is over and it holds none on it now: it slept, and
  does not know what was written meanwhile;
- who never asked for a lock may write what nobody holds.

(Issue 3, "Locks": the fencing token is demanded where a write happens.)
"""

from __future__ import annotations

from collections.abc import Sequence

from relay.coordination import lock_table as table
from relay.coordination.lock import Lock, Verdict
from relay.coordination.lock_table import Q
from relay.coordination.paths import Target, file
from relay.coordination.patterns import stands_for
from relay.log.store import Tx
from relay.model import Caller


async def may_write(
    tx: Tx,
    caller: Caller,
    paths: Sequence[str],
    fencing_token: int | None = None,
    *,
    fold: bool = False,
) -> list[Verdict]:
    """A verdict on each path (a file's name relative to the root, no pattern), in their order.

    `fencing_token`: of the lease that the write is done under; when this session does not hold it any more, all are
    stale. Reads only, by indexes; it is no heartbeat. Raises Rejected for what is no path of the repository.
    """
    mine = await table.of_session(tx, caller)
    living = await _living(tx, caller, mine)
    if fencing_token is not None and fencing_token not in {lock.token for lock in living}:
        gone = next((lock for lock in mine if lock.token == fencing_token), None)
        return [Verdict(path, "stale", gone, fencing_token) for path in paths]
    verdicts = []
    for path in paths:
        meant = file(path, fold)
        met = await table.meeting(tx, meant, besides=(caller.agent, caller.session))
        others = [lock for lock in met if concerns(lock, meant)]
        verdicts.append(decide(path, meant, others, mine, living))
    return verdicts


async def _living(tx: Tx, caller: Caller, mine: Sequence[Lock]) -> list[Lock]:
    now = await tx.now()
    if not mine or await tx.one(Q.session_alive, agent=caller.agent, session=caller.session, now=now) is None:
        return []
    return [lock for lock in mine if lock.expires_at > now]


def concerns(lock: Lock, file: Target) -> bool:
    """Is the lock about this file? A path may be a folder, and meets patterns of what is below; a file is none."""
    if lock.target.kind == "glob":
        return stands_for(lock.target.key, file.key)
    return file.meets(lock.target.kind, lock.target.key)


def decide(
    path: str, meant: Target, others: Sequence[Lock], mine: Sequence[Lock], living: Sequence[Lock]
) -> Verdict:
    """`others`: of other holders, living, that meet it; `mine`: all rows of the writer; `living`: those that hold."""
    if others:
        return Verdict(path, "locked", others[0])
    if any(concerns(lock, meant) for lock in living):
        return Verdict(path, "ok")
    met = [lock for lock in mine if concerns(lock, meant)]
    return Verdict(path, "stale", max(met, key=lambda lock: lock.token)) if met else Verdict(path, "ok")
