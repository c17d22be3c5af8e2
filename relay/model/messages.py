"""An entry of the transcript, and what its text may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from relay.model.names import MAX_CLIENT_ID
from relay.model.refusals import Fault, Refusal


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
    #: The first entry of the thread that it is in, by its id; None: it answers none.
    thread: str | None = None
    to: tuple[str, ...] = ()
    job: int | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The entry as every interface shows it."""
        return {
            "id": self.id,
            "number": self.number,
            "ts": self.ts,
            "speaker": self.speaker,
            "kind": str(self.kind),
            "body": self.body,
            "in_reply_to": self.in_reply_to,
            "thread": self.thread,
            "to": list(self.to),
            "job": self.job,
            "meta": dict(self.meta),
            "cursor": str(self.cursor),
        }


def checked_body(body: str, most_bytes: int, *, fix_empty: str) -> str:
    """A message's text as it is kept, which is valid UTF-8. Raises Refusal where it is empty or has more bytes."""
    if not body.strip():
        raise Refusal("The message is empty.", fix_empty, Fault.MALFORMED)
    data = body.encode("utf-8", "replace")
    if len(data) > most_bytes:
        message = f"The message has {len(data):,} bytes; the largest is {most_bytes:,}."
        raise Refusal(message, "Put it into a file and name its path.", Fault.MALFORMED, "too_large")
    return data.decode("utf-8")


def check_client_id(client_id: str | None) -> None:
    """Raises Refusal for a client's id of a message that is too short or too long; None: the client gives none."""
    if client_id is not None and not 0 < len(client_id) <= MAX_CLIENT_ID:
        raise Refusal(f"client_id has 1 to {MAX_CLIENT_ID} characters.", "Send a UUID.", Fault.MALFORMED)
