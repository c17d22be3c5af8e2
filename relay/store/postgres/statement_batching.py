"""Single statements as transactions: calls that arrive while the same statement runs share the next transaction.

Invariants:
- a call that arrives while its statement is idle runs immediately. A call that arrives while the statement runs waits
  for that run, then all waiting calls are one transaction. No call waits for company, and the more calls there are,
  the fewer transactions they take;
- each call gets its own answer after the COMMIT. A transaction that fails has changed nothing; its calls then run
  again one by one, so that one call's fault is no other's;
- only a statement with the parameter `alone` (is it the only one of its transaction?) is joined; it gives one row.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

from relay.store.ports import Query, Row, StoreError
from relay.store.postgres.errors import ENGINE, CommitUnknown, PostgresAway, PostgresFault, Retry, translated
from relay.store.postgres.query import Statement, statement
from relay.store.postgres.transaction import Bends, PostgresTx, bent, rollback

#: The parameter by which a statement can be joined with others.
ALONE = "alone"
#: Statements of one transaction at most: everybody else who appends an event waits for it.
MOST = 16


@dataclass(slots=True)
class _Call:
    """One call of a statement: its values and its future row. `left`: it is no longer in line."""

    values: list[Any]
    answer: asyncio.Future[Row]
    left: bool = False

    def succeed(self, row: Row) -> None:
        if not self.answer.done():
            self.answer.set_result(row)

    def fail(self, error: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


@dataclass(slots=True)
class _Line:
    """The calls of one statement. `busy`: some of them are running."""

    busy: bool = False
    waiting: deque[_Call] = field(default_factory=deque)


class SingleStatements:
    """`lent` gives a connection for a while; `wait_s`: seconds that a call waits in line at most."""

    def __init__(
        self, lent: Callable[[], AbstractAsyncContextManager[Any]], place: str, bends: Bends, wait_s: float
    ) -> None:
        self._lent, self._place, self._bends, self._wait_s = lent, place, bends, wait_s
        self._lines: dict[str, _Line] = {}
        self._joined: set[asyncio.Task[None]] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    async def ask(self, query: Query, params: dict[str, Any]) -> Sequence[Row]:
        """The rows that the statement gives. Raises PostgresFault."""
        made = statement(query)
        values = made.values(query, params)
        if ALONE not in made.names:
            return await self._transaction(made, [values])
        line = self._lines.setdefault(made.text, _Line())
        if line.busy:
            return [await self._stand_in(line, values)]
        line.busy = True
        self._idle.clear()
        try:
            return await self._transaction(made, [values])
        finally:
            self._next(made, line)

    async def _stand_in(self, line: _Line, values: list[Any]) -> Row:
        loop = asyncio.get_running_loop()
        call = _Call(values, loop.create_future())

        def give_up() -> None:
            if not call.left:
                line.waiting.remove(call)
                call.fail(PostgresAway(
                    f"{self._place}: those before this one took too long; nothing was changed, try again"
                ))  # fmt: skip

        line.waiting.append(call)
        timer = loop.call_later(self._wait_s, give_up)
        try:
            return await call.answer
        finally:
            timer.cancel()

    def _next(self, made: Statement, line: _Line) -> None:
        """Start the waiting calls, without those that were cancelled. Without any, the statement is idle."""
        together: list[_Call] = []
        while line.waiting and len(together) < MOST:
            call = line.waiting.popleft()
            call.left = True
            if not call.answer.done():
                together.append(call)
        line.busy = bool(together)
        if together:
            task = asyncio.create_task(self._serve(made, line, together), name="store-singles")
            self._joined.add(task)
            task.add_done_callback(self._joined.discard)
        elif not any(other.busy for other in self._lines.values()):
            self._idle.set()

    async def _serve(self, made: Statement, line: _Line, together: Sequence[_Call]) -> None:
        try:
            await self._answer(made, together)
        except Exception as error:
            for call in together:
                call.fail(error)
        finally:
            for call in together:
                call.fail(PostgresFault("the store is closed"))
            self._next(made, line)

    async def _answer(self, made: Statement, calls: Sequence[_Call]) -> None:
        if len(calls) > 1:
            alone = made.names.index(ALONE)
            values = [[*call.values[:alone], False, *call.values[alone + 1 :]] for call in calls]
            try:
                rows = await self._transaction(made, values)
            except CommitUnknown:
                raise
            except PostgresAway as error:
                # What is unavailable now is so for all of them. Only a conflict with another transaction may be one
                # call's own, and is worth a try call by call.
                if error.again is not Retry.CONFLICT:
                    raise
            except PostgresFault:
                pass
            else:
                if len(rows) != len(calls):
                    raise StoreError(f"a statement of one row gave {len(rows)} rows for {len(calls)} calls")
                for call, row in zip(calls, rows, strict=True):
                    call.succeed(row)
                return
        for call in calls:
            try:
                call.succeed((await self._transaction(made, [call.values]))[0])
            except PostgresFault as error:
                call.fail(error)

    async def _transaction(self, made: Statement, calls: Sequence[list[Any]]) -> Sequence[Row]:
        """The statement with each of these values, all or none."""
        async with self._lent() as connection:
            try:
                values = [await bent(connection, made, self._bends, call) for call in calls]
                if len(calls) == 1:
                    rows: Sequence[Row] = await connection.fetch(made.text, *values[0])
                else:
                    rows = await connection.fetchmany(made.text, values)
            except BaseException as error:
                # A statement that was prepared and not run has begun a transaction that the driver does not know.
                await rollback(connection, known=False)
                if not isinstance(error, ENGINE):
                    raise
                fault = translated(error, self._place)
                if isinstance(fault, PostgresAway) and fault.again is Retry.LOST:
                    fault = CommitUnknown.on(self._place)
                raise fault from error
            return rows

    async def close(self) -> None:
        """Wait until every call has its answer."""
        await self._idle.wait()


class SingleTx(PostgresTx):
    """The `Tx` of a single statement."""

    __slots__ = ("_singles",)

    def __init__(self, singles: SingleStatements, place: str) -> None:
        super().__init__(None, place=place, bends={}, single=True)
        self._singles = singles

    async def now(self) -> float:
        raise StoreError("a single write is one statement, which asks for the time itself")

    async def _named(self, how: str, query: Query, params: dict[str, Any]) -> Any:
        self._count()
        if how == "execute":
            raise StoreError("a single write is one statement, and gives rows")
        try:
            rows = await self._singles.ask(query, params)
        except (PostgresAway, CommitUnknown) as error:
            self.trouble = error
            raise
        self.changed = bool(rows)
        return rows
