"""One transaction on PostgreSQL, and how a store drives it.

Invariant: a transaction's coroutine awaits nothing but its `Tx`, whose statements the store runs. Awaiting anything
else raises, so the lock is never held for it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from relay.store.ports import AwaitedOutside, Query, Row, StoreError, Work
from relay.store.postgres.errors import ENGINE, PostgresAway, PostgresFault, translated
from relay.store.postgres.query import Bend, Statement, bends, changed_rows, statement
from relay.store.postgres.rights import ACTING, SERVICE

T = TypeVar("T")
#: How to bend the values of each statement, by its text, once it was prepared.
Bends = dict[str, tuple[tuple[int, Bend], ...]]
#: The statements that append an event (relay/log).
_APPEND = ("put_event", "record_event")


class _Ask:
    """A statement that a transaction awaits. The store runs it."""

    __slots__ = ("run",)

    def __init__(self, run: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self.run = run

    def __await__(self) -> Generator[_Ask, Any, Any]:
        return (yield self)


class PostgresTx:
    """`Tx` over a connection. `trouble`: the engine's failure, if there was one; `changed`: whether a row changed."""

    __slots__ = (
        "_bends",
        "_clock",
        "_connection",
        "_left",
        "_now",
        "_own",
        "_place",
        "changed",
        "events",
        "trouble",
        "types",
    )

    def __init__(
        self,
        connection: Any,
        *,
        place: str,
        bends: Bends,
        clock: Callable[[], float] | None = None,
        single: bool = False,
        own: bool = False,
    ) -> None:
        self._connection = connection
        #: Whether it has only the rights of an agent.
        self._own = own
        self._place = place
        self._bends = bends
        self._clock = clock
        #: How many statements it may still make; None = any number.
        self._left = 1 if single else None
        self._now: float | None = None
        self.trouble: PostgresFault | None = None
        self.changed = False
        #: The appended events: their types, and their places in the log where they are known.
        self.types: set[str] = set()
        self.events: set[int] = set()

    async def now(self) -> float:
        if self._now is None:
            if self._clock is not None:
                self._now = self._clock()
            else:
                self._now = float(await _Ask(partial(self._run, "fetchval", "SELECT relay_now()", ())))
        return self._now

    @asynccontextmanager
    async def as_room(self) -> AsyncIterator[None]:
        if not self._own:
            yield
            return
        await _Ask(partial(self._run, "execute", f"SET LOCAL ROLE {SERVICE}", ()))
        try:
            yield
        except Exception:
            # After a failed statement the transaction only rolls back, which needs no rights.
            with contextlib.suppress(StoreError):
                await _Ask(partial(self._run, "execute", f"SET LOCAL ROLE {ACTING}", ()))
            raise
        await _Ask(partial(self._run, "execute", f"SET LOCAL ROLE {ACTING}", ()))

    async def execute(self, query: Query, **params: Any) -> int:
        status: str = await _Ask(partial(self._named, "execute", query, params))
        return changed_rows(status)

    async def one(self, query: Query, **params: Any) -> Row | None:
        rows: Sequence[Row] = await _Ask(partial(self._named, "fetch", query, params))
        return rows[0] if rows else None

    async def all(self, query: Query, **params: Any) -> Sequence[Row]:
        rows: Sequence[Row] = await _Ask(partial(self._named, "fetch", query, params))
        return rows

    async def many(self, query: Query, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            await _Ask(partial(self._each, query, rows))

    async def _each(self, query: Query, rows: Sequence[Mapping[str, Any]]) -> None:
        if self._left is not None:
            raise StoreError("a single write is one statement")
        made = statement(query)
        try:
            values = [
                await bent(self._connection, made, self._bends, made.values(query, row)) for row in rows
            ]
        except ENGINE as error:
            raise self._wrong(error) from error
        await self._run("executemany", made.text, (values,))
        self.changed = True
        if query.name in _APPEND:
            self.types.update(row["type"] for row in rows)

    async def _named(self, how: str, query: Query, params: dict[str, Any]) -> Any:
        self._count()
        made = statement(query)
        values = made.values(query, params)
        try:
            values = await bent(self._connection, made, self._bends, values)
        except ENGINE as error:
            raise self._wrong(error) from error
        result = await self._run(how, made.text, values)
        if made.writes:
            self.changed = self.changed or (changed_rows(result) > 0 if how == "execute" else bool(result))
            if query.name in _APPEND:
                self.types.add(params["type"])
                self.events.update(row["pos"] for row in result if how == "fetch")
        return result

    def _count(self) -> None:
        """Count a statement. Raises StoreError where that is one too many."""
        if self._left is not None:
            if not self._left:
                raise StoreError("a single write is one statement; this one made a second")
            self._left -= 1

    async def _run(self, how: str, text: str, values: Sequence[Any]) -> Any:
        try:
            return await getattr(self._connection, how)(text, *values)
        except ENGINE as error:
            raise self._wrong(error) from error

    def _wrong(self, error: BaseException) -> StoreError:
        fault = translated(error, self._place)
        if isinstance(fault, PostgresAway):
            self.trouble = fault
        return fault


async def bent(connection: Any, made: Statement, known: Bends, values: list[Any]) -> list[Any]:
    """The values, bent to the types of their places. The server is asked for the types once. Raises as the driver."""
    places = known.get(made.text)
    if places is None:
        types = (await connection.prepare(made.text)).get_parameters()
        places = known[made.text] = bends([each.name for each in types])
    for place, bend in places:
        values[place] = bend(values[place])
    return values


async def rollback(connection: Any, *, known: bool = True) -> None:
    """End the transaction; where that fails, the pool ends the connection."""
    with contextlib.suppress(*ENGINE):
        if not known or connection.is_in_transaction():
            await connection.execute("ROLLBACK")


async def drive(work: Work[T], tx: PostgresTx, *, aside: bool = False) -> T:
    """Run the work to its end. It awaits only what its `Tx` gives it; anything else raises AwaitedOutside.

    `aside`: the work computes much between two statements, so its steps run on a thread. When the engine failed, its
    error is raised, whatever the work made of it.
    """
    coroutine = work(tx)
    value: Any = None
    wrong: BaseException | None = None
    try:
        while True:
            if aside:
                ended, asked = await asyncio.to_thread(_step, coroutine, value, wrong)
            else:
                ended, asked = _step(coroutine, value, wrong)
            if ended:
                if tx.trouble is not None:
                    raise tx.trouble
                result: T = asked
                return result
            if not isinstance(asked, _Ask):
                raise AwaitedOutside(
                    f"the transaction {getattr(work, '__qualname__', work)!r} awaited something other than its "
                    "Tx; do that before or after the transaction"
                )
            value, wrong = None, None
            try:
                value = await asked.run()
            except BaseException as error:
                wrong = error
    except Exception as error:
        if tx.trouble is None or tx.trouble is error:
            raise
        raise tx.trouble from None
    finally:
        coroutine.close()


def _step(coroutine: Coroutine[Any, Any, Any], value: Any, wrong: BaseException | None) -> tuple[bool, Any]:
    """Go on to the next await: (False, what is awaited), or (True, the result)."""
    try:
        return False, coroutine.send(value) if wrong is None else coroutine.throw(wrong)
    except StopIteration as stop:
        return True, stop.value
