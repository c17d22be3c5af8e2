"""Says when a file may have changed.

Where the kernel tells of it, an idle room takes no processor time for it and a line is seen at once. Elsewhere
watchfiles looks `STEP_MS` after `STEP_MS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import closing
from pathlib import Path

from relay.base.file_events import FileEvents

#: Milliseconds in which changes are gathered behind the first. With watchfiles each is a wake-up of an idle room too.
STEP_MS = 10
#: Seconds after which a file of which nothing is heard is looked for under its name.
UNHEARD_S = 60.0


async def changes(path: Path) -> AsyncGenerator[None, None]:
    """Yields when the file may have changed; ends when another file has its name. One that is missing is waited for,
    where the kernel tells of new names. Raises FileNotFoundError, OSError (the system's limit, say), RuntimeError."""
    with closing(FileEvents([path.parent], names=True)) as names:
        missing = False
        while not (watched := await asyncio.to_thread(_inode, path)) and names.works:
            missing = True
            await names.wait(UNHEARD_S)
    if missing:
        yield
    with closing(FileEvents([path])) as events:
        heard = events.works
        # The watch is on the file, not on its name: it says nothing of the file that took its place.
        while events.works:
            if await asyncio.to_thread(_inode, path) != watched:
                return
            if await events.wait(UNHEARD_S):
                yield
                # Who writes line after line wakes us for some of them together.
                await asyncio.sleep(STEP_MS / 1000)
        if heard:
            return
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
