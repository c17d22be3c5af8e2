"""The values of the room that its parts and the interfaces share: jobs, cycles, pages, frames.

Invariant: plain values; each has one JSON form (docs/http.md), made here and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from relay.base.durations import iso
from relay.model import Kind, Message
from relay.store.ports import Row, of_row


class JobState(StrEnum):
    """A row of the dispatch queue: what people read as queued, working, answered, failed, skipped."""

    PENDING = "pending"
    ACTIVE = "active"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    DEAD = "dead"


class CycleState(StrEnum):
    """Where the routing of a person's message stands."""

    ROUTING = "routing"
    ROUTED = "routed"
    ABSORBED = "absorbed"
    CLARIFIED = "clarified"
    FOLDED = "folded"
    STEWARD = "steward"


@dataclass(frozen=True, slots=True)
class Job:
    """One (message, agent) of the dispatch queue. Times are Unix seconds."""

    id: int
    message_id: str
    agent: str
    state: JobState
    created_at: float
    attempts: int = 0
    not_before: float = 0.0
    holder: str | None = None
    error: str | None = None
    error_class: str | None = None
    cause_event: str = ""
    answer_id: str | None = None
    folded_into: int | None = None
    #: How often its turn was cut off since it was queued.
    interruptions: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    #: When the agent heard the message inside a running turn, and after which tool ("" = after none); None = it comes
    #: with a turn's prompt.
    heard_at: float | None = None
    heard_after: str | None = None

    @classmethod
    def of_row(cls, row: Row) -> Job:
        return of_row(cls, row, state=JobState(row["state"]), interruptions=row["interrupted"])

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "message_id": self.message_id,
            "agent": self.agent,
            "state": str(self.state),
            "attempts": self.attempts,
            "reason": self.error,
            "error_class": self.error_class,
            "created_at": iso(self.created_at),
            "not_before": iso(self.not_before) if self.not_before else None,
            "started_at": iso(self.started_at),
            "ended_at": iso(self.ended_at),
            "answer_id": self.answer_id,
            "folded_into": self.folded_into,
            "heard_at": iso(self.heard_at),
            "heard_after": self.heard_after,
        }

    def as_fact(self) -> dict[str, Any]:
        """What an event says of it: `as_json` without what is not set. Most is not, and events are kept for ever."""
        return {name: value for name, value in self.as_json().items() if value is not None}


#: What is shown of a job, and of an entry, where its event says nothing of it.
_NO_JOB = dict.fromkeys(Job(0, "", "", JobState.PENDING, 0.0).as_json())
_NO_ENTRY: Mapping[str, Any] = {"in_reply_to": None, "thread": None, "to": [], "job": None, "meta": {}}


def job_of_fact(fact: Mapping[str, Any]) -> dict[str, Any]:
    """A job as it is shown, from what an event says of it."""
    return {**_NO_JOB, **fact}


def entry_fact(message: Message) -> dict[str, Any]:
    """What an event says of an entry: as it is shown, without what it has not, and without its place."""
    shown = message.as_json()
    del shown["cursor"]
    return {name: value for name, value in shown.items() if value or name not in _NO_ENTRY}


def entry_of_fact(fact: Mapping[str, Any], pos: int) -> dict[str, Any]:
    """An entry as it is shown, from what the event at this place says of it."""
    return {**_NO_ENTRY, **fact, "cursor": str(pos)}


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the transcript, oldest first. `next`: the cursor behind it; `more`: there is more before (or,
    on a page behind a cursor, after); `more_after`: a page around an entry does not reach the present; `replies`: how
    many entries are in the thread that one of these began, by its id."""

    entries: Sequence[Message]
    next: int
    more: bool
    more_after: bool = False
    replies: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Frame:
    """What a connected client is told. `cursor` is None for what is not stored (docs/http.md)."""

    cursor: int | None
    type: str
    data: Mapping[str, Any] = field(default_factory=dict)

    def as_text(self) -> str:
        cursor = None if self.cursor is None else str(self.cursor)
        return json.dumps({"cursor": cursor, "type": self.type, "data": self.data}, ensure_ascii=False)


def message_of_row(row: Row) -> Message:
    """The message that a row of `messages` holds."""
    to, meta = tuple(json.loads(row["addressed"])), json.loads(row["meta"])
    return of_row(Message, row, kind=Kind(row["kind"]), cursor=row["pos"], to=to, meta=meta)
