"""A task, and what a person may do to it: pure decisions over plain values.

Invariants:
- the table's six states show in three columns: pending and blocked stand in `pending`; claimed in
  `in_progress`; completed, failed and dead, which nobody works on any more, in `done`. Blocked, failed and
  dead carry a badge, so what ended badly is never taken for done;
- a move that gives a claim, takes it away or ends it raises `fence`: who holds an older one holds nothing;
- a finished task that is moved back starts a new attempt: `attempts` + 1, without the old result.

Pure: no clock, no I/O. (004, "Work Queue".)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

from relay.log.events import now_iso
from relay.model import Refusal

MAX_TITLE = 200
#: Seconds that one step of priority is worth: after this long, a task stands level with a newer one that is
#: one step more urgent.
RANK_STEP_S = 900.0


class BoardRefusal(Refusal):
    """The board does not do this. `reason` is one sentence, `fix` what would make it succeed."""


class Status(StrEnum):
    """The states of `work_queue`."""

    PENDING = "pending"
    CLAIMED = "claimed"
    COMPLETED = "completed"
    FAILED = "failed"
    BLOCKED = "blocked"
    DEAD = "dead"


class Column(StrEnum):
    """The board's words, in the board's order."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    DONE = "done"


_COLUMN = {
    Status.PENDING: Column.PENDING,
    Status.BLOCKED: Column.PENDING,
    Status.CLAIMED: Column.IN_PROGRESS,
    Status.COMPLETED: Column.DONE,
    Status.FAILED: Column.DONE,
    Status.DEAD: Column.DONE,
}
_STATUS = {
    Column.PENDING: Status.PENDING,
    Column.IN_PROGRESS: Status.CLAIMED,
    Column.DONE: Status.COMPLETED,
}
_BADGES = frozenset({Status.BLOCKED, Status.FAILED, Status.DEAD})
_ORDER = list(Column)
_JSON = frozenset({"input_data", "depends_on", "result"})


@dataclass(frozen=True, slots=True)
class Task:
    """A row of `work_queue`. Times are Unix seconds; see the migration for each column's meaning."""

    id: str
    number: int
    task_type: str
    task_description: str
    rank: float
    status: Status
    created_by: str
    created_at: float
    updated_at: float
    priority: int = 5
    input_data: Any = None
    depends_on: tuple[str, ...] = ()
    claimed_by: str | None = None
    claimed_at: float | None = None
    lease_until: float | None = None
    fence: int = 0
    attempts: int = 0
    result: Any = None
    error_message: str | None = None
    completed_at: float | None = None
    archived_at: float | None = None

    @property
    def title(self) -> str:
        return self.task_description

    @property
    def column(self) -> Column:
        return _COLUMN[self.status]

    @property
    def badge(self) -> Status | None:
        return self.status if self.status in _BADGES else None

    @property
    def active(self) -> bool:
        """Still to be done: pending (blocked too) or in progress."""
        return self.column is not Column.DONE

    def as_json(self) -> dict[str, Any]:
        """TASK of docs/http.md."""
        return {
            "id": self.id,
            "number": self.number,
            "title": self.title,
            "status": str(self.column),
            "badge": str(self.badge) if self.badge else None,
            "assignee": self.claimed_by,
            "created_by": self.created_by,
            "created_at": _iso(self.created_at),
            "updated_at": _iso(self.updated_at),
            "priority": self.priority,
        }

    def record(self) -> dict[str, Any]:
        """The whole task as JSON values, for an event; what is not set is left out."""
        told = {field.name: getattr(self, field.name) for field in fields(self)}
        told |= {"status": str(self.status), "depends_on": list(self.depends_on)}
        return {name: value for name, value in told.items() if value is not None}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Task:
        """The task of an event; columns that this relay does not know are passed over."""
        known = {field.name: record[field.name] for field in fields(cls) if field.name in record}
        known["status"] = Status(known["status"])
        known["depends_on"] = tuple(known.get("depends_on", ()))
        return cls(**known)

    def columns(self) -> dict[str, Any]:
        """The values of the table's columns."""
        told = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in _JSON:
            told[name] = None if told[name] is None else json.dumps(told[name], ensure_ascii=False)
        return {**told, "status": str(self.status)}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Task:
        told = {field.name: row[field.name] for field in fields(cls)}
        for name in _JSON:
            told[name] = None if told[name] is None else json.loads(told[name])
        return cls.of_record(told)


def rank(created_at: float, priority: int) -> float:
    """The static rank of a task: smaller is sooner; priority 1 is the most urgent."""
    return created_at + priority * RANK_STEP_S


def clean_title(text: str) -> str:
    """The title on one line. Raises BoardRefusal when nothing is left, or too much."""
    # A control character would reach terminals and, in a title, says nothing to anybody.
    title = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if not title:
        raise BoardRefusal("A task needs a title.", "Say what is to be done: `/task <title>`.")
    if len(title) > MAX_TITLE:
        raise BoardRefusal(
            f"The title has {len(title)} characters; {MAX_TITLE} are allowed.", "Say the rest in a message."
        )
    return title


def column(word: str) -> Column:
    """The column of that name. Raises BoardRefusal that names the nearest one."""
    asked = word.strip().lower().replace("-", "_").replace(" ", "_")
    try:
        return Column(asked)
    except ValueError:
        near = get_close_matches(asked, _ORDER, n=1, cutoff=0.5)
        guess = f"Did you mean `{near[0]}`? " if near else ""
        raise BoardRefusal(
            f"The board has no column {word[:40]!r}.", f"{guess}It has pending, in_progress and done."
        ) from None


def moved(task: Task, to: Column, *, by: str, now: float) -> Task:
    """The task after a person moved it. Raises BoardRefusal when it is there already.

    To `done` a failed or dead one may go: a person who says it is done after all overrules the badge.
    """
    if task.column is to and not (to is Column.DONE and task.badge):
        waits = " (blocked: it waits for others)" if task.badge else ""
        anyway = f" `/move #{task.number} in_progress` takes it up all the same." if task.badge else ""
        raise BoardRefusal(
            f"#{task.number} is {to} already{waits}.", (anyway or f"`{_other(task)}` would move it.").strip()
        )
    after = replace(task, status=_STATUS[to], updated_at=now, fence=task.fence + 1, lease_until=None)
    if to is Column.DONE:
        return replace(after, completed_at=now, error_message=None)
    if not task.active:
        after = replace(after, attempts=task.attempts + 1, result=None, error_message=None, completed_at=None)
    taken = to is Column.IN_PROGRESS
    return replace(after, claimed_by=by if taken else None, claimed_at=now if taken else None)


def _other(task: Task) -> str:
    to = Column.IN_PROGRESS if task.column is Column.PENDING else Column.PENDING
    return f"/move #{task.number} {to}"


def restored(current: Task, before: Task | None, *, now: float) -> Task:
    """The task as it was before a change; one that was not there before is archived, its number stays used.

    The fence never goes back: a claim that the undone change ended does not come alive again.
    """
    was = replace(current, archived_at=now) if before is None else before
    return replace(was, fence=current.fence + 1, updated_at=now)


def same_work(one: Task, other: Task) -> bool:
    """Are the two the same to people? The fence, the lease and the time of the change may differ."""
    blank = {"fence": 0, "lease_until": None, "updated_at": 0.0}
    return replace(one, **blank) == replace(other, **blank)  # type: ignore[arg-type]


def board_order(tasks: Iterable[Task]) -> list[Task]:
    """Pending, in progress, done; by number within."""
    return sorted(tasks, key=lambda task: (_ORDER.index(task.column), task.number))


def numbers(tasks: Sequence[int]) -> str:
    """`#1-#4, #7` for people."""
    runs: list[tuple[int, int]] = []
    for number in sorted(tasks):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return ", ".join(f"#{low}" if low == high else f"#{low}-#{high}" for low, high in runs)


def _iso(at: float) -> str:
    return now_iso(datetime.fromtimestamp(at, UTC))
