"""What became of a branch that an advisory was about: it was merged or discarded, or git could not merge it.

Invariant: each merge in the log counts once, also one that was made while no daemon ran.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from relay.airspace.advisories import intents, table
from relay.airspace.advisories.protocol import AdvisoryProtocol
from relay.airspace.live.scanner import Scanner
from relay.airspace.worktrees.lifecycle import CHANGED, CONFLICTED, DISCARDED, MERGED
from relay.base.durations import parse_iso
from relay.log.events import Event
from relay.store.ports import Tx


class MergeOutcomes:
    """A follower of the log (`relay.log.follow`). `scanner` is told of each agent whose branch was merged."""

    name = "airspace-landings"
    reads = frozenset({CHANGED})
    emits = frozenset({table.CHANGED, intents.DECLARED})

    def __init__(
        self,
        protocol: AdvisoryProtocol,
        scanner: Scanner,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._protocol = protocol
        self._scanner = scanner
        self._clock = clock

    async def apply(self, tx: Tx, event: Event) -> None:
        change = event.outputs or {}
        what, agent = change.get("change"), change.get("agent")
        if what not in (MERGED, CONFLICTED, DISCARDED) or not agent:
            return
        if what != CONFLICTED:
            # A merge takes all of a branch, so an intent that was declared since is about other work.
            await intents.end_work(tx, agent, parse_iso(event.at), cause=[event.id])
            await self._protocol.undecided(tx, agent, cause=[event.id])
        if what == DISCARDED:
            return
        conflicts = tuple(change.get("conflicts", ()))
        await self._protocol.merged(tx, agent, conflicts, now=self._clock(), cause=[event.id])
        if what == MERGED:
            self._scanner.merged(agent)
