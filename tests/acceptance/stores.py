"""The stores that a room is tested on from outside: what its configuration and its environment say of each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from relay.store.postgres.address import VARIABLE
from tests import postgres

Where = tuple[Mapping[str, Any], Mapping[str, str]]


@asynccontextmanager
async def _sqlite(_folder: Path) -> AsyncIterator[Where]:
    yield {}, {}


@asynccontextmanager
async def _postgres(_folder: Path) -> AsyncIterator[Where]:
    """An empty database whose owner is no superuser and may make roles: what it does is under row-level security."""
    server = postgres.server()
    name = server.new_database()
    server.own(name, "relay_room", "CREATEROLE")
    try:
        yield {"storage": "postgres"}, {VARIABLE: server.dsn(name, "relay_room")}
    finally:
        server.drop_database(name)


#: By name: keys of config.json and environment variables that put a room on this store.
STORES: dict[str, Callable[[Path], AbstractAsyncContextManager[Where]]] = {
    "sqlite": _sqlite,
    "postgres": _postgres,
}
