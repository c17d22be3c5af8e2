"""What agents were given of the room's memory: kept with their turns, in the log.

Invariant: `turn.started` names the memories that its agent was given (`inputs.memories`), in the order in which it
read them; nothing else does, and nothing takes it back.

Everything here runs in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relay.base.durations import iso
from relay.log import events
from relay.log.events import Event, Lane
from relay.memory.experience import Experience
from relay.memory.found import is_unverified
from relay.memory.knowledge import queries as knowledge
from relay.memory.knowledge.entry import Standing
from relay.memory.knowledge.forgetting import is_forgotten
from relay.memory.knowledge.quotable import turns_of
from relay.memory.knowledge.service import ended_by, ended_events
from relay.model import references
from relay.store.ports import Queries, Row, Tx

Q = Queries(Path(__file__).parent)
TURN_ENDED = "turn.ended"


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


async def in_conversation(tx: Tx, lane: Lane, *, but: Collection[str] = ()) -> tuple[set[str], set[str]]:
    """The ids of what this conversation was given so far, and of the messages that it was asked; not by turns that
    were asked by one of the messages `but`: earlier attempts at the same."""
    others = [turn for turn in await turns_of(tx, lane) if set(but).isdisjoint(turn[1])]
    return {id for given, _ in others for id in given}, {id for _, asked in others for id in asked}


async def is_answer_in(tx: Tx, event_id: str, lane: Lane) -> bool:
    """Was this said by a turn of that conversation?"""
    answer = await events.get(tx, event_id)
    for parent in () if answer is None else answer.parents:
        ended = await events.get(tx, parent)
        if (
            ended is not None
            and ended.type == TURN_ENDED
            and (ended.session, ended.lane) == (lane.session, lane.name)
        ):
            return True
    return False


async def ids_of_answer(tx: Tx, answer: Event) -> Sequence[str]:
    """The ids of what the author of an answer was given with its turn, in the order in which it read them; none where
    it was no turn's answer."""
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


async def shown(tx: Tx, answer: Event, me: str) -> list[dict[str, Any]]:
    """What the author of an answer was given with its turn, as it is now, in the order in which it read it. What is
    forgotten by now, or not for `me` to read, has no text; `is_valid` is false where nothing of it holds any more."""
    return [await _shown(tx, id, me) for id in await ids_of_answer(tx, answer)]


async def _shown(tx: Tx, id: str, me: str) -> dict[str, Any]:
    memory = await memory_of(tx, id)
    if memory is not None:
        told = None if memory.forgotten else memory.experience
        ended = await ended_events(tx, [memory.event_id] if memory.event_id else [])
        return {
            "id": id,
            "memory_type": "episodic",
            "reference": references.memory(memory.number),
            "number": memory.number,
            "author": memory.author,
            "unverified": is_unverified(memory.experience.tags),
            "at": iso(memory.at),
            "event_id": memory.event_id,
            "message": None if memory.event_id is None else await message_of(tx, memory.event_id),
            "forgotten": memory.forgotten,
            "text": told and "\n".join([told.summary, *told.lessons]),
            "outcome": told and told.outcome,
            "is_valid": memory.event_id not in ended,
            "replaced_by": ended.get(memory.event_id),
            "tags": list(told.tags) if told else [],
        }
    entry = await knowledge.with_id(tx, me, id)
    # Knowledge is forgotten by the memory of the same event; its entry then has no readers.
    memory = None if entry is None else await memory_of_event(tx, entry["event_id"])
    forgotten = memory.forgotten if memory is not None else await is_forgotten(tx, id)
    number = None if memory is None else memory.number
    return {
        "id": id,
        "memory_type": "procedural" if "/" in id else "knowledge",
        "reference": references.named(number, id) if entry else id,
        "number": number,
        "author": entry and entry["agent_id"],
        "unverified": entry is not None and entry["standing"] == Standing.UNVERIFIED,
        "at": iso(entry["valid_from"]) if entry else None,
        "event_id": entry and entry["event_id"],
        "message": None if entry is None else await message_of(tx, entry["event_id"]),
        "forgotten": forgotten,
        "text": None if entry is None or forgotten else entry["content"],
        "outcome": entry and entry["kind"],
        "is_valid": entry is None or entry["valid_to"] is None,
        "replaced_by": (await ended_by(tx, [entry["id"]])).get(entry["id"]) if entry else None,
        "tags": [],
    }


async def message_of(tx: Tx, event_id: str) -> str | None:
    """The id of the message that an event records, or that ordered it."""
    event = await events.get(tx, event_id)
    if event is None:
        return None
    message = (event.outputs or {}).get("message") or (event.inputs or {}).get("message")
    return message["id"] if isinstance(message, dict) else message


async def message_number(tx: Tx, event_id: str) -> int | None:
    """The number of the message that an event records, or that ordered it."""
    event = await events.get(tx, event_id)
    causes = [] if event is None else [event, *[await events.get(tx, parent) for parent in event.parents]]
    for cause in causes:
        message = ((cause and cause.outputs) or {}).get("message")
        if isinstance(message, dict) and "number" in message:
            return int(message["number"])
    return None


def _given(row: Row) -> GivenMemory:
    experience = Experience.of_row(row)
    forgotten = row["forgotten_at"] is not None
    return GivenMemory(
        row["id"], row["number"], row["agent_id"], row["created_at"], experience, row["event_id"], forgotten
    )
