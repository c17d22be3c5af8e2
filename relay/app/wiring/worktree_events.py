"""What happens to worktrees, as the room records it: an event, and where people should know, a message.

Invariant: the event `worktree.changed` and what the room says of it are one transaction. A database that cannot
take them now is waited for, a while; the change itself is in git already and is not undone for it.
"""

from __future__ import annotations

import asyncio
import time

import structlog

from relay.airspace.worktrees.lifecycle import CHANGED, Record, WorktreeChange
from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.room.journal import ledger
from relay.store.ports import Store, StoreBusy, Tx

log = structlog.get_logger(__name__)
_TOLD = "worktrees_trouble"
#: Seconds between attempts: a database that is locked for longer is not waited for.
WAITS_S = (0.1, 0.5, 2.0, 5.0)


def recorder(store: Store) -> Record:
    """Keeps what happened to worktrees in this room."""

    async def record(change: WorktreeChange) -> None:
        async def work(tx: Tx) -> None:
            lane = Lane("room", f"worktree:{ledger.new_id()}", short=True)
            outputs = change.as_json()
            event = await events.append(
                tx,
                NewEvent(CHANGED, lane, outputs=outputs, branch=change.branch, snapshot=change.commit),
            )
            if change.text:
                meta = {"notice": "worktree", "agent": change.agent, "change": change.what}
                await ledger.say(tx, change.text, now=time.time(), parents=[event.id], meta=meta)

        for wait in (*WAITS_S, None):
            try:
                await store.write(work, durable=True)
                return
            except (StoreBusy, OSError, store.transient) as error:
                if wait is None:
                    log.warning("change of a worktree not recorded", error=str(error), **change.as_json())
                    return
                await asyncio.sleep(wait)

    return record


async def tell_trouble(store: Store, trouble: str) -> None:
    """Say once why agents have no worktrees; again only when the reason is another."""

    async def work(tx: Tx) -> None:
        if await events.setting(tx, _TOLD) == trouble:
            return
        await events.put_setting(tx, _TOLD, trouble)
        if trouble:
            await ledger.say(tx, trouble, now=time.time(), meta={"notice": "worktrees"})

    # A look on the reader costs nothing; only news takes the write lock.
    if (await store.read(lambda tx: events.setting(tx, _TOLD)) or "") != trouble:
        await store.write(work)
