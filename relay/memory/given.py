"""What agents were given of the room's memory: kept with their turns, in the log.

Invariant: `turn.started` names the memories that its agent was given (`inputs.memories`), in the order in which it
read them; nothing else does, and nothing takes it back.

Everything here runs in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from relay.log import events
from relay.log.events import Event, Lane
from relay.memory.experience import Experience
from relay.store.ports import Queries, Row, Tx

Q = Queries(Path(__file__).parent)
TURN_STARTED, TURN_ENDED = "turn.started", "turn.ended"
#: Turns of one conversation that are looked at for what it was given: the latest.
MOST_TURNS = 500


@dataclass(frozen=True, slots=True)
class GivenMemory:
    """A memory that was given, as it is now. `forgotten`: it is told to nobody any more."""

    id: str
    number: int
    author: str
    at: float
    experience: Experience
    event_id: str | None
    forgotten: bool

    @property
    def texts(self) -> list[str]:
        """What of it an answer may quote."""
        return [self.experience.summary, *self.experience.lessons]


async def in_conversation(tx: Tx, lane: Lane) -> set[str]:
    """The ids of what this conversation was given so far."""
    turns = await events.of_lane(tx, lane, TURN_STARTED, limit=MOST_TURNS)
    return {id for turn in turns for id in (turn.inputs or {}).get("memories", ())}


async def of_answer(tx: Tx, answer: Event) -> list[GivenMemory]:
    """What the author of an answer (its `message.posted`) was given with its turn; nothing where it was no turn's."""
    return [
        memory for id in await ids_of_answer(tx, answer) if (memory := await memory_of(tx, id)) is not None
    ]


async def ids_of_answer(tx: Tx, answer: Event) -> Sequence[str]:
    """The same, by their ids."""
    for parent in answer.parents:
        ended = await events.get(tx, parent)
        if ended is None or ended.type != TURN_ENDED or not (ended.inputs or {}).get("turn"):
            continue
        started = await events.get(tx, ended.inputs["turn"])
        if started is not None:
            return list((started.inputs or {}).get("memories", ()))
    return ()


async def memory_of(tx: Tx, id: str) -> GivenMemory | None:
    """The episodic memory of that id, forgotten or not."""
    row = await tx.one(Q.memory_of_id, id=id)
    return None if row is None else _given(row)


async def memory_of_event(tx: Tx, event_id: str) -> GivenMemory | None:
    """The episodic memory that was made of an event, forgotten or not."""
    row = await tx.one(Q.memory_of_event, event_id=event_id)
    return None if row is None else await memory_of(tx, row["id"])


def _given(row: Row) -> GivenMemory:
    experience = Experience.of_row(row)
    forgotten = row["forgotten_at"] is not None
    return GivenMemory(
        row["id"], row["number"], row["agent_id"], row["created_at"], experience, row["event_id"], forgotten
    )
