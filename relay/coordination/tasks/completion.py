"""How a claim ends, and why one could not be ended: pure decisions over plain values.

Invariant: a caller who held the task and lost it hears `stale_token`, whatever became of the task since; one who
never held it hears `not_yours`, or of a finished one `already_completed`, with what is stored, as does the one whose
own completion stands. (docs/coordination.md, "Work".)
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from relay.base.durations import iso, since
from relay.coordination.locks.lock import Lock
from relay.coordination.locks.wording import named
from relay.coordination.tasks.task import Status, Task
from relay.model import Caller, Refusal
from relay.model.validation import digest

_OVER = (Status.COMPLETED, Status.FAILED)


@dataclass(frozen=True, slots=True)
class Completion:
    """How an agent says that a task ended. `skill`: what it was done by."""

    status: Status
    result: Any
    error_message: str | None
    skill: str | None = None

    def columns(self) -> dict[str, Any]:
        """The values of the table's columns."""
        result = None if self.result is None else json.dumps(self.result, ensure_ascii=False)
        return {"status": str(self.status), "result": result, "error_message": self.error_message}

    def is_that_of(self, task: Task, caller: Caller) -> bool:
        """Is this what is stored, by the same agent? (Any session of it may say it again.)"""
        same = (task.status, task.error_message) == (self.status, self.error_message)
        return same and task.claimed_by == caller.agent and digest(task.result) == digest(self.result)


def why_not(task: Task, caller: Caller, token: int | None, now: float) -> Refusal:
    """Why the caller does not hold the task."""
    details: dict[str, Any] = {"task_id": task.id, "status": str(task.status)}
    if task.status in _OVER:
        details |= {
            "result": task.result,
            "error_message": task.error_message,
            "completed_by": task.claimed_by,
        }
    mine = task.holder == caller.holder
    over = task.lease_until is not None and task.lease_until <= now
    until = f"{iso(task.lease_until)} ({since(task.lease_until, now)})" if task.lease_until else ""
    if task.status is Status.CLAIMED and mine and task.archived_at is None:
        if over:
            return _stale(task, f"your lease ran out at {until}", details)
        return _stale(task, f"your token is {task.fence}, not {token}", details)
    if not mine and task.had(caller.agent, caller.session):
        return _stale(task, _since(task), details | _holder(task))
    if task.status in _OVER:
        message = f"{task.ref} is {task.status} already, and its result stays."
        fix = "Nothing is left to do; a person may reopen it."
        return Refusal(message, fix, code="already_completed", details=details)
    if mine and task.had(caller.agent, caller.session):
        return _stale(task, _since(task), details)
    who = task.claimed_by
    if who == caller.agent and task.claimed_session is not None:
        who = named(who, task.claimed_session, caller.agent)
    where, fix = f"it is {task.status}, and nobody has claimed it", "`get_work` gives you a task of your own."
    if task.status is Status.CLAIMED and over:
        where = f"{who} had it until {until}, and now it is open to anyone"
        fix, details = "`get_work` gives it to whoever asks first.", details | {"lease_over": True}
    elif task.claimed_by:
        where = f"{who} works on it"
    details |= _holder(task)
    return Refusal(f"{task.ref} is not yours: {where}.", fix, code="not_yours", details=details)


def file_lost(task: Task, lock: Lock, now: float) -> Refusal:
    """Why a claim cannot be completed: another session holds one of its files by now."""
    held = f"{named(*lock.holder, task.claimed_by or '')} holds {lock.path} until {lock.until(now)}"
    fix = "Nothing was written. `renew` the claim when the file is free, and look at what changed; or `release_work`."
    details = {
        "task_id": task.id,
        "status": str(task.status),
        "file_path": lock.path,
        "locked_by": lock.agent,
        "locked_by_session": lock.session,
        "expires_at": iso(lock.expires_at),
    }
    return Refusal(f"You lost a file of {task.ref}: {held}.", fix, code="stale_token", details=details)


def _since(task: Task) -> str:
    if task.archived_at is not None:
        return "a person took it off the board"
    if task.status is Status.CLAIMED:
        return f"{task.claimed_by} has it now"
    return f"it is {task.status} now"


def _holder(task: Task) -> dict[str, Any]:
    until = iso(task.lease_until)
    return {"claimed_by": task.claimed_by, "claimed_session": task.claimed_session, "lease_until": until}


def _stale(task: Task, why: str, details: dict[str, Any]) -> Refusal:
    fix = "Nothing was written; `get_work` gives you the next task."
    return Refusal(f"You lost the claim on {task.ref}: {why}.", fix, code="stale_token", details=details)
