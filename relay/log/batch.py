"""Many events at once: what would be four statements each is a few for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relay.log import events
from relay.log.events import Lane, NewEvent, Q
from relay.store.ports import Row, Tx


async def record_all(tx: Tx, news: Sequence[NewEvent]) -> list[str]:
    """As `events.record` for each of these in their order, with the same rows; their ids. A later one may have an
    earlier one as its cause."""
    ids: list[str] = []
    rows: list[dict[str, Any]] = []
    unwritten: set[str] = set()
    heads: dict[Lane, Row | None] = {}
    for new in news:
        if new.source_key is not None:
            raise ValueError("what happens once is appended")
        if unwritten and not unwritten.isdisjoint((*new.parents, *new.causal_deps)):
            await _write(tx, rows, heads)
            rows, unwritten = [], set()
        if new.lane not in heads:
            heads[new.lane] = await events.head_of(tx, new.lane)
        row = await events.next_row(tx, new, heads[new.lane])
        heads[new.lane] = {"seq": row["seq"], "head": row["id"], "clock": row["clock"]}
        rows.append(row)
        ids.append(row["id"])
        unwritten.add(row["id"])
    await _write(tx, rows, heads)
    return ids


async def _write(tx: Tx, rows: Sequence[dict[str, Any]], heads: dict[Lane, Row | None]) -> None:
    await tx.many(Q.record_event, rows)
    places = [
        {
            "session": lane.session,
            "lane": lane.name,
            "seq": head["seq"],
            "head": head["head"],
            "clock": head["clock"],
            "short": int(lane.short),
            "parent": None,
            "depth": 0,
        }
        for lane, head in heads.items()
        if head is not None
    ]
    await tx.many(Q.put_lane, places)
