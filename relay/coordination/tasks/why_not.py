"""Why a caller cannot claim a task: every reason there is.

Invariant: no reason is given exactly when `get_work` could give the task to this caller now.

Runs in the caller's transaction.
"""

from __future__ import annotations

from typing import Any

from relay.base.durations import iso, within
from relay.coordination.locks.lock import lock_request
from relay.coordination.locks.service import Locks
from relay.coordination.locks.wait_line import obstacle
from relay.coordination.locks.wording import capital, named
from relay.coordination.tasks import task_events
from relay.coordination.tasks.dependencies import State
from relay.coordination.tasks.task import Status, Task
from relay.model import Caller, Json, references
from relay.store.ports import Tx


async def reasons(tx: Tx, task: Task, caller: Caller, locks: Locks) -> list[Json]:
    """`[{reason, message, ...}]`, empty when nothing stands in the way."""
    now, reasons = await tx.now(), list[Json]()
    if task.archived_at is not None:
        message = f"{task.ref} was taken off the board; `/undo` may bring it back."
        reasons.append(_reason("archived", message))
    if task.status in (Status.COMPLETED, Status.FAILED, Status.DEAD):
        message = f"{task.ref} is {task.status}." + (f" {task.note}" if task.note else "")
        reasons.append(_reason("finished", message, status=str(task.status)))
    if task.status is Status.CLAIMED:
        reasons.append(_claimed(task, caller, now))
    if task.status is Status.BLOCKED:
        reasons += await blocked(tx, task)
    if task.status is Status.PENDING and task.not_before > now:
        next_at = iso(task.not_before)
        when = f"{next_at} (in {within(task.not_before, now)})"
        message = f"Attempt {task.attempts} failed; the next may begin at {when}."
        reasons.append(_reason("backing_off", message, next_at=next_at))
    if task.files and task.active and task.claim is None:
        reasons += await _held_files(tx, task, caller, locks)
    return reasons


def _reason(reason: str, message: str, **more: Any) -> Json:
    return {"reason": reason, "message": message, **more}


def _claimed(task: Task, caller: Caller, now: float) -> Json:
    until = iso(task.lease_until)
    left = "" if task.lease_until is None else f" ({within(task.lease_until, now)} left)"
    if task.holder == caller.holder:
        message = f"It is yours already, until {until}{left}."
    else:
        name = task.claimed_by
        if name == caller.agent and task.claimed_session is not None:
            name = capital(named(name, task.claimed_session, caller.agent))
        message = f"{name} works on it{f' until {until}{left}' if until else ''}."
    who = {"claimed_by": task.claimed_by, "claimed_session": task.claimed_session}
    return _reason("claimed", message, lease_until=until, **who)


async def blocked(tx: Tx, task: Task) -> list[Json]:
    """Why a blocked task waits: for which tasks."""
    unmet = [need for need in await task_events.needs_of(tx, task.id) if need.state is not State.MET]
    by = [
        {"id": need.id, "number": need.number, "status": str(need.status), "state": str(need.state)}
        for need in unmet
    ]
    waits = ", ".join(f"{references.task(need.number)} ({_words(need.status)})" for need in unmet)
    message = task.note or f"It waits for {waits}."
    return [_reason("blocked", message, blocked_by=by, on_failed=task.on_failed)]


def _words(status: Status) -> str:
    """The status as the board's columns and badges name it."""
    return "in progress" if status is Status.CLAIMED else str(status)


async def _held_files(tx: Tx, task: Task, caller: Caller, locks: Locks) -> list[Json]:
    reasons = []
    for target in locks.stored_targets(task.files):
        blocked = await obstacle(tx, caller, lock_request([target]), None)
        if blocked is not None:
            answer = blocked.as_json()
            names = ("file_path", "locked_by", "locked_by_session", "expires_at")
            who = {name: answer[name] for name in names}
            reasons.append(_reason("files_held", answer["message"], **who))
    return reasons
