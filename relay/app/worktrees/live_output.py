"""What a program of a policy or of a worktree prints while it runs, for the people who look.

Invariant: it is told at most once in `EACH_S`, and what was printed last is always told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from relay.checks.bounded_output import BoundedOutput

#: Bytes of the newest output that are told; seconds between two times.
MOST, EACH_S = 20_000, 0.5


class LiveOutput:
    """Of one run. `tell` gets the newest of what it printed, on the event loop."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell, self._output = tell, BoundedOutput(MOST)
        self._next = 0.0
        self._due: asyncio.TimerHandle | None = None

    @property
    def text(self) -> str:
        # The tail follows the head without a gap until it is longer than what is told.
        return (self._output.head + self._output.tail)[-MOST:]

    def add(self, data: bytes) -> None:
        self._output.add(data)
        if self._due is None:
            loop = asyncio.get_running_loop()
            self._due = loop.call_at(max(loop.time(), self._next), self._say)

    def close(self) -> None:
        """The run is over: how it ended is told otherwise."""
        if self._due is not None:
            self._due.cancel()

    def _say(self) -> None:
        self._due = None
        self._next = asyncio.get_running_loop().time() + EACH_S
        self._tell(self.text)
