"""Claiming and ending a task in one round trip (`critical/functions`)."""

from __future__ import annotations

from collections.abc import Sequence

from relay.coordination.critical.stored_functions import Functions, Q
from relay.coordination.tasks.completion import Completion
from relay.coordination.tasks.task import Task
from relay.model import Caller


async def claim(
    functions: Functions, caller: Caller, types: Sequence[str] | None, lease_s: float
) -> Task | bool:
    """The claimed task; False: nothing is ready; True: it is general."""
    asked = None if types is None else list(types)
    row = await functions.ask(Q.claim_work, caller, agent_type=caller.agent_type, types=asked, for_s=lease_s)
    if row is None:
        return True
    return Task.of_row(row) if row["outcome"] == "claimed" else False


async def complete(
    functions: Functions, caller: Caller, task_id: str, completion: Completion, token: int | None
) -> Task | None:
    """The task that was ended."""
    row = await functions.ask(Q.complete_work, caller, id=task_id, **completion.columns(), fence=token)
    return None if row is None else Task.of_row(row)
