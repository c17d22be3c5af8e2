"""Events: the facts of the room, hashed, on lanes, with their causes.

Invariants:
- an event's id is the SHA-256 of its canonical body, parents included, so a changed byte anywhere below an
  event is found by `verify`; payloads enter the body as the digest of their stored bytes, so no float and no
  key order is ever hashed;
- `seq` is contiguous within a lane and `UNIQUE(session, lane, seq)` makes a forked lane fail loudly;
- `prev` is the lane's head before it (for a spawned lane's first event: the spawn), `parents` are its causes:
  why it happened; causal dependencies are what its author was shown besides. The clock is the maximum over all
  of them: what was not shown is not in it;
- clock order is exactly reachability (see `relay.base.vector_clock` for short and folded lanes).

Everything here runs in the caller's transaction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relay.base.durations import now_iso
from relay.base.vector_clock import brief_weight, merge
from relay.log.encoding import dumps, quoted
from relay.log.event_hash import event_id
from relay.store.ports import Queries, Row, StoreError, Tx

Q = Queries(Path(__file__).parent)
FOLDER = Path(__file__).parent
BODY_VERSION = 1
#: Above the sequence numbers of every lane, and behind every place in the log.
SEQUENCES, POSITIONS = 2**31 - 1, 2**62


class LaneError(StoreError):
    """A lane cannot do this: it is folded, has open children, or is no child of that parent."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One agent or person in one session. `key` is how clocks name it.

    A `short` lane (one cycle of the room) never enters another lane's clock: it leaves exits instead.
    """

    session: str
    name: str
    short: bool = False

    def __post_init__(self) -> None:
        if not self.session or "/" in self.session:
            raise ValueError(f"a session id is not empty and has no '/': {self.session!r}")

    @property
    def key(self) -> str:
        return f"{self.session}/{self.name}"

    @classmethod
    def of_key(cls, key: str) -> Lane:
        session, _, name = key.partition("/")
        return cls(session, name)


@dataclass(frozen=True, slots=True)
class NewEvent:
    """A fact to be recorded. `inputs` and `outputs` are JSON values; `parents` are event ids of its causes;
    `causal_deps` event ids that its author was shown; `source_key` makes it happen once."""

    type: str
    lane: Lane
    inputs: Any = None
    outputs: Any = None
    parents: Sequence[str] = ()
    causal_deps: Sequence[str] = ()
    role: str | None = None
    branch: str | None = None
    snapshot: str | None = None
    file_touches: Sequence[str] | None = None
    source_key: str | None = None
    at: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """A recorded fact. `pos` is its place in this database and every reader's cursor."""

    pos: int
    id: str
    session: str
    lane: str
    seq: int
    type: str
    prev: str | None
    parents: tuple[str, ...]
    causal_deps: tuple[str, ...]
    clock: dict[str, int]
    at: str
    #: The payloads as they are stored, JSON.
    stored_inputs: str | None = None
    stored_outputs: str | None = None
    role: str | None = None
    branch: str | None = None
    snapshot: str | None = None
    file_touches: tuple[str, ...] | None = None
    source_key: str | None = None
    v: int = BODY_VERSION
    _read: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def inputs(self) -> Any:
        """Which data went in: a JSON value, read when it is first asked for."""
        return self._payload("inputs", self.stored_inputs)

    @property
    def outputs(self) -> Any:
        """Which data came out, as `inputs`."""
        return self._payload("outputs", self.stored_outputs)

    def _payload(self, name: str, stored: str | None) -> Any:
        if name not in self._read:
            self._read[name] = None if stored is None else json.loads(stored)
        return self._read[name]

    @property
    def lane_key(self) -> str:
        return f"{self.session}/{self.lane}"


def from_row(row: Row) -> Event:
    """The event that a row of `events` holds."""
    return Event(
        pos=row["pos"],
        id=row["id"],
        session=row["session"],
        lane=row["lane"],
        seq=row["seq"],
        type=row["type"],
        prev=row["prev"],
        parents=tuple(json.loads(row["parents"])),
        causal_deps=tuple(json.loads(row["causal_deps"])),
        clock=json.loads(row["clock"]),
        at=row["at"],
        stored_inputs=row["inputs"],
        stored_outputs=row["outputs"],
        role=row["role"],
        branch=row["branch"],
        snapshot=row["snapshot"],
        file_touches=None if row["file_touches"] is None else tuple(json.loads(row["file_touches"])),
        source_key=row["source_key"],
        v=row["v"],
    )


async def append(tx: Tx, new: NewEvent) -> Event:
    """Record a fact at the head of its lane.

    With a `source_key` that is already there, nothing is written and the recorded event is returned. Raises
    LaneError when the lane is folded or a cause is unknown.
    """
    if new.source_key is not None:
        done = await tx.one(Q.event_by_source, source_key=new.source_key)
        if done is not None:
            return from_row(done)
    row = await next_row(tx, new, await head_of(tx, new.lane))
    placed = await tx.one(Q.put_event, **row)
    if placed is None:
        raise StoreError("the database did not say where the event was put")
    await _put_head(tx, new.lane, row)
    return from_row(row | {"pos": placed["pos"]})


async def record(tx: Tx, new: NewEvent) -> None:
    """As `append`, for a fact without a `source_key` whose event the caller does not need."""
    if new.source_key is not None:
        raise ValueError("what happens once is appended")
    row = await next_row(tx, new, await head_of(tx, new.lane))
    # Without RETURNING, which is a third of the statement's cost on SQLite.
    await tx.execute(Q.record_event, **row)
    await _put_head(tx, new.lane, row)


async def head_of(tx: Tx, lane: Lane) -> Row | None:
    """Where a lane stands, None: it is new. Raises LaneError when it is folded."""
    head = await tx.one(Q.lane, session=lane.session, lane=lane.name)
    if head is not None and head["folded"]:
        raise LaneError(f"lane {lane.key} was folded away; spawn a new one")
    return head


async def next_row(tx: Tx, new: NewEvent, lane: Row | None) -> dict[str, Any]:
    """The columns of the event behind this head of its lane. Raises LaneError when a cause is unknown."""
    seq = (lane["seq"] if lane else 0) + 1
    row: dict[str, Any] = {
        "v": BODY_VERSION,
        "session": new.lane.session,
        "lane": new.lane.name,
        "seq": seq,
        "type": new.type,
        "prev": lane["head"] if lane else None,
        "parents": dumps(list(dict.fromkeys(new.parents))),
        "causal_deps": dumps(list(new.causal_deps)),
        "clock": _own_clock(new, lane, seq) or dumps(await _clock_of(tx, new, lane, seq)),
        "role": new.role,
        "branch": new.branch,
        "snapshot": new.snapshot,
        "file_touches": None if new.file_touches is None else dumps(list(new.file_touches)),
        "inputs": None if new.inputs is None else dumps(new.inputs),
        "outputs": None if new.outputs is None else dumps(new.outputs),
        "source_key": new.source_key,
        "at": new.at or now_iso(),
    }
    row["id"] = event_id(row)
    return row


async def _put_head(tx: Tx, lane: Lane, head: Row, *, parent: str | None = None, depth: int = 0) -> None:
    """Put the lane's head at this event."""
    await tx.execute(
        Q.put_lane,
        session=lane.session,
        lane=lane.name,
        seq=head["seq"],
        head=head["id"],
        clock=head["clock"],
        short=int(lane.short),
        parent=parent,
        depth=depth,
    )


def _own_clock(new: NewEvent, lane: Row | None, seq: int) -> str | None:
    """The clock, as `dumps` writes it, of a lane that has seen only itself and is shown nothing; else None."""
    key = quoted(new.lane.key)
    if new.parents or new.causal_deps or (lane and lane["clock"] != f"{{{key}:{lane['seq']}}}"):
        return None
    return f"{{{key}:{seq}}}"


async def _clock_of(tx: Tx, new: NewEvent, lane: Row | None, seq: int) -> dict[str, int]:
    """The maximum over the lane's own clock and the clocks of all that it was shown, plus this tick."""
    key = new.lane.key
    own: dict[str, int] = json.loads(lane["clock"]) if lane else {}
    wanted = {*new.parents, *new.causal_deps}
    if lane:
        wanted.discard(lane["head"])
    if not wanted:
        return {**own, key: seq}
    causes = await tx.all(Q.causes, ids=dumps(sorted(wanted)))
    clocks = [own]
    if len(causes) != len(wanted):
        clocks += await _clocks_of_stubs(tx, wanted - {cause["id"] for cause in causes}, key, seq)
    for cause in causes:
        clock: dict[str, int] = json.loads(cause["clock"])
        cause_key = f"{cause['session']}/{cause['lane']}"
        if cause["short"] and cause_key != key:
            clock.pop(cause_key, None)
            await tx.execute(Q.put_exit, lane=cause_key, seq=cause["seq"], into_lane=key, at=seq)
        clocks.append(clock)
    merged = {**merge(*clocks), key: seq}
    return await _without_folded(tx, merged, [entry for entry in merged if entry != key])


async def _clocks_of_stubs(tx: Tx, missing: set[str], key: str, seq: int) -> list[dict[str, int]]:
    """What is known of the clocks of causes that are archived: the event itself. Raises LaneError for others."""
    stubs = await tx.all(Q.stubs_known, ids=dumps(sorted(missing)))
    if unknown := sorted(missing - {stub["id"] for stub in stubs}):
        raise LaneError(f"unknown events named as causes: {', '.join(unknown)}")
    clocks = []
    for stub in stubs:
        lane = await tx.one(Q.lane, session=stub["session"], lane=stub["lane"])
        stub_key = f"{stub['session']}/{stub['lane']}"
        if (lane is None or lane["short"]) and stub_key != key:
            await tx.execute(Q.put_exit, lane=stub_key, seq=stub["seq"], into_lane=key, at=seq)
        else:
            clocks.append({stub_key: stub["seq"]})
    return clocks


async def _without_folded(tx: Tx, clock: dict[str, int], others: list[str]) -> dict[str, int]:
    """Drop the entries of lanes whose folding this author has seen (001: terminated agents contribute zero)."""
    if not others:
        return clock
    # Each by what was seen as a whole: of two lanes, one folded into the other, both go, in whichever order.
    folded = {
        row["key"]
        for row in await tx.all(Q.folded_among, keys=dumps(others))
        if clock.get(row["into_lane"], 0) >= row["at"]
    }
    return {entry: count for entry, count in clock.items() if entry not in folded}


async def spawn(tx: Tx, parent: Lane, child: Lane, *, inputs: Any = None) -> Event:
    """Open `child` as a sub-lane: it inherits the parent's clock of this moment (001, "Brief Edges").

    Raises LaneError when the child's lane exists already.
    """
    if await tx.one(Q.lane, session=child.session, lane=child.name) is not None:
        raise LaneError(f"lane {child.key} exists already; a spawned lane is a new one")
    at = await tx.one(Q.lane, session=parent.session, lane=parent.name)
    depth = at["depth"] if at else 0
    edge = {"child": child.key, "depth": depth, "weight": brief_weight(depth)}
    event = await append(tx, NewEvent(type="spawn", lane=parent, inputs=inputs, outputs=edge))
    head = {"seq": 0, "id": event.id, "clock": dumps(event.clock)}
    await _put_head(tx, Lane(child.session, child.name), head, parent=parent.key, depth=depth + 1)
    await tx.execute(Q.count_child, session=parent.session, lane=parent.name, change=1)
    return event


async def debrief(tx: Tx, parent: Lane, child: Lane, *, outputs: Any = None) -> Event:
    """Return `child` to its parent: its clock merges into the parent's and the lane is folded away.

    Raises LaneError when it is not this parent's child, is folded already, or has open children itself.
    """
    row = await tx.one(Q.lane, session=child.session, lane=child.name)
    if row is None or row["parent"] != parent.key:
        raise LaneError(f"lane {child.key} was not spawned by {parent.key}")
    if row["folded"]:
        raise LaneError(f"lane {child.key} was folded away before")
    if row["open_children"]:
        raise LaneError(f"lane {child.key} has {row['open_children']} open children; debrief them first")
    depth = row["depth"] - 1
    edge = {"child": child.key, "depth": depth, "weight": brief_weight(depth), "result": outputs}
    # The exit and the fold come first: the parent's event then drops the child's entry by the common rule.
    at = await tx.one(Q.lane, session=parent.session, lane=parent.name)
    seq = (at["seq"] if at else 0) + 1
    await tx.execute(Q.put_exit, lane=child.key, seq=row["seq"], into_lane=parent.key, at=seq)
    await tx.execute(Q.fold_lane, session=child.session, lane=child.name)
    await tx.execute(Q.count_child, session=parent.session, lane=parent.name, change=-1)
    return await append(tx, NewEvent(type="debrief", lane=parent, outputs=edge, parents=[row["head"]]))


async def get(tx: Tx, event: str) -> Event | None:
    """The event of that id."""
    row = await tx.one(Q.event, id=event)
    return None if row is None else from_row(row)


async def of_source(tx: Tx, source_key: str) -> Event | None:
    """The event that was recorded with this `source_key`."""
    row = await tx.one(Q.event_by_source, source_key=source_key)
    return None if row is None else from_row(row)


async def read_after(
    tx: Tx, after: int, *, types: Sequence[str] | None = None, limit: int = 500, upto: int = POSITIONS
) -> list[Event]:
    """Up to `limit` events behind the cursor `after`, in commit order. `upto`: the last place at which those of
    `types` are looked for. A long log is read from its beginning by such parts: else each read sorts what is left."""
    if types is None:
        rows = await tx.all(Q.events_after, after=after, limit=limit)
    else:
        wanted = {"types": dumps(sorted(types)), "limit": limit}
        rows = await tx.all(Q.events_of_types_after, after=after, upto=upto, **wanted)
    return [from_row(row) for row in rows]


async def of_lane(tx: Tx, lane: Lane, type: str, *, limit: int) -> list[Event]:
    """The events of this type on a lane, newest first."""
    rows = await tx.all(Q.events_of_lane, session=lane.session, lane=lane.name, type=type, limit=limit)
    return [from_row(row) for row in rows]


async def about(
    tx: Tx, text: str, *, types: Sequence[str], window: int = 20_000, limit: int = 100
) -> list[Event]:
    """Events of these types whose stored outputs hold `text`, newest first, among the last `window` of the log."""
    after = max(0, await last_pos(tx) - window)
    rows = await tx.all(Q.events_about, after=after, types=dumps(sorted(types)), text=text, limit=limit)
    return [from_row(row) for row in rows]


async def newest_of_agents(
    tx: Tx, type: str, agents: Sequence[str], changes: Sequence[str], window: int = 20_000
) -> list[Event]:
    """For each of these agents, the newest event of this type that says one of these changes of it (`agent` and
    `change` of its outputs), among the last `window` of the log."""
    after = max(0, await last_pos(tx) - window)
    names = {"agents": dumps(sorted(agents)), "changes": dumps(sorted(changes))}
    return [from_row(row) for row in await tx.all(Q.newest_of_agents, after=after, type=type, **names)]


async def last_pos(tx: Tx) -> int:
    """The cursor behind the newest event; 0 in an empty log."""
    row = await tx.one(Q.last_pos)
    return row["pos"] if row else 0


async def has_seen(tx: Tx, observer: Event, event: Event) -> bool:
    """Had the author of `observer` seen `event`? (An event has seen itself.)"""
    return await seen_by(tx, observer.clock, event.lane_key, event.seq)


async def seen_by(tx: Tx, clock: Mapping[str, int], lane: str, seq: int) -> bool:
    """Had an author with this clock seen the event `seq` of the lane with this key?"""
    visited: set[tuple[str, int]] = set()
    waiting = [(lane, seq)]
    while waiting:
        step = waiting.pop()
        if clock.get(step[0], 0) >= step[1]:
            return True
        visited.add(step)
        for row in await tx.all(Q.exits_of, lane=step[0], seq=step[1]):
            if (row["into_lane"], row["at"]) not in visited:
                waiting.append((row["into_lane"], row["at"]))
    return False


async def clock_shown(tx: Tx, lane: Lane, causes: Sequence[str] = ()) -> dict[str, int]:
    """What the lane has seen, together with what the authors of these events had: the clock before its next event."""
    head = await tx.one(Q.lane, session=lane.session, lane=lane.name)
    rows = await tx.all(Q.causes, ids=dumps(sorted(set(causes)))) if causes else []
    return merge(json.loads(head["clock"]) if head else {}, *(json.loads(row["clock"]) for row in rows))


async def why(tx: Tx, event: str, *, limit: int = 200) -> list[Event]:
    """The event and its causes, nearest first, back to where it began."""
    chain: list[Event] = []
    seen_ids: set[str] = set()
    waiting = [event]
    while waiting and len(chain) < limit:
        current = waiting.pop(0)
        if current in seen_ids:
            continue
        seen_ids.add(current)
        cause = await get(tx, current)
        if cause is not None:
            chain.append(cause)
            waiting.extend(cause.parents)
    return chain


async def next_number(tx: Tx, counter: str, count: int = 1) -> int:
    """The next number of a gapless counter (1 first); of `count` numbers the last."""
    row = await tx.one(Q.next_number, name=counter, count=count)
    if row is None:
        raise StoreError(f"the counter {counter!r} gave no number")
    value: int = row["value"]
    return value


async def setting(tx: Tx, name: str) -> str | None:
    row = await tx.one(Q.setting, name=name)
    return None if row is None else row["value"]


async def put_setting(tx: Tx, name: str, value: str) -> None:
    await tx.execute(Q.put_setting, name=name, value=value)
