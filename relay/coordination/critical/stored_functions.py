"""The critical operations as functions of PostgreSQL (postgres/migrations/0001_functions.sql): one round trip each.

Invariants: a function either does the whole operation, with the heartbeat and the event, exactly as the general way
does it, or says None and has changed nothing; then the general way is gone. What it answers is shaped by the values
that shape it on the general way, so the two cannot differ in what they say.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import structlog

from relay.coordination.sessions import Heartbeat
from relay.model import Caller
from relay.store.ports import OutcomeUnknown, Queries, Query, Row, Store, StoreAway, StoreBusy, StoreError, Tx

log = structlog.get_logger(__name__)
Q = Queries(Path(__file__).parent)
#: What a function says when the case is not a plain one; it has changed nothing then.
GENERAL = "general"


class Functions:
    """The critical functions of a PostgreSQL store."""

    def __init__(self, store: Store, heartbeat: Heartbeat) -> None:
        self._store, self._heartbeat = store, heartbeat

    async def ask(self, query: Query, caller: Caller, **more: Any) -> Row | None:
        """What the function answers, None when it says that the case is general."""

        async def call(tx: Tx) -> Row | None:
            leases = {"lease_s": self._heartbeat.lease_s(caller), "claim_s": self._heartbeat.claim_s}
            return await tx.one(query, **caller.ids, person=caller.person, alone=True, **leases, **more)

        try:
            row = await self._store.write(call, single=True)
        except (StoreBusy, StoreAway, OutcomeUnknown):
            raise
        except StoreError as error:
            # Nothing was changed. What the database cannot do by itself, relay may be able to: the general way says.
            log.warning("function_failed", operation=query.name, error=str(error))
            return None
        return None if row is None or row["outcome"] == GENERAL else row


def functions_of(store: Store, heartbeat: Heartbeat) -> Functions | None:
    """Those of the store's engine; None where the general way is as short. Only here is it asked which engine it
    is."""
    return Functions(store, heartbeat) if store.engine == "postgres" else None
