"""An entry of the transcript."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """Who an entry of the transcript is from."""

    HUMAN = "human"
    AGENT = "agent"
    SYSTEM = "system"
    DISPATCHER = "dispatcher"
    ADVISORY = "advisory"


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of the transcript.

    `id` is a UUIDv7 and `number` the room's short number for people to quote (`m12`); `ts` is ISO 8601 in
    UTC, for display only; `cursor` is the entry's place in the room, growing, 0 while it has none.
    `to` holds the names that were addressed, `job` the dispatch job that an answer ends.
    """

    id: str
    ts: str
    speaker: str
    kind: Kind
    body: str
    number: int = 0
    cursor: int = 0
    in_reply_to: str | None = None
    to: tuple[str, ...] = ()
    job: int | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The entry as every door shows it."""
        return {
            "id": self.id,
            "number": self.number,
            "ts": self.ts,
            "speaker": self.speaker,
            "kind": str(self.kind),
            "body": self.body,
            "in_reply_to": self.in_reply_to,
            "to": list(self.to),
            "job": self.job,
            "meta": dict(self.meta),
            "cursor": str(self.cursor),
        }
