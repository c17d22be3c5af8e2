"""The stores that the contract is tested on: an engine joins by an entry in `OPENERS`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager
from pathlib import Path

import pytest

from relay.log import events
from relay.store.ports import Store
from relay.store.postgres import store as postgres_store
from relay.store.sqlite import store as sqlite_store
from tests import postgres

#: Opens one more store on the same database, with the tables of these wings.
Opener = Callable[[Sequence[Path]], Awaitable[Store]]


@contextmanager
def _sqlite(folder: Path) -> Iterator[Opener]:
    yield lambda wings: sqlite_store.open_store(folder / "events.db", wings)


@contextmanager
def _postgres(folder: Path) -> Iterator[Opener]:
    server = postgres.server()
    database = server.new_database([events.FOLDER])
    try:
        yield lambda wings: postgres_store.open_store(server.address(database), wings)
    finally:
        server.drop_database(database)


#: By engine: given a folder of the test's own, an `Opener` of a database of its own.
OPENERS: dict[str, Callable[[Path], AbstractContextManager[Opener]]] = {
    "sqlite": _sqlite,
    "postgres": _postgres,
}


@pytest.fixture(params=sorted(OPENERS))
async def open_any(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opener]:
    """Opens stores of one engine on one database, as several processes would; closed when the test is over."""
    with OPENERS[request.param](tmp_path) as opener:
        async with AsyncExitStack() as opened:

            async def open_one(wings: Sequence[Path] = (events.FOLDER,)) -> Store:
                store = await opener(wings)
                opened.push_async_callback(store.close)
                return store

            yield open_one


@pytest.fixture
async def any_store(open_any: Opener) -> Store:
    """A new store with the log in it, of each engine in turn."""
    return await open_any((events.FOLDER,))
