"""The callback that hears how a call waits: an interface that can send progress sets it, operations read it.

Invariant: progress is optional. A call without it waits the same.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

#: Takes one sentence on how the wait stands, each time that it changes. None: nobody wants to know.
HEARD: ContextVar[Callable[[str], None] | None] = ContextVar("relay_wait_heard", default=None)
