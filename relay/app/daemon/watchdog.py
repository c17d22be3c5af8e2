"""Reports an event loop that is blocked, with the stack that blocks it.

Invariant: the loop only notes when it begins and ends to wait for something, and a thread of its own looks whether it
has been busy for too long; so it sees what the loop cannot say about itself, and wakes nobody in a room where nothing
happens.
"""

from __future__ import annotations

import asyncio
import selectors
import sys
import threading
import time
import traceback

import structlog

log = structlog.get_logger(__name__)
BLOCKED_S = 0.1
#: Seconds between two looks: a block of `BLOCKED_S` and this is always seen.
EVERY_S = 0.1


class Watchdog:
    """`lag_s` is the longest that the loop was busy at once since it was last asked for; `blocks` counts reports."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # asyncio has no public name for what its loop waits in; the tests of this module would fail at once.
        self._selector: selectors.BaseSelector = loop._selector  # type: ignore[attr-defined]
        self._loop_thread = threading.get_ident()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        #: Since when the loop has been busy; None while it waits.
        self._busy_since: float | None = time.monotonic()
        self._lag_s = 0.0
        self.blocks = 0

    def start(self) -> None:
        """Begin; on the loop's own thread."""
        self._selector.select = self._select  # type: ignore[method-assign]
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        del self._selector.select
        self._thread.join(1.0)

    def take_lag(self) -> float:
        lag, self._lag_s = self._lag_s, 0.0
        return lag

    def _select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._busy_since is not None:
            self._lag_s = max(self._lag_s, time.monotonic() - self._busy_since)
        self._busy_since = None
        try:
            return type(self._selector).select(self._selector, timeout)
        finally:
            self._busy_since = time.monotonic()

    def _run(self) -> None:
        while not self._ended.wait(EVERY_S):
            since = self._busy_since
            if since is None or time.monotonic() - since < BLOCKED_S:
                continue
            frame = sys._current_frames().get(self._loop_thread)
            stack = "".join(traceback.format_stack(frame)) if frame else ""
            while self._busy_since == since and not self._ended.wait(EVERY_S / 10):
                pass
            self.blocks += 1
            log.warning("event loop blocked", seconds=round(time.monotonic() - since, 3), stack=stack)
