"""The way of a write from the event loop to the writer's thread, and of its answer back.

Invariants:
- writes are done in the order in which they were asked for; those that wait while the thread is busy are done
  together (`group_commit.py`), and nobody waits for company;
- the thread does not sleep while a write waits;
- however many answers have piled up, the loop is woken once for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TypeVar

import aiosqlite

from relay.store.ports import Work
from relay.store.sqlite.files import DatabaseFiles
from relay.store.sqlite.group_commit import PendingWrite, Writer

T = TypeVar("T")
#: Writes in a group at most: at that many the COMMIT is a small part of each.
GROUP = 16


class WriteQueue:
    """Those who wait for the writer's thread. All but `_run` and what it calls is for the loop that it is made on."""

    def __init__(
        self,
        connection: aiosqlite.Connection,
        clock: Callable[[], float],
        busy_timeout_s: float,
        files: DatabaseFiles,
        changed: Callable[[int, dict[int, str]], None],
    ) -> None:
        """`changed` is called on the loop with the number of rows and the types of the events that were appended, by
        their places in the log: once for what was committed together."""
        self._connection = connection
        self._writer = Writer(connection._conn, clock, busy_timeout_s, files)
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[PendingWrite] = deque()
        self._answered: deque[PendingWrite] = deque()
        # Whether the thread is at it, or was told to; under the lock, so that none is left behind as it falls asleep.
        self._lock = threading.Lock()
        self._awake = False
        # Changed and appended by what is answered, and not yet told of; under the lock too.
        self._rows = 0
        self._appended: dict[int, str] = {}
        # Whether the loop was told of answers that it has not looked at.
        self._told = False
        self._answering = False

    async def write(self, work: Work[T], durable: bool) -> T:
        """See `relay.store.ports.Store.write`."""
        # The wait counts from here: behind a lock that is held on, a queue of writers gives up together, not
        # one after the other.
        give_up = time.monotonic() + self._writer.busy_timeout_s
        pending = PendingWrite(work, durable, give_up, self._loop.create_future())
        self._waiting.append(pending)
        if not self._answering:
            self._wake()
        result: T = await pending.future
        return result

    def _wake(self) -> None:
        if not self._waiting:
            return
        # aiosqlite has no public call for either; the version is pinned, and tests/log would fail at once.
        if not self._connection._running or self._connection._connection is None:
            while self._waiting:
                future = self._waiting.popleft().future
                if not future.done():
                    future.set_exception(ValueError("Connection closed"))
            return
        with self._lock:
            if not self._awake:
                self._awake = True
                self._connection._tx.put_nowait((None, self._run))

    def _run(self) -> None:
        """On the writer's thread: do what waits, until nothing does."""
        awake = True
        while awake:
            answered, left = self._writer.carry_out(self._next_group())
            self._waiting.extendleft(reversed(left))
            self._answered.extend(answered)
            with self._lock:
                for write in answered:
                    self._rows += write.rows
                    self._appended.update(write.appended)
                awake = self._awake = bool(self._waiting)
            # Last, so that the loop need not share the processor with what is left to do here.
            self._tell()

    def _next_group(self) -> list[PendingWrite]:
        group: list[PendingWrite] = []
        while self._waiting and len(group) < GROUP:
            if group and self._waiting[0].alone:
                break
            group.append(self._waiting.popleft())
            if group[-1].alone:
                break
        return group

    def _tell(self) -> None:
        if self._answered and not self._told:
            self._told = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                self._loop.call_soon_threadsafe(self._give_answers)

    def _give_answers(self) -> None:
        self._told = False
        with self._lock:
            rows, self._rows = self._rows, 0
            appended, self._appended = self._appended, {}
        while self._answered:
            write = self._answered.popleft()
            if write.future.done():
                continue
            if write.error is None:
                write.future.set_result(write.result)
            else:
                write.future.set_exception(write.error)
        # After the answers, which somebody waits for; and who looks for work in a transaction and finds none must not
        # wake everybody, itself included.
        if rows:
            self._changed(rows, appended)
        # Those who have their answers now may all ask again at once: the thread is woken once, behind them.
        self._answering = True
        self._loop.call_soon(self._answers_given)

    def _answers_given(self) -> None:
        self._answering = False
        self._wake()
