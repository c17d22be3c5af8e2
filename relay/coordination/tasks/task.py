"""A task and how it is shown: plain values.

Invariant: the table's six states show in three columns: pending and blocked stand in `pending`; claimed in
  `in_progress`; completed, failed and dead, which nobody works on any more, in `done`. Blocked, failed and
  dead carry a badge, so what ended badly is never taken for done.

Pure: no clock, no I/O.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, NamedTuple

from relay.base.durations import iso
from relay.model import Refusal, references

MAX_TITLE = 200
#: Characters of a description that lists show.
MOST_LISTED = 1000
#: Seconds that one step of priority is worth: after this long, a task stands level with a newer one that is
#: one step more urgent.
RANK_STEP_S = 900.0


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
_BADGES = frozenset({Status.BLOCKED, Status.FAILED, Status.DEAD})
_ORDER = list(Column)
_JSON = frozenset({"input_data", "depends_on", "result", "files", "past_claims", "given"})
_LISTS = ("depends_on", "files", "past_claims", "given")


class Need(NamedTuple):
    """A task that another one depends on."""

    id: str
    number: int


class Claim(NamedTuple):
    """Who held a task, by which token."""

    agent: str
    session: str
    fence: int


class Given(NamedTuple):
    """That a person gave a task to an agent of the room, by a message (its id, and its number)."""

    message: str
    number: int
    agent: str


@dataclass(frozen=True, slots=True)
class Task:
    """A row of `work_queue`. Times are Unix seconds; see the migrations for each column's meaning."""

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
    depends_on: tuple[Need, ...] = ()
    claimed_by: str | None = None
    claimed_at: float | None = None
    lease_until: float | None = None
    fence: int = 0
    attempts: int = 0
    result: Any = None
    error_message: str | None = None
    completed_at: float | None = None
    archived_at: float | None = None
    claimed_session: str | None = None
    claimed_type: str | None = None
    not_before: float = 0.0
    max_attempts: int = 3
    lease_s: float | None = None
    on_failed: str = "block"
    files: tuple[str, ...] = ()
    note: str | None = None
    past_claims: tuple[Claim, ...] = ()
    given: tuple[Given, ...] = ()
    source: str | None = None
    source_sha: str | None = None

    @property
    def title(self) -> str:
        """The first line of the description, for a board: at most MAX_TITLE characters."""
        return title_of(self.task_description)

    @property
    def body(self) -> str:
        """The description without its title, as Markdown."""
        return body_of(self.task_description)

    @property
    def given_to(self) -> str | None:
        """The agent that a person gave it to, as long as that is who has it. Such a claim is of no session of the
        agent's, and has no lease: it lasts until the task ends, or until the agent gave the message up."""
        if self.status is not Status.CLAIMED or self.claimed_session is not None or not self.given:
            return None
        return self.claimed_by if self.given[-1].agent == self.claimed_by else None

    @property
    def ref(self) -> str:
        """As people write it: `t14`."""
        return references.task(self.number)

    @property
    def holder(self) -> tuple[str | None, str | None]:
        """The agent, or the person, that has or had it, and in which session."""
        return self.claimed_by, self.claimed_session

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
            "created_at": iso(self.created_at),
            "updated_at": iso(self.updated_at),
            "priority": self.priority,
            "task_type": self.task_type,
            "description": self.task_description,
            "body": self.body,
            "attempts": self.attempts,
            "max_attempts": self.max_attempts,
            # It says nothing about a task that is taken up or has ended.
            "not_before": iso(self.not_before) if self.not_before and self.status is Status.PENDING else None,
            "error_message": self.error_message,
            "depends_on": [need._asdict() for need in self.depends_on],
            "note": self.note,
            "lease_until": iso(self.lease_until),
            "files": list(self.files),
            "given": [given._asdict() for given in self.given],
            "source": self.source,
        }

    def as_listed(self) -> dict[str, Any]:
        """TASK as lists have it: a long description is cut, and `body`, which says it again, is left out."""
        shown = {**self.as_json(), "description": clipped(self.task_description)}
        del shown["body"]
        return shown

    @property
    def claim(self) -> Claim | None:
        """The claim that an agent's session holds; a person's has no session."""
        if self.status is not Status.CLAIMED or self.claimed_by is None or self.claimed_session is None:
            return None
        return Claim(self.claimed_by, self.claimed_session, self.fence)

    def had(self, agent: str, session: str) -> bool:
        """Did this session hold it once, and lost it?"""
        return any((claim.agent, claim.session) == (agent, session) for claim in self.past_claims)

    def record(self) -> dict[str, Any]:
        """The whole task as JSON values, for an event; what is not set is left out."""
        record = {field.name: getattr(self, field.name) for field in fields(self)}
        record |= {"status": str(self.status)} | {name: list(record[name]) for name in _LISTS}
        return {name: value for name, value in record.items() if value is not None}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Task:
        """The task of an event; columns that this relay does not know are passed over."""
        known = {field.name: record[field.name] for field in fields(cls) if field.name in record}
        known["status"] = Status(known["status"])
        known["depends_on"] = tuple(Need(*need) for need in known.get("depends_on", ()))
        known["past_claims"] = tuple(Claim(*claim) for claim in known.get("past_claims", ()))
        known["given"] = tuple(Given(*given) for given in known.get("given", ()))
        known["files"] = tuple(known.get("files", ()))
        return cls(**known)

    def columns(self) -> dict[str, Any]:
        """The values of the table's columns."""
        record = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in _JSON:
            record[name] = None if record[name] is None else json.dumps(record[name], ensure_ascii=False)
        return {**record, "status": str(self.status)}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Task:
        record = {field.name: row[field.name] for field in fields(cls)}
        for name in _JSON:
            record[name] = None if record[name] is None else json.loads(record[name])
        return cls.of_record(record)


def rank(created_at: float, priority: int) -> float:
    """The static rank of a task: smaller is sooner; priority 1 is the most urgent."""
    return created_at + priority * RANK_STEP_S


def _line(text: str) -> str:
    # A control character would reach terminals and, in a title, says nothing to anybody.
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def title_of(description: str) -> str:
    """The first line that says something, shortened to MAX_TITLE characters."""
    title = next((line for line in map(_line, description.splitlines()) if line), "")
    return title if len(title) <= MAX_TITLE else title[: MAX_TITLE - 1] + "…"


def retitled(description: str, title: str) -> str:
    """The description with another first line."""
    lines = description.splitlines()
    first = next((at for at, line in enumerate(lines) if _line(line)), 0)
    return "\n".join([title, *lines[first + 1 :]])


def body_of(description: str) -> str:
    """What stands below the first line; all of it where that line is too long for a title."""
    lines = description.splitlines()
    first = next((at for at, line in enumerate(lines) if _line(line)), 0)
    if lines and len(_line(lines[first])) > MAX_TITLE:
        return description.strip()
    return "\n".join(lines[first + 1 :]).strip("\n").rstrip()


def clipped(description: str) -> str:
    """As lists show it."""
    return description if len(description) <= MOST_LISTED else f"{description[: MOST_LISTED - 1]}…"


def described(title: str, body: str) -> str:
    """The description that has this title and this body."""
    body = body.strip("\n").rstrip()
    return f"{title}\n\n{body}" if body else title


def clean_title(text: str) -> str:
    """The title on one line. Raises Refusal when nothing is left, or too much."""
    title = _line(text)
    if not title:
        raise Refusal("A task needs a title.", "Say what is to be done: `/task <title>`.")
    if len(title) > MAX_TITLE:
        message = f"The title has {len(title)} characters; the limit is {MAX_TITLE}."
        raise Refusal(message, "Put the rest in a message.")
    return title


def column(word: str) -> Column:
    """The column of that name. Raises Refusal that names the nearest one."""
    asked = word.strip().lower().replace("-", "_").replace(" ", "_")
    try:
        return Column(asked)
    except ValueError:
        near = get_close_matches(asked, _ORDER, n=1, cutoff=0.5)
        guess = f"Did you mean `{near[0]}`? " if near else ""
        fix = f"{guess}The columns are pending, in_progress and done."
        raise Refusal(f"The board has no column {word[:40]!r}.", fix) from None


def same_work(a: Task, b: Task) -> bool:
    """Are the two the same to people? The fence, the lease and the time of the change may differ, and whether a task
    that nobody works on is blocked, which follows from others."""
    return _plain(a) == _plain(b)


def same_text(a: Task, b: Task) -> bool:
    """Do the two say the same of themselves?"""
    return replace(a, updated_at=b.updated_at, status=b.status, note=b.note) == b


def _plain(task: Task) -> Task:
    free = task.status is Status.BLOCKED
    return replace(
        task,
        status=Status.PENDING if free else task.status,
        fence=0,
        lease_until=None,
        updated_at=0.0,
        note=None,
        past_claims=(),
    )


def board_order(tasks: Iterable[Task]) -> list[Task]:
    """Pending, in progress, done; by number within."""
    return sorted(tasks, key=lambda task: (_ORDER.index(task.column), task.number))


def numbers(tasks: Sequence[int]) -> str:
    """`t1-t4, t7` for people."""
    runs: list[tuple[int, int]] = []
    for number in sorted(tasks):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return ", ".join(
        references.task(low) if low == high else f"{references.task(low)}-{references.task(high)}"
        for low, high in runs
    )
