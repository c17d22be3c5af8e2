"""Holds Python's search for cycles of garbage back while many values are made that have none.

Invariant: the search goes on after the block, also after an error. It is the process's: other threads wait with their
cycles for as long.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_back() -> Iterator[None]:
    """Working sets and assessments have no cycles. To look through them after every 700 that are made takes a third
    of a scan, and of reading records (measured: 1,000 agents)."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
