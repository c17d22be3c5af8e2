"""A feed of the agents whose working sets changed.

Invariant: nothing is lost between two looks and nothing piles up: names are gathered until they are asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable


class ChangeFeed:
    """Names of agents whose working sets changed. `async for names in feed`; `close` when done."""

    def __init__(self, group: set[ChangeFeed]) -> None:
        self._group = group
        self._names: set[str] = set()
        self._told = asyncio.Event()
        group.add(self)

    def tell(self, names: Iterable[str]) -> None:
        self._names.update(names)
        self._told.set()

    async def next(self) -> frozenset[str]:
        """The names since the last call; waits for one."""
        await self._told.wait()
        self._told.clear()
        names, self._names = frozenset(self._names), set()
        return names

    async def __aiter__(self) -> AsyncIterator[frozenset[str]]:
        while True:
            yield await self.next()

    def close(self) -> None:
        self._group.discard(self)
