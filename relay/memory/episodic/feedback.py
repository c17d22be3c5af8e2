"""Whether a memory helped, as those who were told it say.

Invariants:
- each caller has one word on a memory, the last; the counts beside the memory's words are those of all callers;
- feedback moves a memory's rank within bounds (`relay.memory.ranking.weights`), and hides none;
- what is forgotten is unknown here too.

Everything here runs in the caller's transaction. (004, "Success Metrics": agent feedback on suggested memories.)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from relay.base.secret_text import masked
from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.memory.episodic.showing import memory_of
from relay.model import Caller
from relay.store.ports import Queries, Tx

Q = Queries(Path(__file__).parents[1])
FEEDBACK = "memory.feedback"


async def give_feedback(
    tx: Tx, caller: Caller, name: str, useful: bool, note: str | None = None
) -> Mapping[str, Any]:
    """Take a caller's word on the memory of this name; `{id, useful, useless}` of it. Raises Refusal: unknown."""
    row = await memory_of(tx, caller, name)
    number, said = row["number"], None if note is None else masked(note)
    feedback = {"id": row["id"], "number": number, "agent_id": caller.agent, "useful": useful, "note": said}
    await events.append(
        tx, NewEvent(FEEDBACK, Lane(caller.session, caller.agent), outputs={"feedback": feedback})
    )
    async with tx.as_room():
        given = {"number": number, "agent": caller.agent, "useful": int(useful), "note": said}
        await tx.execute(Q.put_feedback, now=await tx.now(), **given)
        await tx.execute(Q.count_feedback, number=number)
    counted = await tx.one(Q.feedback_of, number=number)
    return counted or {"id": row["id"], "useful": 0, "useless": 0}


async def feedback_on(tx: Tx, numbers: Sequence[int], me: str) -> dict[int, dict[str, Any]]:
    """What was said of each of these memories: `{useful, useless, mine}`. `mine`: what `me` said, None = nothing."""
    rows = await tx.all(Q.feedback_on, numbers=json.dumps(list(numbers)))
    counted: dict[int, dict[str, Any]] = {
        number: {"useful": 0, "useless": 0, "mine": None} for number in numbers
    }
    for row in rows:
        of = counted[row["number"]]
        of["useful" if row["useful"] else "useless"] += 1
        if row["agent_id"] == me:
            of["mine"] = bool(row["useful"])
    return counted
