"""Which turns are cut off for an advisory (docs/airspace.md).

Invariant: a turn is cut off once for an advisory, and not when it began after that was said.
"""

from __future__ import annotations

import asyncio

import structlog

from relay.airspace.advisories import wording
from relay.airspace.advisories.protocol import AdvisoryProtocol, Steer
from relay.airspace.context import LiveContext
from relay.model import TurnsAtWork

log = structlog.get_logger(__name__)


class Interrupter:
    """Cuts off the turns of agents that cannot be asked before an edit, `airspace.interrupt_s` after a resolution
    told them to steer."""

    def __init__(self, context: LiveContext, protocol: AdvisoryProtocol, turns: TurnsAtWork) -> None:
        self._context, self._protocol, self._turns = context, protocol, turns
        self._looked = asyncio.Event()
        self._done: dict[tuple[str, str], float] = {}

    def look(self) -> None:
        """After each tick."""
        if self._due():
            self._looked.set()

    async def run(self) -> None:
        while True:
            await self._looked.wait()
            self._looked.clear()
            for agent, steer in self._due():
                self._done[(agent, steer.advisory)] = steer.since
                cut = await self._turns.interrupt(agent, wording.interrupted(steer.reason, steer.files))
                log.info("turn cut off for an advisory", agent=agent, advisory=steer.advisory, cut=cut)

    def _due(self) -> list[tuple[str, Steer]]:
        after, now = self._context.settings.interrupt_s, self._context.clock()
        standing = self._protocol.state.advisories
        self._done = {key: since for key, since in self._done.items() if key[1] in standing}
        return [
            (agent, steer)
            for agent, began in self._turns.working().items()
            if not self._turns.guarded(agent)
            for steer in self._protocol.steers(agent)
            if began < steer.since <= now - after and self._done.get((agent, steer.advisory)) != steer.since
        ]
