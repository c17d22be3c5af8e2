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
from relay.model import Caller, references
from relay.store.ports import Tx

Json = dict[str, Any]


async def reasons(tx: Tx, task: Task, caller: Caller, locks: Locks) -> list[Json]:
    """`[{reason, message, ...}]`, empty when nothing stands in the way."""
    now, reasons = await tx.now(), list[Json]()
    if task.archived_at is not None:
        reasons.append(
            _told(
                "archived",
                f"{task.ref} was taken off the board; `/undo` may bring it back.",
            )
        )
    if task.status in (Status.COMPLETED, Status.FAILED, Status.DEAD):
        said = f" {task.note}" if task.note else ""
        reasons.append(_told("finished", f"{task.ref} is {task.status}.{said}", status=str(task.status)))
    if task.status is Status.CLAIMED:
        reasons.append(_claimed(task, caller, now))
    if task.status is Status.BLOCKED:
        reasons += await _blocked(tx, task)
    if task.status is Status.PENDING and task.not_before > now:
        reasons.append(
            _told(
                "backing_off",
                f"Attempt {task.attempts} failed; the next may begin at {iso(task.not_before)} "
                f"(in {within(task.not_before, now)}).",
                next_at=iso(task.not_before),
            )
        )
    if task.files and task.active and task.claim is None:
        reasons += await _held_files(tx, task, caller, locks)
    return reasons


def _told(reason: str, message: str, **more: Any) -> Json:
    return {"reason": reason, "message": message, **more}


def _claimed(task: Task, caller: Caller, now: float) -> Json:
    mine = (task.claimed_by, task.claimed_session) == (caller.agent, caller.session)
    until = iso(task.lease_until)
    left = "" if task.lease_until is None else f" ({within(task.lease_until, now)} left)"
    if mine:
        message = f"It is yours already, until {until}{left}."
    else:
        other = task.claimed_by == caller.agent and task.claimed_session is not None
        name = (
            capital(named(caller.agent, task.claimed_session or "", caller.agent))
            if other
            else task.claimed_by
        )
        message = f"{name} works on it{f' until {until}{left}' if until else ''}."
    who = {"claimed_by": task.claimed_by, "claimed_session": task.claimed_session}
    return _told("claimed", message, lease_until=until, **who)


async def _blocked(tx: Tx, task: Task) -> list[Json]:
    unmet = [need for need in await task_events.needs_of(tx, task.id) if need.state is not State.MET]
    by = [
        {"id": need.id, "number": need.number, "status": str(need.status), "state": str(need.state)}
        for need in unmet
    ]
    waits = ", ".join(f"{references.task(need.number)} ({need.status})" for need in unmet)
    message = task.note or f"It waits for {waits}."
    return [_told("blocked", message, blocked_by=by, on_failed=task.on_failed)]


async def _held_files(tx: Tx, task: Task, caller: Caller, locks: Locks) -> list[Json]:
    reasons = []
    for target in locks.kept(task.files):
        blocked = await obstacle(tx, caller, lock_request([target]), None)
        if blocked is not None:
            answer = blocked.as_json()
            kept = {
                name: answer[name] for name in ("file_path", "locked_by", "locked_by_session", "expires_at")
            }
            reasons.append(_told("files_held", answer["message"], **kept))
    return reasons
