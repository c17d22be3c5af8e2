"""Make the jobs of a daemon that died pending again."""

from __future__ import annotations

import asyncio
import contextlib
import math

import structlog
from aiohttp import web

from relay.app.fleet.fleet import Fleet
from relay.config.settings import LiveSettings
from relay.coordination import attached
from relay.room.dispatch.recovery import recover_stale_active, skip_unknown
from relay.room.dispatch.roster import Roster
from relay.room.dispatch.running import RunningTurns
from relay.store.ports import Store, Tx

log = structlog.get_logger(__name__)
#: Seconds between two looks for jobs whose holder has died.
RECOVER_EVERY_S = 30.0


class Recovery:
    """`holder` is how this daemon signs its own jobs."""

    def __init__(
        self,
        store: Store,
        settings: LiveSettings,
        turns: RunningTurns,
        holder: str,
        fleet: Fleet,
        roster: Roster,
    ) -> None:
        self._store, self._settings, self._turns, self._holder = store, settings, turns, holder
        self._fleet, self._roster = fleet, roster
        self._soon = asyncio.Event()

    def soon(self) -> None:
        """Another member may be gone: look at once."""
        self._soon.set()

    async def recover(self) -> None:
        """Make the jobs of dead daemons pending again, and skip those of agents that are not there any more. Once."""

        async def work(tx: Tx) -> int:
            now = self._fleet.now()
            jobs = await recover_stale_active(
                tx,
                now=now,
                stale_after_s=self._stale_after_s,
                holder=self._holder,
                is_dead=await self._fleet.is_dead(tx),
                running=self._turns.jobs,
            )
            # What waits for a person's own session ends with that one (relay/app/attach/desk.py).
            await skip_unknown(tx, [*self._roster.names, *await attached.names(tx)], now=now)
            return len(jobs)

        recovered = await self._store.write(work)
        if recovered:
            log.info("jobs of a dead daemon are pending again", jobs=recovered)

    @property
    def _stale_after_s(self) -> float:
        # Of members, their signs of life tell who is gone, and the clocks of machines differ.
        return self._settings.current.queue.stale_after_s if self._fleet.alone else math.inf

    async def run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RECOVER_EVERY_S):
                    await self._soon.wait()
            self._soon.clear()
            await self.recover()

    async def repair(self, _request: web.Request) -> web.Response:
        """`healthcheck.sh --repair` with a live daemon comes here, so that one process repairs."""
        from relay.app.health.repair import repair_live

        repaired = await repair_live(
            self._store,
            self._settings.current,
            self._fleet.now(),
            holder=self._holder,
            running=lambda: self._turns.jobs,
            dead=self._fleet.is_dead,
            stale_after_s=self._stale_after_s,
        )
        return web.json_response({"repaired": [repair.as_json() for repair in repaired]})
