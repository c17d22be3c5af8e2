"""What both stores need beside SQL: wake-ups within a process, and side tasks that go on.

Invariant: a commit between two waits is not missed; a side task that fails says so and begins anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Coroutine
from typing import Any

import structlog

log = structlog.get_logger(__name__)
#: Seconds after which a side task that failed begins anew: at first, and at most (twice as long each time).
SIDE_RETRY_S = (0.5, 60.0)


class Subscribers:
    """The wake-ups of this process that wait for commits."""

    def __init__(self) -> None:
        self._first: set[Wakeup] = set()
        self._others: set[Wakeup] = set()

    def wakeup(self, types: Collection[str] | None = None, first: bool = False) -> Wakeup:
        """`first`: it is woken before the others. What it reads then stands before what they read."""
        among = self._first if first else self._others
        wakeup = Wakeup(among, types)
        among.add(wakeup)
        return wakeup

    def notify(self, types: Collection[str] | None = None) -> None:
        """Events of these types were committed (empty: a change without an event); None: the types are unknown."""
        for wakeup in (*self._first, *self._others):
            if types is None or wakeup.types is None or not wakeup.types.isdisjoint(types):
                wakeup.notify()


class Wakeup:
    """A hint that something was committed, here or in another process. Spurious and merged wake-ups are normal: the
    read decides. It holds a flag, so a commit between two waits is not missed."""

    def __init__(self, subscribers: set[Wakeup], types: Collection[str] | None = None) -> None:
        #: Whom it wakes for; None: for every commit.
        self.types = None if types is None else frozenset(types)
        self._flag = asyncio.Event()
        self._subscribers = subscribers

    def notify(self) -> None:
        self._flag.set()

    async def wait(self, timeout_s: float | None = None) -> bool:
        """True when something was committed, False when `timeout_s` seconds passed without."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._flag.wait()
        except TimeoutError:
            return False
        self._flag.clear()
        return True

    def close(self) -> None:
        self._subscribers.discard(self)


async def go_on(
    wakeup: Wakeup,
    look: Callable[[], Coroutine[Any, Any, bool]],
    running: dict[int, asyncio.Task[None]],
    poll_s: float,
    idle_s: float,
) -> None:
    """Look at every wake-up, for ever, and after `poll_s` seconds while a look tells that something is open, else
    after `idle_s`. At the end all that is `running` is cancelled."""
    try:
        with contextlib.closing(wakeup):
            while True:
                await wakeup.wait(poll_s if await look() else idle_s)
    finally:
        for task in running.values():
            task.cancel()
        await asyncio.gather(*running.values(), return_exceptions=True)
        running.clear()


async def kept_up(name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a side task for as long as the store is open. An unexpected error is logged, and the task begins anew."""
    wait_s, most_s = SIDE_RETRY_S
    while True:
        began = time.monotonic()
        try:
            await run()
        except Exception:
            log.exception("a side task of the store failed", task=name, again_in_s=wait_s)
        await asyncio.sleep(wait_s)
        held = time.monotonic() - began > 2 * most_s
        wait_s = SIDE_RETRY_S[0] if held else min(2 * wait_s, most_s)
