"""The journal of the timeline, kept in git as the room goes on: what brings the log back when the database is lost.

Invariants:
- it is appended to behind each turn's end, off the turn's path: a turn neither waits for it nor fails with it;
- turns that end together are one append. An append looks at what came since the last one and at nothing else;
- what could not be appended is appended with the next one; why it could not is logged once.
"""

from __future__ import annotations

import asyncio
from contextlib import closing

import structlog

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.git.kept_snapshots import KeptSnapshots
from relay.git.run import GitError
from relay.store.ports import Store, StoreError
from relay.timeline.sync.exchange import AppendResult, TimelineExchange

log = structlog.get_logger(__name__)
#: What is worth an append of its own.
TYPES = ("turn.ended", "timeline.rewound", "timeline.undone", "timeline.redone", "checkpoint.made", "handoff")
#: Seconds from one append to the next at least; and until one that failed is tried again by itself.
KEEP_EVERY_S, AGAIN_S = 2.0, 60.0
#: Seconds that the last one gets when the room closes.
LAST_S = 5.0


class TimelineJournal:
    """Appends to the journal of one room. `registry`: its worktrees."""

    def __init__(self, store: Store, registry: WorktreeRegistry) -> None:
        self._store, self._registry = store, registry
        self._exchange: TimelineExchange | None = None
        self._trouble = ""

    async def run(self) -> None:
        """Append behind each turn's end, and once at the start. Runs for ever."""
        with closing(self._store.wakeup(TYPES)) as wakeup:
            while True:
                await self.keep()
                await asyncio.sleep(KEEP_EVERY_S)
                await wakeup.wait(AGAIN_S if self._trouble else None)

    async def close(self) -> None:
        """Append what is left when the room closes, if that takes no longer than it may."""
        try:
            async with asyncio.timeout(LAST_S):
                await self.keep()
        except TimeoutError:
            log.warning("the journal's last events are kept at the next start")

    async def keep(self) -> AppendResult | None:
        """Append what was recorded since the last time; None where it cannot be, or there is no repository. Never
        raises for git or the store."""
        try:
            exchange = self._find_exchange()
            done = None if exchange is None else await exchange.keep()
        except (GitError, OSError, StoreError, self._store.transient, self._store.errors) as error:
            if str(error) != self._trouble:
                log.warning("the journal is not kept", reason=str(error))
            self._trouble = str(error)
            return None
        self._trouble = ""
        return done

    def _find_exchange(self) -> TimelineExchange | None:
        main = self._registry.main
        if self._exchange is None and main is not None:
            kept = KeptSnapshots(self._registry.scratch, main)
            self._exchange = TimelineExchange(self._store, main.git, kept)
        return self._exchange
