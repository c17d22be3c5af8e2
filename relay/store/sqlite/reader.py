"""Reads a SQLite database of ours from a short program without an event loop: a hook.

Invariant: it only reads, makes no file and migrates nothing; one look is one consistent snapshot, the same that the
readers of `store.py` see. Only the standard library is imported.
"""

from __future__ import annotations

import importlib
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from relay.store.ports import Query, StoreError, StoreMissing, Work
from relay.store.sqlite.transaction import SqliteTx, drive

T = TypeVar("T")
#: Seconds that a look waits for a lock; in write-ahead mode a reader waits for next to nothing.
BUSY_S = 2.0


class _ReadTx(SqliteTx):
    """`relay.store.ports.Tx` over an open connection that cannot write."""

    __slots__ = ()

    async def execute(self, query: Query, **params: Any) -> int:
        raise StoreError(f"{query.name} writes, and this is a look")

    async def many(self, query: Query, rows: Sequence[Mapping[str, Any]]) -> None:
        await self.execute(query)


def add_functions(connection: sqlite3.Connection, wings: Iterable[Path]) -> None:
    """Give the connection the SQL functions of these wings.

    A wing that has some says so in `sqlite_functions.py`: `FUNCTIONS` has for each name the number of its arguments
    and a pure function over SQL's values.
    """
    for folder in wings:
        if (folder / "sqlite_functions.py").exists():
            module = importlib.import_module(f"relay.{folder.name}.sqlite_functions")
            for name, (arguments, function) in module.FUNCTIONS.items():
                connection.create_function(name, arguments, function, deterministic=True)


def look(
    path: Path, work: Work[T], *, wings: Iterable[Path] = (), clock: Callable[[], float] = time.time
) -> T:
    """Run `work` on one snapshot of the database at `path`, with the SQL functions of these wings. Blocks.

    Raises StoreMissing when there is no such file, StoreError when it cannot be read.
    """
    if not path.is_file():
        raise StoreMissing(f"there is no database at {path}")
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None)) as connection:
            connection.row_factory = sqlite3.Row
            add_functions(connection, wings)
            connection.execute("BEGIN")
            return drive(work, _ReadTx(connection, clock))
    except sqlite3.Error as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
