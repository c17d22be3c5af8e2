"""Carries writes from the event loop to the writer's thread, and their answers back.

Invariants:
- writes run in the order in which they were asked for. Writes of one turn of the loop, and writes that arrive while
  the thread is busy, run together (`group_commit.py`); a write that arrives alone while it is idle runs immediately;
- the thread does not sleep while a write waits;
- the loop waits for the thread for `LOOP_S` at most, and only where it may expect an answer by then: a slow disk, a
  locked database and a flush hold no other task;
- the loop is woken once for all answers that are ready.

A short write takes no longer than to wake the loop (a pipe, a poll, a switch between threads), so the loop waits for
it. It does not run the write itself: no statement can be called back from a slow disk, so that wait had no bound.
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
#: Seconds for which the loop waits for a group: ten times what one write of a lock takes, and a small part of the lag
#: that the loop may have (25 ms, docs/figures.md).
LOOP_S = 0.003


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
        # Whether the loop will hand over what waits, and whether it will look at the answers.
        self._is_handing_over = False
        self._is_scheduled = False
        # Whether the loop waits for the next answers (under the lock): the thread opens the gate for it then.
        self._is_watched = False
        self._gate = threading.Lock()
        self._gate.acquire()
        # Whether the last group was answered within `LOOP_S`.
        self._is_quick = True

    async def write(self, work: Work[T], durable: bool) -> T:
        """See `relay.store.ports.Store.write`."""
        # The wait counts from here, so writers that queue behind a held lock give up together, not one by one.
        give_up = time.monotonic() + self._writer.busy_timeout_s
        pending = PendingWrite(work, durable, give_up, self._loop.create_future())
        self._waiting.append(pending)
        # Behind the other tasks of this turn of the loop, which may write too.
        if not self._is_handing_over:
            self._is_handing_over = True
            self._loop.call_soon(self._hand_over)
        result: T = await pending.future
        return result

    def _hand_over(self) -> None:
        self._is_handing_over = False
        # aiosqlite has no public call for either; the version is pinned, and tests/log would fail at once.
        if not self._connection._running or self._connection._connection is None:
            while self._waiting:
                future = self._waiting.popleft().future
                if not future.done():
                    future.set_exception(ValueError("Connection closed"))
            return
        with self._lock:
            if self._awake or not self._waiting:
                return
            self._awake = True
            self._is_watched = self._is_quick and not any(write.durable for write in self._waiting)
            is_watched = self._is_watched
        self._connection._tx.put_nowait((None, self._run))
        if is_watched and self._is_answered():
            self._give_answers()

    def _is_answered(self) -> bool:
        """Wait until the thread has answers, for `LOOP_S` at most."""
        if self._gate.acquire(timeout=LOOP_S):
            return True
        with self._lock:
            late, self._is_watched = self._is_watched, False
        # Not late: the thread opened the gate meanwhile.
        return not late and self._gate.acquire()

    def _run(self) -> None:
        """On the writer's thread: run the waiting writes until there are none."""
        awake = True
        while awake:
            began = time.monotonic()
            answered, left = self._writer.carry_out(self._next_group())
            self._waiting.extendleft(reversed(left))
            self._answered.extend(answered)
            with self._lock:
                for write in answered:
                    self._rows += write.rows
                    self._appended.update(write.appended)
                awake = self._awake = bool(self._waiting)
                self._is_quick = time.monotonic() - began < LOOP_S
                is_watched, self._is_watched = self._is_watched, False
            # Last, so that the loop need not share the processor with the work above.
            if is_watched:
                self._gate.release()
            else:
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
                self._loop.call_soon_threadsafe(self._look_for_answers)

    def _look_for_answers(self) -> None:
        self._is_scheduled = False
        self._give_answers()

    def _give_answers(self) -> None:
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
