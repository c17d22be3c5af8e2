"""The short way of the critical operations: to take and free a lock, to claim and end a task, in one statement each.

Invariant: a shortcut either does the whole operation, with the heartbeat and the event, exactly as the general way
does it, or says None and has changed nothing; then the general way is gone.

The one place above the store that asks which engine it is. (004, "Database Persistence": critical operations.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from relay.coordination.critical.functions import Functions
from relay.coordination.locks.lock import Lock, Outcome, Wish
from relay.coordination.paths.targets import Target
from relay.coordination.sessions import Heartbeat
from relay.coordination.tasks.task import Status, Task
from relay.model import Caller
from relay.store.ports import Store


class Shortcuts(Protocol):
    """None of them: go the general way."""

    async def acquire(self, caller: Caller, wanted: Wish) -> Outcome | None: ...

    async def release(self, caller: Caller, target: Target, token: int | None) -> Lock | None: ...

    async def claim(self, caller: Caller, types: Sequence[str] | None, lease_s: float) -> Task | bool:
        """The claimed task; False: nothing is ready; True: go the general way."""
        ...

    async def complete(
        self,
        caller: Caller,
        task_id: str,
        status: Status,
        result: Any,
        error_message: str | None,
        token: int | None,
    ) -> Task | None: ...


def shortcuts_of(store: Store, heartbeat: Heartbeat) -> Shortcuts | None:
    """Those of the store's engine; None where the general way is as short."""
    return Functions(store, heartbeat) if store.engine == "postgres" else None
