"""The tables of the timeline, folded from the log.

Invariant: a row says nothing that its event does not say, and `rebuild` makes every row anew, equal to what was kept
while the events were recorded.
"""

from __future__ import annotations

from pathlib import Path

from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import Event
from relay.store.ports import Queries, Store, Tx
from relay.timeline.touches import CHANGED

Q = Queries(Path(__file__).parent)
FOLDER = Path(__file__).parent
#: Events of one transaction of a rebuild.
BATCH = 500


async def project(tx: Tx, event: Event) -> None:
    """Add what an event of the timeline says to its tables; in the transaction that appends it."""
    if event.type == CHANGED:
        await tx.execute(
            Q.put_touches,
            pos=event.pos,
            lane=event.lane_key,
            seq=event.seq,
            touches=dumps(event.outputs["touches"]),
            unseen=dumps(event.outputs.get("unseen", [])),
        )


async def rebuild(store: Store) -> int:
    """Make the tables anew from the log, in one transaction; gives the number of events that they say."""

    async def work(tx: Tx) -> int:
        await tx.execute(Q.clear_touches)
        count = after = 0
        while batch := await events.read_after(tx, after, types=(CHANGED,), limit=BATCH):
            for event in batch:
                await project(tx, event)
            count, after = count + len(batch), batch[-1].pos
        return count

    return await store.write(work)
