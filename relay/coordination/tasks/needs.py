"""What a request says a task depends on, looked up and checked.

Invariant: what passes exists, is not the task itself, and closes no circle.

Everything here runs in the caller's transaction.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from relay.coordination.tasks.dependencies import find_cycle
from relay.coordination.tasks.task import Need, Task
from relay.coordination.tasks.task_events import Q
from relay.model import Fault, Refusal
from relay.model import references as refs
from relay.model.validation import malformed, uuid
from relay.store.ports import Tx


def reference(value: object) -> str:
    """A task's id as it is stored, or `t3` for the number that people quote. Raises Refusal (malformed)."""
    named = refs.read(value, refs.Thing.TASK) if isinstance(value, str) else None
    if named is not None and named[0] is refs.Thing.TASK and named[1]:
        return refs.task(named[1])
    try:
        return uuid(value, "task_id")
    except Refusal:
        fix = "Give the UUID that `submit_work` or `get_work` returned, or the number as `t3`."
        raise malformed("task_id", f"{str(value)[:60]!r} is not a task's id.", fix) from None


async def look(tx: Tx, reference_: str) -> Task | None:
    if reference_.startswith(refs.Thing.TASK):
        row = await tx.one(Q.task_by_number, number=int(reference_[1:]))
    else:
        row = await tx.one(Q.task_by_id, id=reference_)
    return None if row is None else Task.of_row(row)


async def found_task(tx: Tx, reference_: str) -> Task:
    """The task of that reference. Raises Refusal: UNKNOWN `unknown_task`."""
    task = await look(tx, reference_)
    if task is None:
        message, details = f"There is no task {reference_}.", {"task_id": reference_}
        fix = "`submit_work` and `get_work` return the ids of tasks."
        raise Refusal(message, fix, Fault.UNKNOWN, "unknown_task", details=details)
    return task


async def checked_needs(tx: Tx, task_id: str, references: Sequence[str]) -> tuple[Need, ...]:
    """What a new task needs, by number. Raises Refusal: UNKNOWN `unknown_dependency`, REFUSED
    `self_dependency`."""
    needs, unknown = set[Need](), list[str]()
    for needed in references:
        task = None if needed == task_id else await look(tx, needed)
        if needed == task_id or (task is not None and task.id == task_id):
            message, fix = "A task cannot depend on itself.", "Leave its own id out of `depends_on`."
            raise Refusal(message, fix, code="self_dependency", details={"task_id": task_id})
        if task is None:
            unknown.append(needed)
        else:
            needs.add(Need(task.id, task.number))
    if unknown:
        message = f"There is no task {', '.join(unknown)}."
        fix = "Submit first what others depend on, and give the `task_id` that was returned."
        raise Refusal(message, fix, Fault.UNKNOWN, "unknown_dependency", details={"unknown": unknown})
    return tuple(sorted(needs, key=lambda need: need.number))


async def rewired(tx: Tx, task: Task, references: Sequence[str]) -> tuple[Need, ...]:
    """What a task that is there is to need instead. Raises Refusal as `checked_needs`, and REFUSED
    `dependency_cycle`, `already_completed`."""
    if not task.active:
        message = f"{task.ref} is {task.status}: what it needed is settled."
        details = {"task_id": task.id, "status": str(task.status)}
        fix = "Only an unfinished task can wait for others."
        raise Refusal(message, fix, code="already_completed", details=details)
    needs = await checked_needs(tx, task.id, references)
    ids = [need.id for need in needs]
    edges: dict[str, list[str]] = {}
    for row in await tx.all(Q.needs_within, ids=json.dumps(ids)):
        edges.setdefault(row["task_id"], []).append(row["needs"])
    cycle = find_cycle(task.id, ids, edges)
    if cycle is None:
        return needs
    numbers = {row["id"]: row["number"] for row in await tx.all(Q.tasks_by_id, ids=json.dumps(cycle))}
    shown = " -> ".join(refs.task(numbers[id]) for id in cycle)
    fix = "Leave one of these out: none of them could ever begin."
    cycle_of = {"cycle": [{"id": id, "number": numbers[id]} for id in cycle]}
    raise Refusal(f"That is a cycle: {shown}.", fix, code="dependency_cycle", details=cycle_of)
