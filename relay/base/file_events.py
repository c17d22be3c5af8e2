"""Tells an event loop that files were written, moved or removed, as soon as the kernel knows it: inotify, on Linux.

Invariant: it is a hint. Where it cannot be had (another system, the system's limit) nothing is told, and the caller
looks by the clock.

Not by a library: asyncinotify 4.4.4 and inotify_simple 2.0.1 start programs (ldconfig, a compiler) to find the C
library at each start, and the first one's descriptor blocks.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

#: Written; its name was removed, or another attribute changed; renamed; gone (inotify(7)).
_MASK = 0x2 | 0x4 | 0x800 | 0x400
#: Of a folder: a name was made in it, or moved into it.
_NAMES = 0x100 | 0x80
#: The kernel has dropped a watch: its file is gone.
_IGNORED = 0x8000
_BYTES = 65536
#: Before the name of an event: its watch, mask, cookie, and the name's length.
_HEAD = struct.Struct("iIII")


class FileEvents:
    """What happens to these files (not to others that come under their names). `works`: something is told, until one
    of them is gone. `names`: they are folders, and only new names in them are told."""

    def __init__(self, paths: Iterable[Path], *, names: bool = False) -> None:
        self._fd = -1
        libc = ctypes.CDLL(None)
        paths = list(paths)
        if not paths or not hasattr(libc, "inotify_init1"):
            return
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        mask = _NAMES if names else _MASK
        told = [libc.inotify_add_watch(self._fd, os.fsencode(path), mask) for path in paths]
        if min(told) < 0:
            self.close()

    @property
    def works(self) -> bool:
        return self._fd >= 0

    async def wait(self, timeout_s: float) -> bool:
        """Whether something happened since the last time, within so many seconds."""
        if not self.works:
            await asyncio.sleep(timeout_s)
            return False
        loop, told = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._fd, told.set)
        try:
            async with asyncio.timeout(timeout_s):
                await told.wait()
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(self._fd)
        with suppress(BlockingIOError):
            if any(mask & _IGNORED for mask in _masks(os.read(self._fd, _BYTES))):
                self.close()
        return True

    def close(self) -> None:
        if self.works:
            os.close(self._fd)
            self._fd = -1


def _masks(told: bytes) -> Iterator[int]:
    at = 0
    while at < len(told):
        _, mask, _, length = _HEAD.unpack_from(told, at)
        yield mask
        at += _HEAD.size + length
