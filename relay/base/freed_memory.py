"""Memory that was freed, and that the C library keeps for what comes next."""

from __future__ import annotations

import ctypes


def trim() -> None:
    """Give it back to the system, where the C library can (glibc, malloc_trim(3)). Takes some milliseconds."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
