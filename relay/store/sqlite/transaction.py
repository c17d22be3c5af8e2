"""A transaction on an open SQLite connection: a write begins IMMEDIATE, a read sees one snapshot.

Invariants:
- it runs to its end on the connection's thread, so it never holds the write lock across an await of the event loop;
  awaiting anything but its `Tx` raises;
- we wait for another process's lock, not SQLite: its busy handler backs off to 100 ms, which starves a writer among
  twenty; short random waits are fair.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from relay.store.ports import AwaitedOutside, Query, Row, StoreBusy, Work, query_text

T = TypeVar("T")
DIALECT = "sqlite"
#: Waits, in seconds, between two tries for the write lock: random, so that no process is always late.
_WAIT_S = (0.0002, 0.002)


class SqliteTx:
    """`Tx` over an open connection. Its methods never suspend: they run on the connection's own thread."""

    __slots__ = ("_clock", "_connection", "_now", "appended")

    def __init__(self, connection: sqlite3.Connection, clock: Callable[[], float]) -> None:
        self._connection = connection
        self._clock = clock
        self._now: float | None = None
        #: The types of the appended events, by their places in the log.
        self.appended: dict[int, str] = {}

    async def now(self) -> float:
        if self._now is None:
            self._now = self._clock()
        return self._now

    def as_room(self) -> contextlib.AbstractAsyncContextManager[None]:
        return contextlib.nullcontext()

    async def execute(self, query: Query, **params: Any) -> int:
        ran = self._connection.execute(query_text(query, DIALECT), params)
        if query.name == "record_event" and ran.lastrowid is not None:
            self.appended[ran.lastrowid] = params["type"]
        return ran.rowcount

    async def one(self, query: Query, **params: Any) -> Row | None:
        row: Row | None = self._connection.execute(query_text(query, DIALECT), params).fetchone()
        if query.name == "put_event" and row is not None:
            self.appended[row["pos"]] = params["type"]
        return row

    async def all(self, query: Query, **params: Any) -> Sequence[Row]:
        return self._connection.execute(query_text(query, DIALECT), params).fetchall()

    async def many(self, query: Query, rows: Sequence[Mapping[str, Any]]) -> None:
        if not rows:
            return
        self._connection.executemany(query_text(query, DIALECT), rows)
        if query.name == "record_event":
            # One process writes at a time, so their places follow each other.
            last = self._connection.execute("SELECT last_insert_rowid()").fetchone()[0]
            first = last - len(rows) + 1
            self.appended.update({first + at: row["type"] for at, row in enumerate(rows)})


def drive(work: Work[T], tx: SqliteTx) -> T:
    """Run `work` to its end. Raises AwaitedOutside when it awaits anything but its `Tx`, and what it raises."""
    coroutine = work(tx)
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    coroutine.close()
    raise AwaitedOutside(
        f"the transaction {getattr(work, '__qualname__', work)!r} awaited something other than its Tx; "
        "do that before or after the transaction"
    )


def begin(connection: sqlite3.Connection, busy_timeout_s: float, give_up: float | None = None) -> None:
    """Take the write lock, trying once at least. `give_up`: on the monotonic clock, in seconds."""
    give_up = time.monotonic() + busy_timeout_s if give_up is None else give_up
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise
            if time.monotonic() >= give_up:
                raise StoreBusy(
                    f"the database was locked by another process for {busy_timeout_s:g} s; nothing was "
                    "changed, try again"
                ) from error
        time.sleep(random.uniform(*_WAIT_S))


def run_read(connection: sqlite3.Connection, work: Work[T], clock: Callable[[], float]) -> T:
    """Run `work` on one snapshot."""
    connection.execute("BEGIN")
    try:
        return drive(work, SqliteTx(connection, clock))
    finally:
        connection.execute("ROLLBACK")
