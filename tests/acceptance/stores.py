"""The stores that a room is tested on from outside: what its configuration and its environment say of each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

Where = tuple[Mapping[str, Any], Mapping[str, str]]


@asynccontextmanager
async def _sqlite(_folder: Path) -> AsyncIterator[Where]:
    yield {}, {}


#: By name: keys of config.json and environment variables that put a room on this store.
STORES: dict[str, Callable[[Path], AbstractAsyncContextManager[Where]]] = {"sqlite": _sqlite}
