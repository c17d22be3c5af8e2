"""Reports an event loop that is blocked, with the stack that blocks it.

Invariant: the loop only leaves a sign of life, and a thread of its own looks whether it is overdue; so it sees
what the loop cannot say about itself, and wakes nobody in a room where nothing happens.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback

import structlog

log = structlog.get_logger(__name__)
BLOCKED_S = 0.1
#: Seconds between two signs of life, and between two looks: a block of `BLOCKED_S` and two of these is always seen.
EVERY_S = 0.05


class Watchdog:
    """`lag_s` is by how much a sign of life was late since it was last asked for; `blocks` counts reports."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self._due = time.monotonic()
        self._next: asyncio.TimerHandle | None = None
        self._lag_s = 0.0
        self.blocks = 0

    def start(self) -> None:
        """Begin; on the loop's own thread."""
        self._live()
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        if self._next is not None:
            self._next.cancel()
        self._thread.join(1.0)

    def take_lag(self) -> float:
        lag, self._lag_s = self._lag_s, 0.0
        return lag

    def _live(self) -> None:
        now = time.monotonic()
        self._lag_s = max(self._lag_s, now - self._due)
        self._due = now + EVERY_S
        if not self._ended.is_set():
            self._next = self._loop.call_later(EVERY_S, self._live)

    def _run(self) -> None:
        while not self._ended.wait(EVERY_S):
            due = self._due
            if time.monotonic() - due < BLOCKED_S:
                continue
            frame = sys._current_frames().get(self._loop_thread)
            stack = "".join(traceback.format_stack(frame)) if frame else ""
            while self._due == due and not self._ended.wait(EVERY_S / 5):
                pass
            self.blocks += 1
            log.warning("event loop blocked", seconds=round(time.monotonic() - due, 3), stack=stack)
