"""The room remembers by itself: followers of the log that keep what is worth a memory.

Invariants:
- a memory commits with the follower's cursor, so an event is one memory however often the daemon is killed;
- what happens from now on is remembered at once: that follower begins at the end of the log. What stood there before
  is taken in behind it, in small transactions with pauses, so that a room with a long past starts at once, answers
  all the while, and is not without today's memories until its past is read. Each event is one memory whoever of the
  two comes first;
- with `memory.observe` off nothing is kept, and what happened meanwhile is not made up for.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from relay.config.settings import LiveSettings
from relay.log import events, follow
from relay.log.events import Event
from relay.memory.episodic.indexing import index_the_rest
from relay.memory.episodic.keeping import REMEMBERED, keep_observed
from relay.memory.knowledge.quotable import texts_by
from relay.memory.observed import POSTED, READS, observed
from relay.model import Kind
from relay.store.ports import Store, Tx

log = structlog.get_logger(__name__)
#: Up to where the past reached when the room began to remember.
_PAST = "memory_past"
#: Events of one transaction of the past, and the pause behind each, in seconds.
BATCH, PAUSE_S = 20, 0.05


class ObservedMemories:
    """A follower of the log (`relay.log.follow`)."""

    reads = READS
    emits = frozenset({REMEMBERED})

    def __init__(self, settings: LiveSettings, name: str = "memory-observed") -> None:
        self.name = name
        self._settings = settings

    async def apply(self, tx: Tx, event: Event) -> None:
        await self.apply_all(tx, [event])

    async def apply_all(self, tx: Tx, new: Sequence[Event]) -> None:
        if not self._settings.current.memory.observe:
            return
        found = [observed(event, await self._given(tx, event)) for event in new]
        if memories := [memory for memory in found if memory is not None]:
            await keep_observed(tx, memories)

    async def _given(self, tx: Tx, event: Event) -> Sequence[str]:
        """The texts that the author of a message was given until then."""
        if event.type != POSTED or event.role == Kind.HUMAN:
            return ()
        if event.outputs["message"]["kind"] != Kind.AGENT:
            return ()
        return await texts_by(tx, event)


class RoomMemory:
    """Runs the followers."""

    def __init__(self, store: Store, settings: LiveSettings) -> None:
        self._store = store
        self.follower = ObservedMemories(settings)
        self._past = ObservedMemories(settings, "memory-past")

    async def run(self) -> None:
        """Follow the log for ever, from its end on at the first start."""
        await self._store.write(self._begin)
        await follow.run(self._store, self.follower)

    async def take_in_past(self) -> None:
        """Take in what stood in the log before the room began to remember; ends when that is done."""
        await index_the_rest(self._store)
        until = await self._store.write(self._begin)
        await follow.catch_up(self._store, self._past, until, batch=BATCH, pause_s=PAUSE_S)
        await self._store.write(self._end)

    async def _end(self, tx: Tx) -> None:
        """There is no past to take in any more, and an archive waits for nobody who does."""
        await events.put_setting(tx, _PAST, "0")
        await follow.drop_cursor(tx, self._past)

    async def _begin(self, tx: Tx) -> int:
        """Where the past ends."""
        known = await events.setting(tx, _PAST)
        if known is not None:
            return int(known)
        until = await events.last_pos(tx)
        await events.put_setting(tx, _PAST, str(until))
        await follow.put_cursor(tx, self.follower, until)
        return until
