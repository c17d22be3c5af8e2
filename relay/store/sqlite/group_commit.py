"""Writes that waited together commit as one transaction; a write that waited alone is a transaction of its own.

Invariants:
- no write gets its answer before its COMMIT;
- each write of a group has its own savepoint: a write that raises is rolled back alone and gets its own error;
- where the whole group is lost (SQLite rolled it back, or the COMMIT failed) nothing of it is kept, and each write
  runs again by itself, with the answer that it would have got alone;
- a write that was cancelled before it began does not run.

All of it runs on the writer's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from relay.store.ports import StoreBusy, Work
from relay.store.sqlite.files import DatabaseFiles
from relay.store.sqlite.transaction import SqliteTx, begin, drive

T = TypeVar("T")
W = TypeVar("W")
#: Seconds after which no more writes of a group begin: the first one waits for the others, some 0.2 ms each. The sum
#: stays within the lag that the loop may have (25 ms, docs/figures.md).
GROUP_S = 0.01


@dataclass(slots=True, eq=False)
class PendingWrite:
    """A write that waits. `give_up`: until when it waits for the lock, in seconds of the monotonic clock.

    Its answer: `result` or `error`, the number of `rows` that it changed, and the types of the events that it
    appended, by their places in the log.
    """

    work: Work[Any]
    durable: bool
    give_up: float
    future: asyncio.Future[Any]
    alone: bool = False
    result: Any = None
    error: BaseException | None = None
    rows: int = 0
    appended: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Writer:
    """The connection that writes, its clock, how long (seconds) it waits for others' locks, and the files that it
    writes to: nothing is committed into removed ones."""

    connection: sqlite3.Connection
    clock: Callable[[], float]
    busy_timeout_s: float
    files: DatabaseFiles

    def carry_out(
        self, group: Sequence[PendingWrite]
    ) -> tuple[Sequence[PendingWrite], Sequence[PendingWrite]]:
        """Run these in their order; returns those that have their answer, and those that are next."""
        if len(group) < 2:
            for write in group:
                self._alone(write)
            return group, ()
        try:
            return self._synced(any(write.durable for write in group), self._together, group)
        except BaseException:
            # Each then runs by itself, which shows whose fault it was.
            for write in group:
                write.alone, write.result, write.error, write.rows, write.appended = True, None, None, 0, {}
            return (), group

    def _alone(self, write: PendingWrite) -> None:
        if write.future.cancelled():
            return
        try:
            write.result, write.rows, write.appended = self._synced(write.durable, self._transaction, write)
        except BaseException as error:
            write.error = error

    def _transaction(self, write: PendingWrite) -> tuple[Any, int, dict[int, str]]:
        begin(self.connection, self.busy_timeout_s, write.give_up)
        before = self.connection.total_changes
        tx = SqliteTx(self.connection, self.clock)
        try:
            result = drive(write.work, tx)
            self.files.check()
            self.connection.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        return result, self.connection.total_changes - before, tx.appended

    def _together(
        self, group: Sequence[PendingWrite]
    ) -> tuple[Sequence[PendingWrite], Sequence[PendingWrite]]:
        """As `carry_out`. Raises when the group is lost."""
        try:
            begin(self.connection, self.busy_timeout_s, min(write.give_up for write in group))
        except StoreBusy as busy:
            return _given_up(group, busy)
        until = time.monotonic() + GROUP_S
        done = 0
        try:
            for write in group:
                if done and time.monotonic() > until:
                    break
                if not write.future.cancelled():
                    self._in_savepoint(write)
                done += 1
            self.files.check()
            self.connection.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        return group[:done], group[done:]

    def _in_savepoint(self, write: PendingWrite) -> None:
        run = self.connection.execute
        run("SAVEPOINT one")
        before = self.connection.total_changes
        try:
            tx = SqliteTx(self.connection, self.clock)
            write.result = drive(write.work, tx)
            run("RELEASE one")
            write.rows, write.appended = self.connection.total_changes - before, tx.appended
        except BaseException as error:
            if not self.connection.in_transaction:
                raise  # a full disk, say: SQLite gave up the whole
            run("ROLLBACK TO one")
            run("RELEASE one")
            write.error = error

    def _roll_back(self) -> None:
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def _synced(self, durable: bool, transaction: Callable[[W], T], what: W) -> T:
        """Run the transaction; `durable`: it is on disk when this returns."""
        if not durable:
            return transaction(what)
        self.connection.execute("PRAGMA synchronous=FULL")
        try:
            return transaction(what)
        finally:
            # Where this fails, later writes are slower and as safe.
            with contextlib.suppress(sqlite3.Error):
                self.connection.execute("PRAGMA synchronous=NORMAL")


def _given_up(
    group: Sequence[PendingWrite], busy: StoreBusy
) -> tuple[Sequence[PendingWrite], Sequence[PendingWrite]]:
    """The writes whose time is over get the error; the later ones wait on."""
    now = time.monotonic()
    over = [write for write in group if write.give_up <= now]
    for write in over:
        write.error = StoreBusy(*busy.args)
    return over, [write for write in group if write.give_up > now]
