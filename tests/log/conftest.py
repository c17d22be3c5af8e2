"""The stores that the contract is tested on: a second engine joins by an entry in `OPENERS`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from relay.log import events, sqlite_store
from relay.log.store import Store

#: Opens one more store on the same database, with the tables of these wings.
Opener = Callable[[Sequence[Path]], Awaitable[Store]]


def _sqlite(folder: Path) -> Opener:
    return lambda wings: sqlite_store.open_store(folder / "events.db", wings)


#: By engine: given a folder of the test's own, an `Opener` of a database of its own.
OPENERS: dict[str, Callable[[Path], Opener]] = {"sqlite": _sqlite}


@pytest.fixture(params=sorted(OPENERS))
async def open_any(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opener]:
    """Opens stores of one engine on one database, as several processes would; closed when the test is over."""
    opener = OPENERS[request.param](tmp_path)
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
