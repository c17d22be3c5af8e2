"""Statements that are transactions by themselves; those that come while the same one is on its way go together.

Invariants:
- who asks alone is served at once; who asks while the same statement is being run waits for that one, and then all
  who waited are one transaction: nobody waits for company, and the more ask, the fewer transactions there are;
- each gets its own answer, when all are committed. A transaction that fails has changed nothing: each of its
  statements is then done again by itself, so that one's fault is nobody else's;
- only a statement that is told whether it is `alone` in its transaction is joined with others; it gives one row.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from relay.store.ports import Query, Row, StoreError
from relay.store.postgres.connections import Loan
from relay.store.postgres.errors import ENGINE, CommitUnknown, PostgresAway, PostgresFault, Retry, translated
from relay.store.postgres.query import Statement, statement
from relay.store.postgres.transaction import Bends, PostgresTx, bent, rollback

#: The parameter by which a statement can be joined with others.
ALONE = "alone"
#: Statements of one transaction at most: for as long as it takes, whoever else appends an event waits.
MOST = 16


@dataclass(slots=True)
class _Call:
    """One statement with its values, and where its row is waited for. `left`: it is not in line any more."""

    values: list[Any]
    told: asyncio.Future[Row]
    left: bool = False

    def tell(self, row: Row) -> None:
        if not self.told.done():
            self.told.set_result(row)

    def fail(self, error: BaseException) -> None:
        if not self.told.done():
            self.told.set_exception(error)


@dataclass(slots=True)
class _Line:
    """Who calls one statement. `busy`: some calls of it are on their way."""

    busy: bool = False
    waiting: deque[_Call] = field(default_factory=deque)


class SingleStatements:
    """`lent` gives a connection for a while; `wait_s`: nobody stands in line for longer. Raises PostgresFault."""

    def __init__(self, lent: Callable[[], Loan], place: str, types: Bends, wait_s: float) -> None:
        self._lent, self._place, self._bends, self._wait_s = lent, place, types, wait_s
        self._lines: dict[str, _Line] = {}
        self._joined: set[asyncio.Task[None]] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    async def ask(self, query: Query, params: dict[str, Any]) -> Sequence[Row]:
        """The rows that the statement gives."""
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
            return await call.told
        finally:
            timer.cancel()

    def _next(self, made: Statement, line: _Line) -> None:
        """Begin to serve who waits; with nobody, the statement is free."""
        # Who was cancelled while it waited has asked for nothing.
        together: list[_Call] = []
        while line.waiting and len(together) < MOST:
            call = line.waiting.popleft()
            call.left = True
            if not call.told.done():
                together.append(call)
        line.busy = bool(together)
        if together:
            task = asyncio.create_task(self._serve(made, line, together), name="store-singles")
            self._joined.add(task)
            task.add_done_callback(self._joined.discard)
        elif not any(one.busy for one in self._lines.values()):
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
                # A database that cannot just now cannot for any of them. Only another's transaction in the way of one
                # is worth a try by itself.
                if error.again is not Retry.CONFLICT:
                    raise
            except PostgresFault:
                pass
            else:
                if len(rows) != len(calls):
                    raise StoreError(f"a statement of one row gave {len(rows)} rows for {len(calls)} calls")
                for call, row in zip(calls, rows, strict=True):
                    call.tell(row)
                return
        for call in calls:
            try:
                call.tell((await self._transaction(made, [call.values]))[0])
            except PostgresFault as error:
                call.fail(error)

    async def _transaction(self, made: Statement, calls: Sequence[list[Any]]) -> Sequence[Row]:
        """This statement with each of these values, all kept or none."""
        async with self._lent() as connection:
            try:
                values = [await bent(connection, made, self._bends, call) for call in calls]
                if len(calls) == 1:
                    rows: Sequence[Row] = await connection.fetch(made.text, *values[0])
                else:
                    rows = await connection.fetchmany(made.text, values)
            except BaseException as error:
                # A statement that was prepared and not run has begun a transaction that the driver knows not of.
                await rollback(connection, known=False)
                if not isinstance(error, ENGINE):
                    raise
                fault = translated(error, self._place)
                if isinstance(fault, PostgresAway) and fault.again is Retry.LOST:
                    fault = CommitUnknown.on(self._place)
                raise fault from error
            return rows

    async def close(self) -> None:
        """Let who has asked be answered."""
        await self._idle.wait()


class SingleTx(PostgresTx):
    """`Tx` of one statement that is a transaction by itself."""

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
