"""Carries writes from the event loop to the writer's thread, and their answers back.

Invariants:
- writes run in the order in which they were asked for. Writes that arrive while the thread is busy run together
  (`group_commit.py`); a write that arrives while it is idle runs immediately;
- the thread does not sleep while a write waits;
- the loop is woken once for all answers that are ready.
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
    """The writes that wait for the writer's thread. Only `_run` and what it calls run on that thread."""

    def __init__(
        self,
        connection: aiosqlite.Connection,
        clock: Callable[[], float],
        busy_timeout_s: float,
        files: DatabaseFiles,
        changed: Callable[[int, dict[int, str]], None],
    ) -> None:
        """`changed` is called on the loop, once for writes that committed together: with the number of rows, and the
        types of the appended events by their places in the log."""
        self._connection = connection
        self._writer = Writer(connection._conn, clock, busy_timeout_s, files)
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[PendingWrite] = deque()
        self._answered: deque[PendingWrite] = deque()
        # Whether the thread runs or is about to; under the lock, so that no write is left behind as it falls asleep.
        self._lock = threading.Lock()
        self._awake = False
        # The changes of answered writes, not yet given to `changed`; under the lock too.
        self._rows = 0
        self._appended: dict[int, str] = {}
        # Whether the loop will look at the answers.
        self._is_scheduled = False
        self._answering = False

    async def write(self, work: Work[T], durable: bool) -> T:
        """See `relay.store.ports.Store.write`."""
        # The wait counts from here, so writers that queue behind a held lock give up together, not one by one.
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
        """On the writer's thread: run the waiting writes until there are none."""
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
            # Last, so that the loop need not share the processor with the work above.
            self._schedule_answers()

    def _next_group(self) -> list[PendingWrite]:
        group: list[PendingWrite] = []
        while self._waiting and len(group) < GROUP:
            if group and self._waiting[0].alone:
                break
            group.append(self._waiting.popleft())
            if group[-1].alone:
                break
        return group

    def _schedule_answers(self) -> None:
        if self._answered and not self._is_scheduled:
            self._is_scheduled = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                self._loop.call_soon_threadsafe(self._give_answers)

    def _give_answers(self) -> None:
        self._is_scheduled = False
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
        # After the answers, which somebody waits for. A worker that looks for work in a transaction and finds none
        # must not wake everybody, itself included.
        if rows:
            self._changed(rows, appended)
        # The callers that got answers may all write again at once: the thread is woken once, after them.
        self._answering = True
        self._loop.call_soon(self._answers_given)

    def _answers_given(self) -> None:
        self._answering = False
        self._wake()
