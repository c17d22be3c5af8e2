"""Tells an event loop that files were written, moved or removed, as soon as the kernel knows it: inotify, on Linux.

Invariant: it is a hint. Where it cannot be had (another system, the system's limit) nothing is told, and the caller
looks by the clock.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


class FileEvents:
    """What happens to these files (not to others that come under their names). `works`: something is told."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.works = False
        if sys.platform != "linux":
            return
        from asyncinotify import Inotify, Mask

        with suppress(OSError):
            self._inotify = Inotify()
            self.works = True
            try:
                for path in paths:
                    mask = Mask.MODIFY | Mask.ATTRIB | Mask.MOVE_SELF | Mask.DELETE_SELF
                    self._inotify.add_watch(path, mask)
            except OSError:
                self.close()

    async def wait(self, timeout_s: float) -> bool:
        """Whether something happened since the last time, within so many seconds."""
        if not self.works:
            await asyncio.sleep(timeout_s)
            return False
        try:
            async with asyncio.timeout(timeout_s):
                await self._inotify.get()
        except TimeoutError:
            return False
        with suppress(BlockingIOError):
            while True:  # all that was told until now is one
                self._inotify.sync_get()
        return True

    def close(self) -> None:
        if self.works:
            self.works = False
            self._inotify.close()
