"""Checking the log: is every event as it was recorded?

Invariants:
- a check names each event whose content, causes or lane is not what its hash says, and changes nothing;
- where a part of the log is archived, its lanes go on from where the archive ends (`relay.log.archived`); the
  archives themselves are checked by who has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from relay.log.archived import archived_parts, cut_of
from relay.log.encoding import dumps, loads
from relay.log.event_hash import event_id
from relay.log.events import Q
from relay.log.imported import ImportedRow, as_recorded
from relay.store.ports import Row, Store, Tx


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
    """What `verify` carries from one batch to the next: the events seen and each lane's head."""

    known: set[str] = field(default_factory=set)
    heads: dict[str, tuple[int, str]] = field(default_factory=dict)
    cut: int = 0
    """What stands at or before this place is in an archive too, and its lane's order is checked there."""


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
        if row["pos"] > state.cut:
            state.heads[f"{row['session']}/{row['lane']}"] = (row["seq"], row["id"])
    return faults


def _fault_of(row: Row, state: VerifyState) -> str | None:
    try:
        parents, _ = loads(row["parents"]), loads(row["clock"])
        if event_id(row.recorded if isinstance(row, ImportedRow) else row) != row["id"]:
            return "its content is not what was hashed"
        unknown = [parent for parent in [*parents, *loads(row["causal_deps"])] if parent not in state.known]
    except (ValueError, TypeError) as error:
        return f"it cannot be read: {error}"
    if unknown:
        return f"its cause {unknown[0]} is missing"
    if row["pos"] <= state.cut:
        return None
    seq, head = state.heads.get(f"{row['session']}/{row['lane']}", (0, None))
    if row["seq"] != seq + 1:
        return f"its lane jumps from {seq} to {row['seq']}"
    if head is not None and head != row["prev"]:
        return "its lane's head is not the event before it"
    return None


async def archived_causes(tx: Tx, rows: Sequence[Row]) -> set[str]:
    """Those causes of the rows that are archived."""
    wanted: set[str] = set()
    for row in rows:
        try:
            wanted.update(map(str, (*loads(row["parents"]), *loads(row["causal_deps"]))))
        except (ValueError, TypeError):
            continue  # `verify_batch` names it
    return {row["id"] for row in await tx.all(Q.stubs_known, ids=dumps(sorted(wanted)))}


async def verify(store: Store, *, batch: int = 2000) -> list[LogFault]:
    """Check every event of the log: content, causes and lanes. Names each event that is not as it was recorded."""
    cut = cut_of(await store.read(archived_parts))
    state = VerifyState(heads=dict(cut.heads), cut=cut.upto)
    faults: list[LogFault] = []
    after = 0
    while True:
        cursor = after

        async def work(tx: Tx, cursor: int = cursor) -> tuple[int, list[LogFault]]:
            rows = await as_recorded(tx, await tx.all(Q.events_after, after=cursor, limit=batch))
            if cut.upto:
                state.known.update(await archived_causes(tx, rows))
            return (rows[-1]["pos"] if rows else cursor), verify_batch(rows, state)

        after, batch_faults = await store.read(work, long=True)
        faults += batch_faults
        if after == cursor:
            return faults
