"""Taking a lock in one round trip (`critical/stored_functions`). None: go the general way."""

from __future__ import annotations

from relay.coordination.critical.stored_functions import Functions, Q
from relay.coordination.locks.lock import Blocked, Granted, Lock, LockRequest, Outcome
from relay.coordination.locks.table import reach
from relay.log.encoding import loads
from relay.model import Caller


async def acquire(functions: Functions, caller: Caller, wanted: LockRequest) -> Outcome | None:
    """One path or logical key; several, and patterns, are general."""
    target = wanted.targets[0]
    if len(wanted.targets) > 1 or target.kind == "glob":
        return None
    about = reach(target)
    about = {**about, "above": loads(about["above"]), "bases": loads(about["bases"]), "path": target.path}
    asked = {"mode": wanted.mode, "ttl_s": wanted.ttl_s, "reason": wanted.reason}
    row = await functions.ask(Q.acquire_lock, caller, **about, **asked)
    if row is None:
        return None
    lock = Lock.of_row(row)
    if row["outcome"] == "blocked":
        return Blocked(target, lock, row["now"], reader=caller.agent)
    return Granted((lock,), frozenset({lock.token} if row["outcome"] == "acquired" else ()))
