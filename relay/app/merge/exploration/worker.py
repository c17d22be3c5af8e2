"""Carries the open explorations of a running room.

Invariant: each exploration has one task at most. What fails is said in the log and tried again; what waits for people
has no task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from relay.airspace.worktrees.registry import WorktreeRegistry
from relay.app.merge.exploration.explorer import BusyElsewhere, Explorer, ExplorerParts
from relay.app.merge.exploration.winner import VerifyTree, merge_by_git
from relay.checks.runner import CheckRunner
from relay.config.settings import LiveSettings
from relay.merge.exploration import journal
from relay.merge.exploration.journal import TYPES, State
from relay.store.ports import Store, StoreError, is_away
from relay.store.wakeup import go_on

log = structlog.get_logger(__name__)
#: Seconds between two looks when nothing wakes it: while one is open, and while none is.
POLL_S, IDLE_S = 5.0, 60.0


class ExplorationWorker:
    """Carries the explorations of one room. `tell`: is called whenever one stands otherwise; `verify`: as of
    `merge_by_git`."""

    def __init__(
        self,
        store: Store,
        settings: LiveSettings,
        registry: WorktreeRegistry,
        tell: Callable[[], None] = lambda: None,
        verify: VerifyTree | None = None,
    ) -> None:
        self._store, self._settings, self._registry, self._tell = store, settings, registry, tell
        self._verify = verify
        self._explorer: Explorer | None = None
        self._running: dict[int, asyncio.Task[None]] = {}

    async def _made(self) -> Explorer | None:
        """What carries them; None while the repository is not known. What a killed process left of exports is removed
        first."""
        registry = self._registry
        if self._explorer is None and registry.main is not None:
            folder = self._settings.current.runtime_dir / "exploration-checks"
            runner = CheckRunner(self._store, registry.scratch.git(registry.main), folder)
            await runner.clean()
            merge = merge_by_git(registry, self._verify)
            parts = ExplorerParts(self._store, self._settings, registry, runner, merge, tell=self._tell)
            self._explorer = Explorer(parts)
        return self._explorer

    async def run(self) -> None:
        """Go on with what is open, for ever."""
        await go_on(self._store.wakeup(TYPES), self.look, self._running, POLL_S, IDLE_S)

    async def look(self) -> bool:
        """Begin what can be done now. Is any open that waits for nobody?"""
        for number in [number for number, task in self._running.items() if task.done()]:
            del self._running[number]
        there = [
            each.number
            for each in await self._store.read(journal.open_explorations)
            if each.state is not State.WAITING
        ]
        explorer = await self._made()
        for number in there:
            if explorer is not None and number not in self._running:
                task = asyncio.create_task(self._go(explorer, number), name=f"exploration-{number}")
                self._running[number] = task
        return bool(there)

    async def _go(self, explorer: Explorer, number: int) -> None:
        try:
            await explorer.go(number)
        except BusyElsewhere:
            log.debug("exploration is carried by another process", exploration=number)
        except (StoreError, self._store.transient) as error:
            if not is_away(error):
                log.warning("exploration put off", exploration=number, reason=str(error))
        except Exception:
            log.exception("exploration failed", exploration=number)
            await asyncio.sleep(POLL_S)
