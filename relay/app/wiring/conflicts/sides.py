"""Whose work the sides of a conflict are, and what each last wrote there, as far as the room has recorded it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from relay.merge.conflicts.conflict import Conflict, Side
from relay.model import Refusal
from relay.store.ports import Tx
from relay.timeline.projection import CHANGED
from relay.timeline.reading import Filter, page


async def with_lanes(tx: Tx, conflict: Conflict, agents: Sequence[str | None]) -> Conflict:
    """The conflict with each side's lane and its last recorded write of the file; `agents`: a's and b's, None = it is
    nobody's that is known."""
    a, b = [
        await _written(tx, side, agent, conflict.path)
        for side, agent in zip((conflict.a, conflict.b), agents, strict=True)
    ]
    return replace(conflict, a=a, b=b)


async def _written(tx: Tx, side: Side, agent: str | None, path: str | None) -> Side:
    if agent is None:
        return side
    try:
        writes = await page(tx, Filter(name=agent, path=path, types=(CHANGED,)), 1)
    except Refusal:
        return side  # the agent has not had a turn yet
    return replace(side, lane=writes[-1].lane_key, event=writes[-1].id) if writes else side
