"""Conflicts, on the log: whose work git cannot merge (003, section 6.2; level 1, whole files).

Invariants:
- git says that two conflict, nobody else; a conflict blocks nothing;
- one between the same two on the same files is found once, and again only after it was settled. What stands is a fold
  of the log, so a restart finds none anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relay.log import events
from relay.log.events import Event, Lane, NewEvent
from relay.model.refusals import Refusal
from relay.store.ports import Tx
from relay.timeline.projection import CHANGED
from relay.timeline.reading import MAIN_LANE, Filter, page

FOUND, SETTLED = "conflict.found", "conflict.settled"
#: The name of the main branch as one of the two.
MAIN = "main"
#: `ConflictType` of the source.
KIND = "concurrent_modification"
#: The other levels are found elsewhere (`relay.merge`).
LEVEL = 1
#: Files of a conflict of which the writes are named; writes of a file that are looked through for one of main.
MOST_WRITES, MOST_LOOKED = 20, 50
_BATCH = 500


@dataclass(frozen=True, slots=True)
class StandingConflict:
    """`sides`: two agents, or an agent and `MAIN`; `event`: the id of the event that says so, on the short lane
    `lane`."""

    sides: tuple[str, str]
    paths: tuple[str, ...]
    event: str
    lane: Lane


async def standing(tx: Tx) -> list[StandingConflict]:
    """The conflicts that were found and not settled."""
    open_: dict[str, StandingConflict] = {}
    after = 0
    while batch := await events.read_after(tx, after, types=(FOUND, SETTLED), limit=_BATCH):
        after = batch[-1].pos
        for event in batch:
            if event.type == FOUND and event.outputs["level"] != LEVEL:
                continue
            if event.type == FOUND:
                open_[event.id] = _standing(event)
            else:
                open_.pop(event.outputs["conflict"], None)
    return list(open_.values())


async def record_conflict(tx: Tx, sides: tuple[str, str], paths: Sequence[str]) -> StandingConflict:
    """Append `conflict.found`: `{level: 1, kind, sides, paths, lanes, events}`. `lanes`: of each side the one that
    wrote one of these files last; `events`: each side's last writes of them, as far as they are recorded."""
    found: dict[str, Event] = {}
    lanes: list[str] = []
    for side in sides:
        writes = [write for path in paths[:MOST_WRITES] if (write := await _last_write(tx, side, path))]
        found |= {write.id: write for write in writes}
        newest = max(writes, key=lambda write: write.pos, default=None)
        lanes.append(newest.lane_key if newest else MAIN_LANE.key if side == MAIN else side)
    causes = sorted(found, key=lambda id: found[id].pos)
    outputs = {
        "level": LEVEL,
        "kind": KIND,
        "sides": list(sides),
        "paths": list(paths),
        "lanes": lanes,
        "events": causes,
    }
    lane = Lane(MAIN_LANE.session, f"conflict:{await events.next_number(tx, 'conflict')}", short=True)
    new = NewEvent(FOUND, lane, outputs=outputs, parents=causes, file_touches=sorted(paths))
    return _standing(await events.append(tx, new))


async def settle(tx: Tx, conflict: StandingConflict) -> None:
    """Append `conflict.settled`: git merges the two, or one of them has nothing left there."""
    outputs = {"conflict": conflict.event, "sides": list(conflict.sides), "paths": list(conflict.paths)}
    await events.append(
        tx,
        NewEvent(
            SETTLED,
            conflict.lane,
            outputs=outputs,
            parents=[conflict.event],
            file_touches=sorted(conflict.paths),
        ),
    )


def _standing(event: Event) -> StandingConflict:
    first, second = event.outputs["sides"]
    lane = Lane(event.session, event.lane, short=True)
    return StandingConflict((first, second), tuple(event.outputs["paths"]), event.id, lane)


async def _last_write(tx: Tx, side: str, path: str) -> Event | None:
    """The side's last write of this file; None: the log has none."""
    if side == MAIN:
        writes = await page(tx, Filter(path=path, types=(CHANGED,)), MOST_LOOKED)
        return next((write for write in reversed(writes) if write.outputs.get("worktree") == MAIN), None)
    try:
        writes = await page(tx, Filter(name=side, path=path, types=(CHANGED,)), 1)
    except Refusal:
        return None  # nobody of this name has a lane yet
    return writes[-1] if writes else None
