"""Who wants to hear how a call waits: set by a door that can say something before it answers, asked by operations.

Invariant: what is told is a courtesy; who cannot hear it waits the same.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

#: Takes one sentence on how the wait stands, each time that it changes. None: nobody wants to know.
HEARD: ContextVar[Callable[[str], None] | None] = ContextVar("relay_wait_heard", default=None)
