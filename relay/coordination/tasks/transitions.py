"""What may become of a task: pure decisions over plain values.

Invariants:
- a move that gives a claim, takes it away or ends it takes a new `fence`, which the caller draws from the room's one
  counter: who holds an older one holds nothing, and is known by `past_claims`;
- a finished task that is moved back starts a new attempt: one more is allowed, without the old result.

Pure: no clock, no I/O. (docs/coordination.md, "Work".)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from relay.coordination.tasks.task import Claim, Column, Given, Need, Status, Task
from relay.model import Refusal

_STATUS = {
    Column.PENDING: Status.PENDING,
    Column.IN_PROGRESS: Status.CLAIMED,
    Column.DONE: Status.COMPLETED,
}


@dataclass(frozen=True, slots=True)
class BackOff:
    """Seconds before the next attempt: `first_s`, and twice as long after each one, at most `most_s`."""

    first_s: float = 5.0
    most_s: float = 600.0

    def after(self, attempts: int) -> float:
        # 2 ** 64 times a millisecond is beyond every limit, and no float overflows on the way.
        return min(self.most_s, self.first_s * 2.0 ** min(attempts - 1, 64))


def moved(task: Task, to: Column, *, by: str, now: float, fence: int, note: str | None = None) -> Task:
    """The task after a person moved it, with a `note` why; `fence` is a new token. Raises Refusal when it is
    there already.

    A failed or dead task may go to `done`: a person who says that it is done after all overrules the badge.
    """
    if task.column is to and not (to is Column.DONE and task.badge):
        waits = " (blocked: it waits for others)" if task.badge else ""
        anyway = f"`/move {task.ref} in_progress` starts it anyway." if task.badge else ""
        raise Refusal(f"{task.ref} is {to} already{waits}.", anyway or f"`{_other(task)}` would move it.")
    after = replace(
        unclaimed(task), status=_STATUS[to], updated_at=now, fence=fence, note=note, not_before=0.0
    )
    if to is Column.DONE:
        # The name of whoever did it stays on record.
        return replace(
            after,
            claimed_by=task.claimed_by,
            claimed_at=task.claimed_at,
            completed_at=now,
            error_message=None,
        )
    if not task.active:
        after = _anew(after, task)
    taken = to is Column.IN_PROGRESS
    return replace(after, claimed_by=by if taken else None, claimed_at=now if taken else None)


def given(task: Task, to: Given, *, now: float, fence: int) -> Task:
    """The task after a person gave it to an agent. Raises Refusal: it is done, or claimed."""
    if task.status is Status.COMPLETED:
        raise Refusal(f"{task.ref} is done.", f"`/move {task.ref} pending` opens it again.")
    if task.claim is not None:
        raise Refusal(f"{task.claimed_by} works on {task.ref}.", f"`/move {task.ref} pending` takes it back.")
    after = replace(
        unclaimed(task), status=Status.CLAIMED, updated_at=now, fence=fence, note=None, not_before=0.0
    )
    if not task.active:
        after = _anew(after, task)
    return replace(after, claimed_by=to.agent, claimed_at=now, given=(*task.given, to))


def given_up(task: Task, *, why: str, now: float, fence: int) -> Task:
    """A task whose agent did not take up the message by which it was given, or could not answer it. No attempt
    counts: nobody gives it to the next one but a person."""
    after = replace(unclaimed(task), status=Status.PENDING, updated_at=now, fence=fence)
    return replace(after, note=why)


def unclaimed(task: Task) -> Task:
    """The task without its claim, which is kept among the past ones."""
    past = task.past_claims if task.claim is None else (*task.past_claims, task.claim)
    return replace(
        task,
        claimed_by=None,
        claimed_session=None,
        claimed_type=None,
        claimed_at=None,
        lease_until=None,
        lease_s=None,
        past_claims=past,
    )


def _anew(task: Task, before: Task) -> Task:
    """A new attempt of a task that was finished, as `before` is. The claim that finished it is past."""
    past = task.past_claims
    if before.claimed_by is not None and before.claimed_session is not None:
        past = (*past, Claim(before.claimed_by, before.claimed_session, before.fence))
    return replace(
        task,
        # Of a dead one the last attempt is counted already.
        attempts=task.attempts + (before.status is not Status.DEAD),
        past_claims=past,
        max_attempts=task.max_attempts + 1,
        result=None,
        error_message=None,
        completed_at=None,
    )


def lapsed(task: Task, *, at: float, now: float, fence: int, why: str, back_off: BackOff) -> Task:
    """The task after an attempt came to nothing `at` that time: to be tried again after a while, or dead."""
    attempts = task.attempts + 1
    after = replace(
        unclaimed(task),
        status=Status.PENDING,
        attempts=attempts,
        updated_at=now,
        fence=fence,
        not_before=at + back_off.after(attempts),
        note=f"Attempt {attempts} ended: {why}.",
    )
    if attempts < task.max_attempts:
        return after
    note = f"Given up after {attempts} attempt{'s' * (attempts != 1)}: {why}."
    return replace(after, status=Status.DEAD, completed_at=now, not_before=0.0, note=note, error_message=note)


def unverified(task: Task, *, now: float, fence: int, why: str, back_off: BackOff) -> Task:
    """A completed task whose change did not pass: that attempt counts, and the task is open again, or dead."""
    past = task.past_claims
    if task.claimed_by is not None and task.claimed_session is not None:
        past = (*past, Claim(task.claimed_by, task.claimed_session, task.fence))
    before = replace(task, past_claims=past, result=None, error_message=None, completed_at=None)
    return lapsed(before, at=now, now=now, fence=fence, why=why, back_off=back_off)


def _other(task: Task) -> str:
    to = Column.IN_PROGRESS if task.column is Column.PENDING else Column.PENDING
    return f"/move {task.ref} {to}"


def needing(task: Task, needs: tuple[Need, ...], *, now: float) -> Task:
    """The task with other needs. Nobody works on a blocked one, so it is looked at anew, as a pending one."""
    status = Status.PENDING if task.status is Status.BLOCKED else task.status
    note = None if task.status is Status.BLOCKED else task.note
    return replace(task, depends_on=needs, status=status, note=note, updated_at=now)


def archived(task: Task, *, now: float, fence: int) -> Task:
    """The task taken off the board. It is nobody's then: whoever worked on it holds an old token."""
    past = unclaimed(task).past_claims
    after = replace(task, archived_at=now, updated_at=now, fence=fence, past_claims=past)
    return replace(after, claimed_session=None, lease_until=None)


def restored(current: Task, before: Task | None, *, now: float, fence: int) -> Task:
    """The task as it was before a change. A task that is new by the change is archived, and its number stays used.

    `fence` is a new token, and it never goes back: an agent's claim that the undone change ended does not come alive
    again, so the task is free for the next one.
    """
    # What an import made may be imported again.
    was = replace(current, archived_at=now, source=None) if before is None else before
    if was.claim is not None:
        was = replace(unclaimed(was), status=Status.PENDING)
    return replace(was, fence=fence, updated_at=now, past_claims=current.past_claims)
