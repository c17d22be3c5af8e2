"""Opens the room's store: the only place that knows which engines there are.

Invariant: an engine is imported when it is asked for, and only here.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from relay.log.store import Store, StoreError, StoreMissing


class Storage(Protocol):
    """Where the settings say that events are kept."""

    @property
    def storage(self) -> str: ...

    @property
    def db_path(self) -> Path: ...


async def open_store(where: Storage, wings: Iterable[Path] = (), *, create: bool = True) -> Store:
    """The store of these settings, migrated for the given wing folders (none: as it was found).

    Raises StoreMissing when there is none and `create` is False, StoreError when it cannot be used.
    """
    if where.storage != "sqlite":
        raise StoreError(f"storage {where.storage!r} is unknown; one of: sqlite")
    from relay.log import sqlite_store

    if not create and not where.db_path.exists():
        raise StoreMissing("there is no database yet")
    return await sqlite_store.open_store(where.db_path, wings)
