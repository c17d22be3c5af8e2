"""Checking the log: is every event as it was recorded?

Invariants:
- a check names each event whose content, causes or lane is not what its hash says, and changes nothing;
- where a part of the log is archived, its lanes go on from where the archive ends (`relay.log.archived`); the
  archives themselves are checked by who has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from relay.log.archived import Cut, archived_parts, cut_of
from relay.log.encoding import dumps, loads
from relay.log.event_hash import event_id
from relay.log.events import Q
from relay.log.imported import ImportedRow, as_recorded
from relay.store.ports import Row, Store, Tx

#: Events of one read; and ids that are remembered at most: an older cause is looked for again, so that a long log
#: takes no more memory than a short one.
BATCH, MOST_KNOWN = 2000, 50_000


@dataclass(frozen=True, slots=True)
class LogFault:
    """Something `verify` found wrong with an event."""

    pos: int
    id: str
    what: str

    def as_json(self) -> dict[str, Any]:
        return {"pos": self.pos, "id": self.id, "what": self.what}


@dataclass(slots=True)
class VerifyState:
    """What `verify_batch` goes on from: the events seen and each lane's head."""

    known: set[str] = field(default_factory=set)
    heads: dict[str, tuple[int, str]] = field(default_factory=dict)
    cut: Cut = field(default_factory=Cut)
    """What stands at or before it is in an archive too, and its lane's order is checked there."""


def verify_batch(rows: Sequence[Row], state: VerifyState) -> list[LogFault]:
    """Check one batch of rows in `pos` order against what came before it. Pure; call it off the event loop."""
    faults = []
    for row in rows:
        if isinstance(row, ImportedRow):
            state.known |= row.stubs
        fault = _fault_of(row, state)
        if fault:
            faults.append(LogFault(row["pos"], row["id"], fault))
        state.known.add(row["id"])
        if row["pos"] > state.cut.upto:
            state.heads[_lane_of(row)] = (row["seq"], row["id"])
    return faults


def _fault_of(row: Row, state: VerifyState) -> str | None:
    if event_id(row.recorded if isinstance(row, ImportedRow) else row) != row["id"]:
        try:
            loads(row["parents"]), loads(row["causal_deps"]), loads(row["clock"])
        except (ValueError, TypeError) as error:
            return f"it cannot be read: {error}"
        return "its content is not what was hashed"
    for cause in _causes(row):
        if cause not in state.known:
            return f"its cause {cause} is missing"
    if row["pos"] <= state.cut.upto:
        return None
    lane = _lane_of(row)
    seq, head = state.heads.get(lane) or state.cut.heads.get(lane) or (0, None)
    if row["seq"] != seq + 1:
        return f"its lane jumps from {seq} to {row['seq']}"
    if head is not None and head != row["prev"]:
        return "its lane's head is not the event before it"
    return None


def _lane_of(row: Row) -> str:
    return f"{row['session']}/{row['lane']}"


def _causes(row: Row) -> list[str]:
    """The ids that an event names as its causes, as they are stored: most name one or none, and to read JSON costs
    more than to hash the event. Of one whose hash is not its own, this is what stands between its quotation marks."""
    parents, deps = row["parents"], row["causal_deps"]
    return [*str(parents).split('"')[1::2], *(() if deps == "[]" else str(deps).split('"')[1::2])]


async def verify(store: Store, *, after: int = 0, batch: int = BATCH) -> list[LogFault]:
    """Check every event of the log behind the place `after`: content, causes and lanes. What lies before is taken as
    found. Names each event that is not as it was recorded."""
    state = VerifyState(cut=cut_of(await store.read(archived_parts)))
    faults: list[LogFault] = []

    async def work(tx: Tx, cursor: int) -> tuple[int, list[LogFault]]:
        rows = await as_recorded(tx, await tx.all(Q.events_after, after=cursor, limit=batch))
        if not rows:
            return cursor, []
        if len(state.known) > MOST_KNOWN:
            state.known.clear()
            state.heads.clear()
        await _look_before(tx, rows, state)
        return rows[-1]["pos"], verify_batch(rows, state)

    while True:
        cursor = after
        after, found = await store.read(partial(work, cursor=cursor), long=True)
        faults += found
        if after == cursor:
            return faults


async def _look_before(tx: Tx, rows: Sequence[Row], state: VerifyState) -> None:
    """Tell the state which causes of the batch lie before it in the log, and where its lanes stood there."""
    wanted = {cause for row in rows for cause in _causes(row)} - state.known
    wanted.difference_update(row["id"] for row in rows)
    first = rows[0]["pos"]
    if wanted:
        ids = dumps(sorted(wanted))
        found = await tx.all(Q.places_of, ids=ids)
        state.known.update(row["id"] for row in found if row["pos"] < first)
        if len(found) < len(wanted):
            # What is archived has left a stub.
            state.known.update(row["id"] for row in await tx.all(Q.stubs_known, ids=ids))
    begun: dict[str, Row] = {}
    for row in rows:
        if row["pos"] > state.cut.upto and row["seq"] > 1:
            begun.setdefault(_lane_of(row), row)
    lanes = [
        (row["session"], row["lane"], row["seq"]) for lane, row in begun.items() if lane not in state.heads
    ]
    if lanes:
        scope = {"first": first, "cut": state.cut.upto}
        for row in await tx.all(Q.lanes_before, lanes=dumps(lanes), **scope):
            state.heads[_lane_of(row)] = (row["seq"], row["id"])
