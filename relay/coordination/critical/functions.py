"""The critical operations as functions of PostgreSQL (postgres/migrations/0001_functions.sql): one round trip each.

Invariant: what a function answers is shaped by the values that shape it on the general way, so the two cannot differ
in what they say. (004, "Database Persistence".)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import structlog

from relay.coordination.locks.lock import Blocked, Granted, Lock, Outcome, Wish
from relay.coordination.locks.table import reach
from relay.coordination.paths.targets import Target
from relay.coordination.sessions import Heartbeat
from relay.coordination.tasks.task import Status, Task
from relay.log.events import loads
from relay.model import Caller
from relay.store.ports import OutcomeUnknown, Queries, Query, Row, Store, StoreAway, StoreBusy, StoreError, Tx

log = structlog.get_logger(__name__)
Q = Queries(Path(__file__).parent)
#: What a function says when the case is not a plain one; it has changed nothing then.
GENERAL = "general"


class Functions:
    """`Shortcuts` of a PostgreSQL store."""

    def __init__(self, store: Store, heartbeat: Heartbeat) -> None:
        self._store, self._heartbeat = store, heartbeat

    async def acquire(self, caller: Caller, wanted: Wish) -> Outcome | None:
        """One path or logical key; several, and patterns, are general."""
        target = wanted.targets[0]
        if len(wanted.targets) > 1 or target.kind == "glob":
            return None
        found = reach(target)
        row = await self._asked(
            Q.acquire_lock,
            caller,
            kind=target.kind,
            key=target.key,
            path=target.path,
            shape=found["shape"],
            above=loads(found["above"]),
            bases=loads(found["bases"]),
            low=found["low"],
            whole=found["whole"],
            high=found["high"],
            mode=wanted.mode,
            ttl_s=wanted.ttl_s,
            reason=wanted.reason,
        )
        if row is None:
            return None
        lock = Lock.of_row(row)
        if row["outcome"] == "blocked":
            return Blocked(target, lock, row["now"], reader=caller.agent)
        return Granted((lock,), frozenset({lock.token} if row["outcome"] == "acquired" else ()))

    async def release(self, caller: Caller, target: Target, token: int | None) -> Lock | None:
        """The lock that was freed."""
        row = await self._asked(Q.release_lock, caller, kind=target.kind, key=target.key, token=token)
        return None if row is None else Lock.of_row(row)

    async def claim(self, caller: Caller, types: Sequence[str] | None, lease_s: float) -> Task | bool:
        """The claimed task; False: nothing is ready; True: it is general."""
        asked = None if types is None else list(types)
        row = await self._asked(
            Q.claim_work, caller, agent_type=caller.agent_type, types=asked, for_s=lease_s
        )
        if row is None:
            return True
        return Task.of_row(row) if row["outcome"] == "claimed" else False

    async def complete(
        self,
        caller: Caller,
        task_id: str,
        status: Status,
        result: Any,
        error_message: str | None,
        token: int | None,
    ) -> Task | None:
        """The task that was ended."""
        row = await self._asked(
            Q.complete_work,
            caller,
            id=task_id,
            status=str(status),
            result=None if result is None else json.dumps(result, ensure_ascii=False),
            error_message=error_message,
            fence=token,
        )
        return None if row is None else Task.of_row(row)

    async def _asked(self, query: Query, caller: Caller, **more: Any) -> Row | None:
        """What the function answers, None when it says that the case is general."""

        async def call(tx: Tx) -> Row | None:
            return await tx.one(
                query,
                agent=caller.agent,
                session=caller.session,
                person=caller.person,
                lease_s=self._heartbeat.lease_s(caller),
                claim_s=self._heartbeat.claim_s,
                alone=True,
                **more,
            )

        try:
            row = await self._store.write(call, single=True)
        except (StoreBusy, StoreAway, OutcomeUnknown):
            raise
        except StoreError as error:
            # Nothing was changed. What the database cannot do by itself, relay may be able to: the general way says.
            log.warning("function_failed", operation=query.name, error=str(error))
            return None
        return None if row is None or row["outcome"] == GENERAL else row
