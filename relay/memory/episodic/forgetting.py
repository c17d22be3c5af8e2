"""How a memory is forgotten: told to nobody any more, at any door.

Invariants:
- what is forgotten is in no index, so no question finds it and it is nobody's neighbour; its row and its events stay,
  and its event or key makes no memory again;
- its event names the events that it was made of, so that the knowledge of these is told to nobody either
  (`relay.memory.knowledge.forgetting`);
- an entry of the knowledge is forgotten with the memory of its event, which says the same, and alone where there is
  none;
- a person may forget any memory and any entry that they may read, an agent its own; what is forgotten already stays
  so, and nothing is recorded.

Everything here runs in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.memory.episodic.keeping import REMEMBERED, new_counts, unindex
from relay.memory.episodic.showing import number_of, unknown_memory
from relay.memory.knowledge import queries
from relay.memory.knowledge.forgetting import ENTRY_FORGOTTEN, is_forgotten
from relay.model import Caller, Refusal, references
from relay.store.ports import Queries, Row, Tx

Q = Queries(Path(__file__).parents[1])
FORGOTTEN = "memory.forgotten"
#: How often the same may have been told for all the events of it to be forgotten: the latest.
MOST_TELLINGS = 1000


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was forgotten. `number`: of the memory, None: there was none; `entry`: the id of the knowledge that was
    named; `content`, `event_id`: what it said and where that stays, None where it had been forgotten before."""

    number: int | None
    entry: str | None = None
    content: str | None = None
    event_id: str | None = None

    @property
    def names(self) -> list[str]:
        """`k1a2b3c4d`, `r14`."""
        numbered = [] if self.number is None else [references.memory(self.number)]
        return ([] if self.entry is None else [self.entry]) + numbered


async def forget(tx: Tx, caller: Caller, name: str, *, cause: Sequence[str] = ()) -> Forgotten:
    """Forget what this names: a memory, by its number (`r12`) or its id, or an entry of the knowledge, by its id or
    the first digits of that. `cause`: the events that ordered it. Raises Refusal: unknown, `not_yours`."""
    if entry := references.entry(name.strip()):
        return await _forget_entry(tx, caller, entry, cause)
    if number := number_of(name):
        row = await tx.one(Q.memory_of_number, number=number)
    else:
        row = await tx.one(Q.memory_of_id, id=name.strip().lower())
    if row is None or (row["forgotten_at"] is not None and not _may_forget(caller, row)):
        raise unknown_memory(name)
    return await _forget(tx, caller, row, cause)


async def _forget_entry(tx: Tx, caller: Caller, name: str, cause: Sequence[str]) -> Forgotten:
    entry = await queries.with_id(tx, caller.agent, name)
    if entry is None:
        if await is_forgotten(tx, name):
            return Forgotten(None, name)
        raise unknown_memory(name)
    if not _may_forget(caller, entry):
        raise _not_yours(entry["id"], entry["agent_id"])
    told = await tx.one(Q.memory_of_event, event_id=entry["event_id"])
    memory = None if told is None else await tx.one(Q.memory_of_id, id=told["id"])
    if memory is not None:
        return replace(await _forget(tx, caller, memory, cause), entry=entry["id"])
    lane = Lane("room", f"knowledge:{entry['id']}", short=True)
    forgotten = {"id": entry["id"], "agent_id": entry["agent_id"], "by": caller.agent}
    await events.append(tx, NewEvent(ENTRY_FORGOTTEN, lane, outputs={"entry": forgotten}, parents=cause))
    return Forgotten(None, entry["id"], entry["content"], entry["event_id"])


def _may_forget(caller: Caller, said: Mapping[str, Any]) -> bool:
    return caller.person or said["agent_id"] == caller.agent


def _not_yours(name: str, owner: str) -> Refusal:
    return Refusal(
        f"The memory {name} is {owner}'s.",
        "A person may forget it: `/forget` in the room. `feedback` says that it is of no use.",
        code="not_yours",
    )


async def _forget(tx: Tx, caller: Caller, row: Row, cause: Sequence[str]) -> Forgotten:
    number: int = row["number"]
    if not _may_forget(caller, row):
        raise _not_yours(references.memory(number), row["agent_id"])
    if row["forgotten_at"] is not None:
        return Forgotten(number)
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
    said = row["event_id"] or next((telling.id for telling in tellings), None)
    return Forgotten(number, content=row["summary"], event_id=said)
