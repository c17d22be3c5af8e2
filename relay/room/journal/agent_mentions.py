"""An agent mentions agents: who of them gets a turn for it.

Invariant: agents set each other to work only where the room's rules say so, and no further than the hop limit;
beyond it the entry is shown, and what it asks for waits for `/continue`.
"""

from __future__ import annotations

from collections.abc import Collection

from relay.model import Message
from relay.room.journal import hop_limit as hops
from relay.room.journal import ledger
from relay.room.parsing.mentions import mentions
from relay.store.ports import Tx


async def pass_on(
    tx: Tx, entry: Message, event_id: str, *, names: Collection[str], hop_limit: int, now: float
) -> tuple[str, ...]:
    """Give a turn to the agents that an agent's entry mentions; those that get one. `names`: the room's agents."""
    named = tuple(name for name in mentions(entry.body, names) if name != entry.speaker)
    if not named:
        return ()
    if await hops.take(tx, hop_limit):
        await ledger.queue_jobs(tx, entry.id, named, parents=[event_id], now=now)
        return named
    await hops.hold(tx, entry.id, named)
    await ledger.say(
        tx,
        f"{entry.speaker} asks {', '.join(named)}, but agents have asked each other "
        f"{hop_limit} times without a person. `/continue` lets them go on.",
        now=now,
        about=entry.id,
        meta={"notice": "hop_limit"},
    )
    return ()
