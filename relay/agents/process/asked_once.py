"""What a program was asked, for as long as its file stays as it is."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class AskedOnce(Generic[T]):
    """One question to one program, which is asked again when its file has changed."""

    def __init__(self) -> None:
        self._asking = asyncio.Lock()
        self._known: tuple[tuple[str, int, int], T] | None = None

    async def answer(self, path: str, ask: Callable[[], Awaitable[T | None]]) -> T | None:
        """The answer of the program at `path`; None = it gave none, and is asked again the next time. Raises
        OSError when there is no such file."""
        async with self._asking:
            stat = await asyncio.to_thread(os.stat, path)
            key = (path, stat.st_mtime_ns, stat.st_size)
            if self._known is not None and self._known[0] == key:
                return self._known[1]
            answer = await ask()
            if answer is not None:
                self._known = (key, answer)
            return answer
