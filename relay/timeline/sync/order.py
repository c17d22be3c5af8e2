"""The order in which a union of events is shown, and the files as it leaves them.

Invariant: both depend on the set of events alone, neither on the replica nor on when it learned of them: first the
causes, then by the Lamport time (the sum of the clock), then by the id. `behind_causes` alone goes by how events
came.

Pure.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from relay.log.encoding import loads
from relay.log.event_hash import Withheld
from relay.timeline.projection import CHANGED
from relay.timeline.sync.packs import PackedEvent


@dataclass(frozen=True, slots=True)
class FileState:
    """A path as a union of events leaves it (003, section 2.4). `blob`: git's id, None = deleted; `event`: of the
    last write; `contributors`: the names of the lanes that wrote it."""

    blob: str | None
    event: str
    contributors: frozenset[str]


def in_order(events: Iterable[PackedEvent]) -> list[PackedEvent]:
    """Each event once, behind all of its causes that are among them. What stands in a circle, as no honest log has
    it, is left out."""
    by_id = {event.id: event for event in events}
    lamport = {id: event.lamport for id, event in by_id.items()}
    open_causes: dict[str, int] = {}
    behind: dict[str, list[str]] = {}
    ready: list[tuple[int, str]] = []
    for id, event in by_id.items():
        causes = {cause for cause in event.needs if cause in by_id}
        open_causes[id] = len(causes)
        for cause in causes:
            behind.setdefault(cause, []).append(id)
        if not causes:
            ready.append((lamport[id], id))
    heapq.heapify(ready)
    result = []
    while ready:
        _, id = heapq.heappop(ready)
        result.append(by_id[id])
        for following in behind.get(id, ()):
            open_causes[following] -= 1
            if not open_causes[following]:
                heapq.heappush(ready, (lamport[following], following))
    return result


def behind_causes(events: Mapping[str, PackedEvent]) -> list[PackedEvent]:
    """The events (by id) as they came, save that causes which came late are put before what needs them. So a room's
    own events enter in the order in which it recorded them."""
    result: list[PackedEvent] = []
    placed: set[str] = set()
    for first in events:
        stack = [(first, iter(events[first].needs))] if first not in placed else []
        placed.add(first)
        while stack:
            id, needs = stack[-1]
            cause = next((need for need in needs if need in events and need not in placed), None)
            if cause is None:
                result.append(events[id])
                stack.pop()
            else:
                placed.add(cause)
                stack.append((cause, iter(events[cause].needs)))
    return result


def workspace(ordered: Iterable[PackedEvent]) -> dict[str, FileState]:
    """Each path that somebody touched, by the events in their order. What stayed at home says nothing."""
    files: dict[str, FileState] = {}
    for event in ordered:
        outputs = event.row["outputs"]
        if event.row["type"] != CHANGED or outputs is None or isinstance(outputs, Withheld):
            continue
        for touch in loads(outputs)["touches"]:
            before = files.get(touch["path"])
            contributors = (before.contributors if before else frozenset()) | {event.lane}
            files[touch["path"]] = FileState(touch["after"], event.id, contributors)
    return files
