"""How a memory is forgotten: told to nobody any more, at any door.

Invariants:
- what is forgotten is in no index, so no question finds it and it is nobody's neighbour; its row and its events stay,
  and its event or key makes no memory again;
- its event names the events that it was made of, so that the knowledge of these is told to nobody either
  (`relay.memory.knowledge.forgetting`);
- a person may forget any memory, an agent its own; what is forgotten already stays so, and nothing is recorded.

Everything here runs in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.memory.episodic.keeping import REMEMBERED, new_counts, unindex
from relay.memory.episodic.showing import unknown_memory
from relay.model import Caller, Refusal, references
from relay.store.ports import Queries, Row, Tx

Q = Queries(Path(__file__).parents[1])
FORGOTTEN = "memory.forgotten"
#: How often the same may have been told for all the events of it to be forgotten: the latest.
MOST_TELLINGS = 1000


async def forget(tx: Tx, caller: Caller, memory_id: str, *, cause: Sequence[str] = ()) -> int:
    """Forget a memory; its number. `cause`: the events that ordered it. Raises Refusal: unknown, `not_yours`."""
    return await _forget(tx, caller, await tx.one(Q.memory_of_id, id=memory_id), memory_id, cause)


async def forget_number(tx: Tx, caller: Caller, number: int, *, cause: Sequence[str] = ()) -> int:
    """The same, by the room's number for it."""
    row = await tx.one(Q.memory_of_number, number=number)
    return await _forget(tx, caller, row, references.memory(number), cause)


async def _forget(tx: Tx, caller: Caller, row: Row | None, name: str, cause: Sequence[str]) -> int:
    if row is None:
        raise unknown_memory(name)
    number: int = row["number"]
    if not caller.person and row["agent_id"] != caller.agent:
        raise Refusal(
            f"The memory {references.memory(number)} is {row['agent_id']}'s.",
            "A person may forget it: `/forget` in the room. `feedback` says that it is of no use.",
            code="not_yours",
        )
    if row["forgotten_at"] is not None:
        return number
    counts = new_counts()
    async with tx.as_room():
        await unindex(tx, [row], counts)
        await tx.execute(Q.forget_words, number=number)
        await tx.execute(Q.forget_vectors, number=number)
        await counts.write(tx)
        await tx.execute(Q.forget_memory, number=number, now=await tx.now(), by=caller.agent)
    lane = Lane("room", f"memory:{row['id']}", short=True)
    tellings = await events.of_lane(tx, lane, REMEMBERED, limit=MOST_TELLINGS)
    made_of = {row["event_id"], *(parent for telling in tellings for parent in telling.parents)}
    forgotten = {"id": row["id"], "number": number, "agent_id": row["agent_id"], "by": caller.agent}
    forgotten["event_ids"] = sorted(made_of - {None})
    await events.append(tx, NewEvent(FORGOTTEN, lane, outputs={"memory": forgotten}, parents=cause))
    return number
