"""Keeps a thread on the processor of the thread that waits for it.

The system would rather wake it on an idle processor. On a virtual machine that costs tens of microseconds each way,
and what the one has read is not in the other's cache.

Invariant: it is for two threads of which one waits. Where the system cannot do it (it is Linux's), the threads stay
where it puts them.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress


class SharedProcessor:
    """Where a thread, by its native number, may run; asked and told on the thread that waits for it."""

    def __init__(self, thread: int | None) -> None:
        self._thread = thread
        # Not by CDLL, which lets go of the interpreter for the call: a microsecond, and another thread runs.
        self._here: Callable[[], int] | None = getattr(ctypes.PyDLL(None), "sched_getcpu", None)
        self._at: int | None = None
        if thread is None or not hasattr(os, "sched_setaffinity"):
            self._here = None

    def share(self) -> None:
        """Let it run here only, where the calling thread runs now."""
        if self._here is not None and (here := self._here()) != self._at and here >= 0:
            self._allow({here})
            self._at = here

    def leave(self) -> None:
        """Let it run wherever the calling thread may."""
        if self._at is not None:
            self._allow(None)
            self._at = None

    def _allow(self, processors: set[int] | None) -> None:
        """None: as the calling thread."""
        with suppress(OSError, ValueError):  # a processor was taken away meanwhile, say
            os.sched_setaffinity(self._thread or 0, processors or os.sched_getaffinity(0))
