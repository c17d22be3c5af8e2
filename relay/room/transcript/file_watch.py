"""Says when a file may have changed.

On Linux the kernel wakes us (inotify), so an idle room takes no processor time for it and a line is seen at once.
Elsewhere watchfiles looks `STEP_MS` after `STEP_MS`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

#: Milliseconds in which watchfiles gathers changes before it wakes us; each is a wake-up of an idle room too.
STEP_MS = 10


async def changes(path: Path) -> AsyncIterator[None]:
    """Yields when the file may have changed; ends when another file has its name. Raises FileNotFoundError, OSError
    (the system's limit, say), RuntimeError."""
    watched = await asyncio.to_thread(_inode, path)
    if sys.platform == "linux":
        from asyncinotify import Inotify, Mask

        with Inotify() as inotify:
            inotify.add_watch(path, Mask.MODIFY | Mask.ATTRIB | Mask.MOVE_SELF | Mask.DELETE_SELF)
            if await asyncio.to_thread(_inode, path) != watched:
                return
            async for event in inotify:
                yield
                # The watch is on the file, not on its name: it says nothing of the file that took its place.
                if event.mask != Mask.MODIFY and await asyncio.to_thread(_inode, path) != watched:
                    return
    else:
        from watchfiles import awatch

        async for _ in awatch(path, watch_filter=None, step=STEP_MS, debounce=50, recursive=False):
            yield
            if await asyncio.to_thread(_inode, path) != watched:
                return


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0  # missing, or out of reach: the tail says so
