"""Opens the room's store: the only place that knows which engines there are.

Invariant: an engine is imported when it is asked for, and only here.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from relay.config.settings import Settings
from relay.store.ports import Store, StoreError, StoreMissing


def no_address(settings: Settings) -> StoreError | None:
    """Why this process has no address of the database; None where it has one, or needs none. `open_store` refuses an
    address that is set and wrong."""
    if settings.storage != "postgres":
        return None
    from relay.store.postgres.address import VARIABLE, find_address

    if os.environ.get(VARIABLE, "").strip():
        return None
    try:
        find_address(settings.postgres.dsn_file)
    except StoreError as error:
        return error
    return None


async def daemon_of(settings: Settings) -> str:
    """The daemon of these settings' member on their database, as `pid N on HOST`; empty: there is none, or no server
    to ask.

    Raises StoreError.
    """
    if settings.storage != "postgres":
        return ""
    from relay.store.postgres.address import find_address
    from relay.store.postgres.connections import SCHEMA, Connections
    from relay.store.postgres.daemon_lock import holder_of

    wait_s = settings.postgres.connect_s
    address = find_address(settings.postgres.dsn_file)
    connection = await Connections(address, most=1, connect_s=wait_s, busy_timeout_s=wait_s).connect()
    try:
        holder = await holder_of(connection, SCHEMA, settings.member_name)
    finally:
        connection.terminate()
    return "" if holder is None else str(holder)


async def open_store(
    settings: Settings, wings: Iterable[Path] = (), *, create: bool = True, keeper: bool = False
) -> Store:
    """The store of these settings, migrated for the given wing folders (none: as it was found).

    `keeper`: this process is the room's daemon. It saves what is in the files if they are removed beneath it; of a
    database on a server it is the only daemon of its name until the store is closed.

    Raises StoreMissing when there is none and `create` is False, AnotherDaemon where another process is the
    daemon, and StoreError when it cannot be used.
    """
    if settings.storage == "postgres":
        from relay.store.postgres import store as postgres_store
        from relay.store.postgres.address import find_address

        return await postgres_store.open_store(
            find_address(settings.postgres.dsn_file),
            wings,
            create=create,
            connections=settings.postgres.pool,
            connect_s=settings.postgres.connect_s,
            member=settings.member_name if keeper else None,
        )
    if settings.storage != "sqlite":
        raise StoreError(f"storage {settings.storage!r} is unknown; one of: postgres, sqlite")
    from relay.store.sqlite import files, store

    if not create and not settings.db_path.exists():
        files.refuse_saved(settings.db_path)
        raise StoreMissing(f"there is no database at {settings.db_path} yet")
    return await store.open_store(settings.db_path, wings, keeper=keeper)


@asynccontextmanager
async def opened_store(
    settings: Settings, wings: Iterable[Path] = (), *, create: bool = True, keeper: bool = False
) -> AsyncIterator[Store]:
    """As `open_store`, and closed at the end."""
    store = await open_store(settings, wings, create=create, keeper=keeper)
    try:
        yield store
    finally:
        await store.close()


def has_saved(settings: Settings) -> bool:
    """Did a daemon save a copy of a database whose files were removed or replaced beneath it?"""
    if settings.storage != "sqlite":
        return False
    from relay.store.sqlite import files

    return files.saved_path(settings.db_path).exists()


def put_back(settings: Settings) -> str | None:
    """Put the saved copy in the database's place; what was done, None where there is nothing to do. No process may
    have the database open."""
    from relay.store.sqlite import files

    return files.put_back(settings.db_path)
