"""Plain sqlite3 with the same statements and the same commits as relay: what relay sent to SQLite is sent again.

Invariant: what is sent again meets a copy of the database as it stood when it was recorded, so each statement finds
and changes the same rows. To record costs a statement less than a microsecond, which is relay's.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from relay.store.sqlite.reader import add_functions

#: Each statement in its order: the connection it was sent on, its text and its values.
Sent = list[tuple[int, str, Any]]


@contextmanager
def recorded() -> Iterator[Sent]:
    """Each connection that is opened in it notes its statements, then too when it is over."""
    sent: Sent = []
    connect = sqlite3.connect

    class Recorder(sqlite3.Connection):
        def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
            done = super().execute(sql, parameters)
            sent.append((id(self), sql, parameters))  # what failed is tried again
            return done

    with mock.patch("sqlite3.connect", lambda *args, **options: connect(*args, factory=Recorder, **options)):
        yield sent


class Plain:
    """Connections with the store's settings and nothing of the store."""

    def __init__(self, path: Path, wings: Sequence[Path]) -> None:
        self._path, self._wings = path, wings
        self._connections: dict[int, sqlite3.Connection] = {}

    def send(self, sent: Sent) -> float:
        """The seconds that all of it takes, with its rows; without what the store asks for itself (PRAGMA)."""
        whole = [
            (self._connection(number).execute, sql, parameters)
            for number, sql, parameters in sent
            if not sql.startswith("PRAGMA")
        ]
        began = time.perf_counter()
        for execute, sql, parameters in whole:
            execute(sql, parameters).fetchall()
        return time.perf_counter() - began

    def _connection(self, number: int) -> sqlite3.Connection:
        if number not in self._connections:
            made = sqlite3.connect(self._path, isolation_level=None, cached_statements=512)
            made.execute("PRAGMA journal_mode=WAL")
            made.execute("PRAGMA synchronous=NORMAL")
            for pragma in (
                "foreign_keys=ON",
                "wal_autocheckpoint=0",
                "cache_size=-16000",
                "temp_store=MEMORY",
            ):
                made.execute(f"PRAGMA {pragma}")
            add_functions(made, self._wings)
            self._connections[number] = made
        return self._connections[number]

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
