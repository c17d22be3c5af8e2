"""Reports an event loop that is blocked, with the stack that blocks it.

Invariants: it runs on a thread of its own, so it sees what the loop cannot say about itself; and it leaves a
loop alone that waits for something to do, so that an idle room stays idle: only one that is found at work is
asked to answer.
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
#: Seconds between two looks.
EVERY_S = 0.05


class Watchdog:
    """`lag_s` is the longest answer of the loop to a ping since it was last asked for; `blocks` counts reports."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, blocked_s: float = BLOCKED_S) -> None:
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._blocked_s = blocked_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self._lag_s = 0.0
        self.blocks = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(1.0)

    def take_lag(self) -> float:
        lag, self._lag_s = self._lag_s, 0.0
        return lag

    def _run(self) -> None:
        answered = threading.Event()
        while not self._ended.wait(EVERY_S):
            if self._waiting():
                continue
            answered.clear()
            asked = time.monotonic()
            try:
                self._loop.call_soon_threadsafe(answered.set)
            except RuntimeError:
                return  # the loop is closed
            stack = None
            if not answered.wait(self._blocked_s):
                frame = sys._current_frames().get(self._loop_thread)
                stack = "".join(traceback.format_stack(frame)) if frame else ""
                while not answered.wait(1.0) and not self._ended.is_set():
                    pass
            took = time.monotonic() - asked
            self._lag_s = max(self._lag_s, took)
            if stack is not None:
                self.blocks += 1
                log.warning("event loop blocked", seconds=round(took, 3), stack=stack)

    def _waiting(self) -> bool:
        """Does the loop stand in its selector, waiting for something to do?"""
        frame = sys._current_frames().get(self._loop_thread)
        return frame is not None and frame.f_code.co_filename == selectors.__file__
