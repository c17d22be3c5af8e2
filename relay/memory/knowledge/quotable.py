"""What the author of a message may quote of the room's memory.

Invariants:
- it is what the author's conversation was given up to the message, whether that answers a turn or was posted in the
  midst of one: nothing is told twice, so it may know it from an earlier turn;
- it is of the log alone and of what never changes, so it is the same whenever it is looked up, and whatever was
  forgotten since.

Everything here runs in the caller's transaction.
"""

from __future__ import annotations

from pathlib import Path

from relay.log import events
from relay.log.encoding import dumps, loads
from relay.log.events import Event, Lane
from relay.memory.knowledge import visibility
from relay.store.ports import Queries, Row, Tx

Q = Queries(Path(__file__).parents[1])
REMEMBERED = "memory.remembered"
#: Turns of a conversation that are looked at, and tellings of a memory whose lessons are: the latest.
MOST_TURNS, MOST_TELLINGS = 500, 1000


async def texts_by(tx: Tx, message: Event) -> list[str]:
    """What the author of a message (`message.posted`) may quote of what it was given until then, forgotten or not."""
    lane = Lane(message.session, message.lane)
    turns = await turns_of(tx, lane, before=message.seq)
    named = {id for given, _ in turns for id in given}
    if not named:
        return []
    ids = dumps(sorted(named))
    texts: list[str] = []
    for row in await tx.all(Q.memories_of_ids, ids=ids):
        texts += [row["summary"], *await _lessons_by(tx, row, message)]
    for entry in await tx.all(visibility.Q.entry_of_ids, ids=ids):
        texts += filter(None, (entry["content"], entry["rationale"]))
    return texts


async def turns_of(
    tx: Tx, lane: Lane, *, before: int = events.SEQUENCES
) -> list[tuple[list[str], list[str]]]:
    """Of the turns of a conversation that began at a sequence number below `before`, the newest first: the ids of the
    memories that it was given, and of the messages that it was asked."""
    where = {"session": lane.session, "lane": lane.name, "before": before}
    rows = await tx.all(Q.inputs_of_turns, limit=MOST_TURNS, **where)
    return [(loads(row["memories"] or "[]"), loads(row["messages"] or "[]")) for row in rows]


async def _lessons_by(tx: Tx, memory: Row, message: Event) -> list[str]:
    """The lessons that a memory had before the message: it gets more where it is told again."""
    if memory["lessons"] == "[]":
        return []
    lanes = (Lane("room", f"memory:{memory['id']}"), Lane(memory["session_id"], memory["agent_id"]))
    tellings = [
        telling.outputs["memory"]
        for lane in lanes
        for telling in await events.of_lane(tx, lane, REMEMBERED, limit=MOST_TELLINGS)
        if telling.pos < message.pos
    ]
    return [lesson for told in tellings if told["id"] == memory["id"] for lesson in told["lessons"]]
