"""Make the jobs of a daemon that died pending again."""

from __future__ import annotations

import asyncio
import time

import structlog
from aiohttp import web

from relay.app.runtime.instance import holder_is_dead
from relay.config.settings import LiveSettings
from relay.room.dispatch.recovery import recover_stale_active, skip_unknown
from relay.room.dispatch.running import RunningTurns
from relay.store.ports import Store, Tx

log = structlog.get_logger(__name__)
#: Seconds between two looks for jobs whose holder has died.
RECOVER_EVERY_S = 30.0


class Recovery:
    """`holder` is how this daemon signs its own jobs."""

    def __init__(self, store: Store, settings: LiveSettings, turns: RunningTurns, holder: str) -> None:
        self._store, self._settings, self._turns, self._holder = store, settings, turns, holder

    async def recover(self) -> None:
        """Make the jobs of dead daemons pending again, and skip those of agents that are not there any more. Once."""
        settings = self._settings.current

        async def work(tx: Tx) -> int:
            jobs = await recover_stale_active(
                tx,
                now=time.time(),
                stale_after_s=settings.queue.stale_after_s,
                holder=self._holder,
                is_dead=holder_is_dead,
                running=self._turns.jobs,
            )
            await skip_unknown(tx, settings.agent_names, now=time.time())
            return len(jobs)

        recovered = await self._store.write(work)
        if recovered:
            log.info("jobs of a dead daemon are pending again", jobs=recovered)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(RECOVER_EVERY_S)
            await self.recover()

    async def repair(self, _request: web.Request) -> web.Response:
        """`healthcheck.sh --repair` with a live daemon comes here, so that one process repairs."""
        from relay.app.health.repair import repair_live

        repaired = await repair_live(
            self._store,
            self._settings.current,
            time.time(),
            holder=self._holder,
            running=lambda: self._turns.jobs,
            is_dead=holder_is_dead,
        )
        return web.json_response({"repaired": [repair.as_json() for repair in repaired]})
