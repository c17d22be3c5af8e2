"""What has left the log: a part of its beginning, which stands in archives.

Invariants:
- the event `log.archived` says which places of the log an archive has, its digest, and where each lane stood behind
  it. So a log that was cut is checked as one that was not: a lane goes on from where its archive ends;
- of each event that left a stub stays (id, lane, seq, parents), so it can still be a cause;
- an event at or before the cut that is still here stands in the archive too: something in the room needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from relay.log.events import Event, Lane, of_lane, read_after
from relay.store.ports import Tx

ARCHIVED = "log.archived"
#: The lane of the cuts.
LANE = Lane("room", "archive")


@dataclass(frozen=True, slots=True)
class ArchivedPart:
    """One archive: `first` to `upto` are places of the log; `file` its name, `sha256` of its bytes; `heads`: where
    the lanes that it has events of stood behind it, as (seq, id) by key."""

    first: int
    upto: int
    events: int
    file: str
    sha256: str
    size: int
    heads: dict[str, tuple[int, str]]

    def as_json(self) -> dict[str, Any]:
        value = {name: getattr(self, name) for name in ("first", "upto", "events", "file", "sha256", "size")}
        return value | {"heads": {key: list(head) for key, head in self.heads.items()}}

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> ArchivedPart:
        heads = {key: (seq, id) for key, (seq, id) in value["heads"].items()}
        return cls(**{name: value[name] for name in value if name != "heads"}, heads=heads)


@dataclass(frozen=True, slots=True)
class Cut:
    """Where the log begins now: behind `upto` (0: nothing has left). `heads`: each lane there, as (seq, id)."""

    upto: int = 0
    heads: dict[str, tuple[int, str]] = field(default_factory=dict)


async def archived_parts(tx: Tx) -> list[ArchivedPart]:
    """Every archive, the oldest first."""
    found: list[Event] = []
    while batch := await read_after(tx, found[-1].pos if found else 0, types=(ARCHIVED,)):
        found += batch
    return [ArchivedPart.of_json(event.outputs) for event in found]


async def archived_upto(tx: Tx) -> int:
    """The place behind which the log begins now; 0: nothing has left. For less than `archived_parts`, whose lanes
    are many in a long log."""
    newest = await of_lane(tx, LANE, ARCHIVED, limit=1)
    return int(newest[0].outputs["upto"]) if newest else 0


def cut_of(parts: Sequence[ArchivedPart]) -> Cut:
    """Where these archives end. Pure."""
    heads: dict[str, tuple[int, str]] = {}
    for part in parts:
        heads |= part.heads
    return Cut(parts[-1].upto if parts else 0, heads)
