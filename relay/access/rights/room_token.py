"""The token of a room whose database several relays share (docs/postgres.md, "One identity").

Invariants: the database has one token, and whatever a file says, that one counts; of several that replace it at once
one wins, and the others are told which text counts now; no event has the text, or anything made from it.
"""

from __future__ import annotations

from pathlib import Path

from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.model import STEWARD
from relay.store.ports import Queries, Store, Tx

Q = Queries(Path(__file__).parent)
#: The room has another token than before.
REPLACED = "token.replaced"


async def current(store: Store) -> str | None:
    """The room's token; None while it has none."""
    row = await store.read(lambda tx: tx.one(Q.room_token), single=True)
    return None if row is None else str(row["token"])


async def settle(store: Store, offered: str, *, by: str) -> str:
    """The room's token, which is `offered` where it has none yet. `by`: the relay that offers it."""

    async def work(tx: Tx) -> str:
        await tx.execute(Q.put_room_token, token=offered, by=by, now=await tx.now())
        return await _token(tx)

    return await store.write(work, durable=True)


async def replace(store: Store, old: str, new: str, *, by: str) -> str:
    """Put `new` in the place of `old`; the token that counts now, which is another one's when that was faster."""

    async def work(tx: Tx) -> str:
        now = await tx.now()
        if await tx.execute(Q.replace_room_token, old=old, new=new, by=by, now=now):
            await events.append(tx, NewEvent(REPLACED, Lane("daemon", STEWARD), outputs={"by": by}))
        else:
            await tx.execute(Q.put_room_token, token=new, by=by, now=now)  # somebody emptied the table
        return await _token(tx)

    return await store.write(work, durable=True)


async def _token(tx: Tx) -> str:
    row = await tx.one(Q.room_token)
    assert row is not None
    return str(row["token"])
