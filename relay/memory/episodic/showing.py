"""One memory, as it is shown to whoever names it by its id or its number.

Invariant: of what is forgotten nobody is told more than that it is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from relay.base.durations import iso
from relay.config.command_line import command
from relay.memory.episodic.recalling import as_found
from relay.memory.given import message_number
from relay.memory.knowledge.service import with_ended
from relay.model import Caller, Fault, Refusal, references
from relay.model.references import Thing
from relay.store.ports import Queries, Row, Tx

Q = Queries(Path(__file__).parents[1])


def number_of(name: str) -> int | None:
    """The number of a memory that is named by it, as `r12` or `12`; None: it is named otherwise."""
    kind, number = references.read(name, Thing.MEMORY) or (None, None)
    return number if kind is Thing.MEMORY else None


async def memory_of(tx: Tx, caller: Caller, name: str) -> Row:
    """The row (with its `keys`) of the memory that this names: its id, or its number as `r12` or `12`. Raises Refusal
    (`unknown_memory`): there is none, or it is forgotten, which is said to whoever may forget it."""
    if number := number_of(name):
        named = await tx.one(Q.memory_of_number, number=number)
    else:
        named = await tx.one(Q.memory_of_id, id=name.strip().lower())
    if named is None:
        raise unknown_memory(name)
    rows = await tx.all(Q.memories_of_numbers, numbers=json.dumps([named["number"]]))
    if not rows and not (caller.person or named["agent_id"] == caller.agent):
        raise unknown_memory(name)
    if not rows:
        forgotten = f"The memory {references.memory(named['number'])} is forgotten."
        raise Refusal(forgotten, "Nobody is told it.", Fault.UNKNOWN, "unknown_memory")
    return rows[0]


async def was_forgotten(tx: Tx, number: int) -> bool:
    """Is the memory of this number forgotten?"""
    row = await tx.one(Q.memory_of_number, number=number)
    return row is not None and row["forgotten_at"] is not None


def unknown_memory(name: str) -> Refusal:
    """What is said of a name that no memory has."""
    named = name.strip()[:60]
    said = named if named.replace("-", "").isalnum() else repr(named)
    fix = f"A recall (`/recall`, {command('memory recall')}) shows their numbers, like r2, and ids."
    return Refusal(f"There is no memory {said}.", fix, Fault.UNKNOWN, "unknown_memory")


async def shown(tx: Tx, caller: Caller, name: str) -> dict[str, Any]:
    """The memory that this names, with all that is kept of it. Raises Refusal."""
    row = await memory_of(tx, caller, name)
    [memory] = await with_ended(tx, [as_found(row, 1.0, {})])
    found = memory.as_json()
    del found["relevance"], found["why"]
    said = await tx.all(Q.feedback_on_one, number=row["number"])
    return {
        "success": True,
        "is_valid": True,
        "replaced_by": None,
        **found,
        "message_number": None if memory.event_id is None else await message_number(tx, memory.event_id),
        "details": json.loads(row["details"]),
        "feedback": [
            {
                "agent_id": each["agent_id"],
                "useful": bool(each["useful"]),
                "note": each["note"],
                "at": iso(each["at"]),
            }
            for each in said
        ],
    }
