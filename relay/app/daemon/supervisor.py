"""Long-running tasks that are started again when they fail.

Invariant: a task of the daemon never disappears. A failure is an event, a line in the log and a line in the health.
The task starts again after a wait that doubles, and that is short again after a while without failure. While the
database is away all tasks fail together: only the health says so, since the store logs it once for all.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import structlog

from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.store.ports import Store, is_away

log = structlog.get_logger(__name__)
FAILED = "task.failed"
FIRST_WAIT_S = 0.2
LONGEST_WAIT_S = 30.0
#: As long as the store's own listener waits at most before it tries to connect again.
LONGEST_AWAY_S = 5.0
#: Seconds after which a task that runs again begins anew with a short wait.
SETTLED_S = 60.0
#: Seconds that a task must run again before the room counts as well.
WELL_S = 5.0


@dataclass(frozen=True, slots=True)
class Trouble:
    """A task that has failed and is started again. `since`: when it began to run again, on the monotonic
    clock in seconds; None while it waits for that."""

    task: str
    error: str
    times: int
    since: float | None = None
    #: It is the database that is away.
    away: bool = False


class Supervisor:
    """Runs named coroutines for ever."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._troubles: dict[str, Trouble] = {}

    @property
    def troubles(self) -> list[Trouble]:
        """What has failed and does not run again yet, or only just; what failed last is last."""
        now = time.monotonic()
        return [
            trouble
            for trouble in self._troubles.values()
            if trouble.since is None or now - trouble.since < WELL_S
        ]

    def start(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        self._tasks[name] = asyncio.create_task(self._keep(name, run), name=name)

    async def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _keep(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        wait = FIRST_WAIT_S
        while True:
            began = time.monotonic()
            if name in self._troubles:
                self._troubles[name] = replace(self._troubles[name], since=began)
            try:
                await run()
                return
            except Exception as error:
                if time.monotonic() - began > SETTLED_S:
                    wait = FIRST_WAIT_S
                text = self._note(name, error)
                away = is_away(error)
                if not away:
                    log.exception("task failed", task=name, again_in_s=wait)
                    await self._record(name, text)
            await asyncio.sleep(wait)
            wait = min(wait * 2, LONGEST_AWAY_S if away else LONGEST_WAIT_S)

    def _note(self, name: str, error: Exception) -> str:
        causes = error.exceptions if isinstance(error, ExceptionGroup) else (error,)
        away = is_away(error)
        # One database that is away is one trouble, however each that waits for it met it.
        text = "; ".join(dict.fromkeys(_error_text(cause) for cause in (causes[-1:] if away else causes)))
        before = self._troubles.pop(name, None)
        self._troubles[name] = Trouble(name, text, (before.times if before else 0) + 1, away=away)
        return text

    async def _record(self, name: str, text: str) -> None:
        lane = Lane("room", f"task:{name}:{time.time_ns()}", short=True)
        new = NewEvent(FAILED, lane, inputs={"task": name}, outputs={"error": text})
        try:
            await self._store.write(lambda tx: events.append(tx, new))
        except Exception as trouble:
            # The database may be what failed; the log and the health still say it.
            log.warning("failure not recorded", task=name, error=str(trouble))


def _error_text(error: BaseException) -> str:
    # A person is told what a store says; what else failed is told apart by its kind.
    return str(error) if is_away(error) else f"{type(error).__name__}: {error}"
