"""Entries that people keep on top of the room.

Every function runs in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from relay.base.terminal_text import safe_line
from relay.model import Message, Refusal, references
from relay.room.entries.changes import row_of
from relay.room.journal.ledger import Q
from relay.room.journal.orders import Order, Result
from relay.room.journal.values import message_of_row
from relay.store.ports import Row, Tx

#: More pins than people read on top of a room.
MOST = 20
#: Characters of pins that an agent is given with a turn, and of one of them.
MOST_GIVEN, MOST_OF_ONE = 2000, 600


async def pinned(tx: Tx) -> list[Row]:
    """The rows of what is pinned, what was pinned last first."""
    return list(await tx.all(Q.pins, limit=MOST))


def as_json(row: Row) -> dict[str, Any]:
    """A pin as interfaces show it: an entry, and who pinned it."""
    return {**message_of_row(row).as_json(), "pinned_by": row["pinned_by"]}


async def pin(tx: Tx, number: int, order: Order) -> Result:
    """Raises Refusal."""
    row, name = await row_of(tx, number), references.message(number)
    if row["pinned_in"] is not None:
        raise Refusal(f"{row['pinned_by']} pinned {name} already.", "`/pins` shows what is pinned.")
    if len(await pinned(tx)) >= MOST:
        raise Refusal(
            f"{MOST} messages are pinned, and there is room for no more.", "`/unpin m12` takes one down."
        )
    await tx.execute(Q.set_pin, id=row["id"], by=order.by, entry=order.message.number)
    return Result(f"{order.by} pinned {name}.")


async def unpin(tx: Tx, number: int, order: Order) -> Result:
    """Raises Refusal."""
    row, name = await row_of(tx, number), references.message(number)
    if row["pinned_in"] is None:
        raise Refusal(f"{name} is not pinned.", "`/pins` shows what is.")
    await tx.execute(Q.set_pin, id=row["id"], by=None, entry=None)
    return Result(f"{order.by} took {name} down.")


def said(rows: Sequence[Row]) -> str:
    """What is pinned, as markdown."""
    if not rows:
        return "Nothing is pinned. `/pin m12` pins a message."
    return "\n".join(
        f"- {references.message(row['number'])} **{safe_line(row['speaker'])}**: {safe_line(row['body'], 200)}"
        for row in rows
    )


async def given(tx: Tx, *, after: int, known: Collection[str]) -> list[Message]:
    """What an agent is given of the pins with a turn, what was pinned first first: those that were pinned behind the
    entry `after`, up to which it was shown them, and no message that it is shown anyway (`known`: ids)."""
    fitting: list[Message] = []
    left = MOST_GIVEN
    for message in (message_of_row(row) for row in await pinned(tx) if row["pinned_in"] > after):
        text = message.body if len(message.body) <= MOST_OF_ONE else f"{message.body[:MOST_OF_ONE]} …"
        if message.id in known:
            continue
        left -= len(text) + len(message.speaker)
        if left < 0:
            break
        fitting.append(replace(message, body=text))
    return fitting[::-1]
