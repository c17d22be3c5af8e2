"""What packs bring, and which of it enters the log.

Invariant: decides by the order of the events and by what the log has, which the caller looked up; writes nothing.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from relay.log.encoding import dumps, loads
from relay.log.event_hash import Withheld
from relay.log.imported import ROOM, local_session, to_local
from relay.timeline.checkpoints import MADE
from relay.timeline.conflicts import FOUND, SETTLED
from relay.timeline.projection import CHANGED, READ
from relay.timeline.rewind.history import GIVEN_UP, REDONE, REWOUND, UNDONE
from relay.timeline.sync.merged import MERGED
from relay.timeline.sync.packs import BadLine, PackedEvent, Stub, read_line

#: What comes back from a copy as it was: no other part of the room does anything about these.
OWN_TYPES = frozenset({CHANGED, READ, MADE, REWOUND, UNDONE, REDONE, GIVEN_UP, MERGED, FOUND, SETTLED})
SPAWN, DEBRIEF = "spawn", "debrief"


@dataclass(frozen=True, slots=True)
class RefusedEvent:
    """An event that is not taken in. `origin`: the replica whose pack it stands in; `id` "?" = it cannot be read."""

    id: str
    origin: str
    reason: str


@dataclass(frozen=True, slots=True)
class WaitingEvent:
    """An event of which causes are missing."""

    id: str
    origin: str
    missing: tuple[str, ...]


@dataclass(slots=True)
class Incoming:
    """What packs say, checked. Events and stubs by id, with the replica that they come from."""

    events: dict[str, PackedEvent] = field(default_factory=dict)
    stubs: dict[str, tuple[str, Stub]] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    refused: list[RefusedEvent] = field(default_factory=list)

    def read(self, origin: str, lines: Iterable[str]) -> list[str]:
        """Take the lines of a pack in; gives the ids of its events. Call it off the event loop."""
        ids = []
        for line in lines:
            try:
                value = read_line(line)
            except BadLine as bad:
                self.refused.append(RefusedEvent(bad.id, origin, bad.reason))
                continue
            if isinstance(value, Stub):
                self.stubs.setdefault(value.id, (origin, value))
                continue
            ids.append(value.id)
            if value.id not in self.events:
                self.events[value.id], self.origins[value.id] = value, origin
        return ids


@dataclass(frozen=True, slots=True)
class Place:
    """Where an event stands, as this log names it. `leaves_exits`: its lane may be missing in the clocks of those who
    saw it, so that they are told by exits."""

    lane: str
    seq: int
    leaves_exits: bool
    depth: int = 0


@dataclass(slots=True)
class LaneHead:
    """Where a lane stands. `owner`: the replica that records it."""

    seq: int
    id: str
    owner: str
    clock: str
    short: bool = False
    parent: str | None = None
    depth: int = 0
    changed: bool = False


@dataclass(frozen=True, slots=True)
class SpawnedLane:
    """A lane that a spawn opened: its `key`, and what it inherits."""

    key: str
    spawn: str
    clock: str
    depth: int


@dataclass(slots=True)
class ImportBatch:
    """The next events in their order. `known`: events and stubs that the log has, `in_log`: the events among them;
    `lanes`: where the events' lanes stand. What is to be written comes together in the rest."""

    incoming: Incoming
    own: str
    known: dict[str, Place] = field(default_factory=dict)
    in_log: set[str] = field(default_factory=set)
    lanes: dict[str, LaneHead] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    stubs: dict[str, dict[str, Any]] = field(default_factory=dict)
    exits: list[dict[str, Any]] = field(default_factory=list)
    spawned: list[tuple[str, SpawnedLane]] = field(default_factory=list)
    folded: list[tuple[str, str]] = field(default_factory=list)
    refused: list[RefusedEvent] = field(default_factory=list)
    waiting: list[WaitingEvent] = field(default_factory=list)

    def take(self, event: PackedEvent) -> None:
        """Add an event, or say why it stays out."""
        if event.id in self.in_log:
            return
        origin = self.incoming.origins[event.id]
        missing = tuple(id for id in dict.fromkeys(event.needs) if not self._find(id))
        if missing:
            self.waiting.append(WaitingEvent(event.id, origin, missing))
            return
        row = to_local(event.row, origin, self.own, OWN_TYPES)
        key = f"{row['session']}/{row['lane']}"
        lane = self.lanes.get(key)
        if event.id in self.known and lane is not None and event.seq <= lane.seq:
            return  # it was here, and is archived
        if reason := self._misplaced(event, key, row["session"], origin):
            self.refused.append(RefusedEvent(event.id, origin, reason))
            return
        self._add(event, key, row, origin)

    def _find(self, id: str) -> bool:
        """Is this event here, or the stub of it?"""
        if id in self.known:
            return True
        if id not in self.incoming.stubs:
            return False
        origin, stub = self.incoming.stubs[id]
        session = local_session(stub.session, origin, self.own)
        self.known[id] = Place(f"{session}/{stub.lane}", stub.seq, True)
        value = {"session": session, "lane": stub.lane, "seq": stub.seq, "parents": dumps(list(stub.parents))}
        self.stubs[id] = {"id": id, **value}
        return True

    def _misplaced(self, event: PackedEvent, key: str, session: str, origin: str) -> str | None:
        """Why an event cannot stand where it says; None: it can."""
        if origin != self.own and (session == ROOM or event.session.startswith(f"{ROOM}@")):
            return f"{key} is a lane of another replica's"
        lane = self.lanes.get(key)
        if lane is None:
            return None if event.seq == 1 else f"the lane {key} begins with its event {event.seq}"
        if lane.owner != origin:
            return f"{key} is a lane of the replica {lane.owner}"
        if event.seq <= lane.seq or event.prev != lane.id:
            return f"the lane {key} is forked at its event {event.seq}"
        return None if event.seq == lane.seq + 1 else f"the lane {key} jumps from {lane.seq} to {event.seq}"

    def _add(self, event: PackedEvent, key: str, row: dict[str, Any], origin: str) -> None:
        note: dict[str, Any] = {"id": event.id, "origin": origin, "inputs": None, "outputs": None}
        for payload in ("inputs", "outputs"):
            if isinstance(row[payload], Withheld):
                note[payload], row[payload] = str(row[payload]), None
        self.rows.append(row)
        if origin != self.own:
            self.notes.append(note)
        for cause in event.causes:
            place = self.known[cause]
            if place.leaves_exits and place.lane != key:
                self._exit(place, key, event.seq)
        lane = self._step(event, key, row["clock"], origin)
        self.known[event.id] = Place(key, event.seq, event.short, lane.depth)
        self.in_log.add(event.id)
        if event.row["type"] == SPAWN and (child := self._child_of(event, origin)) is not None:
            opened = SpawnedLane(child, event.id, row["clock"], lane.depth + 1)
            self.spawned.append((key, opened))
            self.lanes.setdefault(
                child, LaneHead(0, event.id, origin, row["clock"], parent=key, depth=opened.depth)
            )
        elif event.row["type"] == DEBRIEF and event.parents:
            place = self.known[event.parents[0]]
            self._exit(place, key, event.seq)
            self.folded.append((key, place.lane))

    def _exit(self, place: Place, into: str, at: int) -> None:
        self.exits.append({"lane": place.lane, "seq": place.seq, "into_lane": into, "at": at})

    def _step(self, event: PackedEvent, key: str, clock: str, origin: str) -> LaneHead:
        """Put the lane's head at the event."""
        lane = self.lanes.get(key)
        if lane is None:
            lane = LaneHead(0, "", origin, clock)
            if event.prev is not None:  # the spawn that opened it
                spawn = self.known[event.prev]
                lane.parent, lane.depth = spawn.lane, spawn.depth + 1
            self.lanes[key] = lane
        lane.seq, lane.id, lane.clock, lane.changed = event.seq, event.id, clock, True
        lane.short = event.short
        return lane

    def _child_of(self, event: PackedEvent, origin: str) -> str | None:
        """The key of the lane that a spawn opened; None where that stays at home."""
        outputs = event.row["outputs"]
        child = None if outputs is None or isinstance(outputs, Withheld) else loads(outputs)
        key = child.get("child") if isinstance(child, dict) else None
        if not isinstance(key, str) or not key.partition("/")[0] or "/" not in key:
            return None
        session, _, name = key.partition("/")
        return f"{local_session(session, origin, self.own)}/{name}"
