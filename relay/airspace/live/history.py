"""The airspace's last hours, as samples in the log.

Invariant: a sample and the row that finds it commit together; samples older than the history's hours are
not given (the log itself keeps them).
"""

from __future__ import annotations

from typing import Any

from relay.airspace.advisories.table import ROOM, Q
from relay.airspace.live.picture import PictureSample
from relay.log import events
from relay.log.encoding import loads
from relay.log.events import Lane, NewEvent
from relay.store.ports import Tx

SAMPLED = "airspace.sampled"
LANE = Lane(ROOM, "airspace", short=True)
#: Seconds between two samples at least: a slider over a day then has at most 17,280 places, more than pixels.
EVERY_S = 5.0
#: Samples of one answer at most; of more every n-th is given.
MOST = 2000


async def put(tx: Tx, sample: PictureSample, keep_s: float) -> None:
    """Keep a sample, and let go of those older than `keep_s` seconds."""
    event = await events.append(tx, NewEvent(SAMPLED, LANE, outputs=sample.as_json()))
    await tx.execute(Q.put_sample, pos=event.pos, at=sample.at)
    await tx.execute(Q.forget_samples, before=sample.at - keep_s)


async def between(tx: Tx, since: float, until: float) -> list[dict[str, Any]]:
    """The samples of that time (Unix seconds), oldest first, at most `MOST`, evenly thinned."""
    counted = await tx.one(Q.count_samples, since=since, until=until)
    every = max(1, -(-(counted["samples"] if counted else 0) // MOST))
    rows = await tx.all(Q.samples, since=since, until=until, every=every)
    return [loads(row["outputs"]) for row in rows]
