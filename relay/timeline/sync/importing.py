"""The union of this log with events of others: a grow-only set (003, section 3.4).

Invariants:
- an event enters whole, behind all of its causes and behind what came before it on its lane, and once, however often
  and in whichever order it comes. So the union of the same events is the same in every replica;
- what is not in order stays out and is named: a line that does not verify, an event that forks a lane, one that
  stands on a lane of another replica. What needs it waits; the rest enters;
- a lane belongs to the replica that recorded it: nobody else adds to it, and to this room's own least of all. Who may
  push to the repository is trusted not to publish another's lane before that one does;
- nothing here makes the room act, and no job, message or task is written. By `relay.log.imported` the rows have types
  of their own (`imported:TYPE`), so none of the room's readers is given them: not the followers of the airspace
  (`turn.ended`, `dispatch.changed`, `worktree.changed`) and of the notices (locks, tasks, turns), not the tails of
  the page, of the agents' states and of the scanner, not those who wait for tasks;
- nor are they given to the projections of tasks, rewinds and touches. A verdict goes by the last write in this log's
  order (`touches`), which others' writes enter late: it would be wrong about this room's own. The files of the union
  are told by `order.workspace`;
- what comes back to its own room from a copy is the room's past. What its timeline is made of has its type as before
  (`OWN_TYPES`); the rest is imported as others' events are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from relay.log.encoding import dumps
from relay.log.events import Lane, Q
from relay.log.imported import ImportedRow, as_recorded, local_session
from relay.store.ports import Store, Tx
from relay.timeline.sync.batch import ImportBatch, Incoming, LaneHead, Place, RefusedEvent, WaitingEvent
from relay.timeline.sync.order import behind_causes, in_order
from relay.timeline.sync.packs import PackedEvent, of_body

#: Events of one transaction. An id is a hash, so on a long log each event of a small transaction costs a page of the
#: index of ids; those of a larger one share them. The room's own writes wait less than a quarter of a second for it.
BATCH = 4000


@dataclass(frozen=True, slots=True)
class ImportResult:
    """`added`: how many events are new here."""

    added: int = 0
    refused: tuple[RefusedEvent, ...] = ()
    waiting: tuple[WaitingEvent, ...] = ()


async def import_events(store: Store, incoming: Incoming, own: str) -> ImportResult:
    """Take in what is new and in order. `own`: this room's id; what comes from it comes back. Raises what the store
    raises; what was taken in before stays, and the same import goes on from there."""
    ordered = await asyncio.to_thread(behind_causes, incoming.events)
    added, refused, waiting = 0, list(incoming.refused), list[WaitingEvent]()
    for start in range(0, len(ordered), BATCH):
        group = ordered[start : start + BATCH]

        async def work(tx: Tx, group: Sequence[PackedEvent] = group) -> ImportBatch:
            batch = await _open(tx, group, incoming, own)
            for event in group:
                batch.take(event)
            await _write(tx, batch)
            return batch

        batch = await store.write(work)
        added += len(batch.rows)
        refused += batch.refused
        waiting += batch.waiting
    return ImportResult(added, tuple(refused), tuple(waiting))


async def union(tx: Tx) -> list[PackedEvent]:
    """Every event of this log, its own and others', in the order in which all replicas show them."""
    found: list[PackedEvent] = []
    after = 0
    while rows := await tx.all(Q.events_after, after=after, limit=BATCH):
        after = rows[-1]["pos"]
        for row in await as_recorded(tx, rows):
            body = row.recorded if isinstance(row, ImportedRow) else row
            found.append(of_body(body, short=False))
    return in_order(found)


async def _open(tx: Tx, group: Sequence[PackedEvent], incoming: Incoming, own: str) -> ImportBatch:
    """What the log knows of these events, their causes and their lanes."""
    ids = dumps(sorted({id for event in group for id in (event.id, *event.needs)}))
    batch = ImportBatch(incoming, own)
    for row in await tx.all(Q.stubs_known, ids=ids):
        batch.known[row["id"]] = Place(f"{row['session']}/{row['lane']}", row["seq"], True)
    for row in await tx.all(Q.events_known, ids=ids):
        key = f"{row['session']}/{row['lane']}"
        batch.known[row["id"]] = Place(key, row["seq"], bool(row["short"]), row["depth"])
        batch.in_log.add(row["id"])
    keys = {
        f"{local_session(event.session, incoming.origins[event.id], own)}/{event.lane}" for event in group
    }
    for row in await tx.all(Q.lanes_owned, keys=dumps(sorted(keys))):
        batch.lanes[f"{row['session']}/{row['lane']}"] = LaneHead(
            row["seq"], row["head"], row["origin"] or own, row["clock"], depth=row["depth"]
        )
    return batch


async def _write(tx: Tx, batch: ImportBatch) -> None:
    """Write what the batch has found."""
    if not batch.rows:
        return
    await tx.execute(Q.put_events, rows=dumps(batch.rows))
    await tx.execute(Q.put_imported, notes=dumps(batch.notes))
    await tx.execute(Q.put_stubs, stubs=dumps(list(batch.stubs.values())))
    await tx.execute(Q.put_exits, exits=dumps(batch.exits))
    for key, head in batch.lanes.items():
        if head.changed:
            lane = Lane.of_key(key)
            await tx.execute(
                Q.put_lane,
                session=lane.session,
                lane=lane.name,
                seq=head.seq,
                head=head.id,
                clock=head.clock,
                short=int(head.short),
                parent=head.parent,
                depth=head.depth,
            )
    for parent, child in batch.spawned:
        lane, at = Lane.of_key(child.key), Lane.of_key(parent)
        if await tx.one(Q.lane, session=lane.session, lane=lane.name) is None:
            await tx.execute(
                Q.put_lane,
                session=lane.session,
                lane=lane.name,
                seq=0,
                head=child.spawn,
                clock=child.clock,
                short=0,
                parent=parent,
                depth=child.depth,
            )
        await tx.execute(Q.count_child, session=at.session, lane=at.name, change=1)
    for parent, key in batch.folded:
        lane, at = Lane.of_key(key), Lane.of_key(parent)
        row = await tx.one(Q.lane, session=lane.session, lane=lane.name)
        # Only who spawned a lane folds it.
        if row is not None and row["parent"] == parent and not row["folded"]:
            await tx.execute(Q.fold_lane, session=lane.session, lane=lane.name)
            await tx.execute(Q.count_child, session=at.session, lane=at.name, change=-1)
