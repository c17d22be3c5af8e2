"""Carries out what people order about single entries, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence

from relay.model import Refusal, actions
from relay.room.entries import changes, pins, threads
from relay.room.journal.orders import Order, Result
from relay.store.ports import Tx


async def carry_out(tx: Tx, action: actions.OnEntries, order: Order, agents: Sequence[str]) -> Result:
    """Do what a person orders. `agents`: those of the room. Raises Refusal, with nothing changed."""
    match action:
        case actions.EditMessage():
            return await changes.edit(tx, action, order, agents)
        case actions.DeleteMessage():
            return await changes.delete(tx, action, order)
        case actions.Pin(message):
            return await pins.pin(tx, message, order)
        case actions.Unpin(message):
            return await pins.unpin(tx, message, order)
        case actions.ShowPins():
            return Result(pins.said(await pins.pinned(tx)), for_people=True)
        case actions.Reply():
            raise Refusal(
                "A line of the transcript file answers no message.",
                "Reply in the page, with join.py, or with `relay message reply`.",
            )
        case actions.ShowThread(message):
            return Result(await threads.said(tx, message), for_people=True)
        case _:
            raise Refusal(f"The room does not know how to do {action!r}.")
