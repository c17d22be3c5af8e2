"""The store for several machines: PostgreSQL.

Invariants:
- a general write holds the room's lock (an advisory lock of the database) exclusively from its first statement to the
  end of its commit, so it may decide by what it reads, as on SQLite. A `single` write is one statement, a function of
  the database that takes the same lock shared; single writes that arrive together share a transaction
  (`statement_batching`);
- events become visible in the order of `pos` (postgres/migrations/0001_log.sql), so a cursor skips none;
- a transaction awaits nothing but its `Tx`: the store drives it and runs its statements;
- work runs again only when nothing of it can have been kept. When the connection is lost during the commit, the
  outcome is reported as unknown (`CommitUnknown`).

Within a process, general writes queue here, so that only one of its connections waits for the lock. Long reads have
a connection of their own, and so has LISTEN. `synchronous_commit` is off: a commit survives the kill of one of our
processes, and a crash of the server may lose the last 0.6 s (three times its wal_writer_delay). It is on where the
caller asks for `durable`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import asyncpg

from relay.model import Caller
from relay.store.fence import EPOCH
from relay.store.ports import Size, StoreMissing, Work
from relay.store.postgres.address import Address
from relay.store.postgres.connections import CLOSE_S, SCHEMA, Connections
from relay.store.postgres.daemon_lock import DaemonLock, holder_of
from relay.store.postgres.errors import ENGINE, CommitUnknown, PostgresAway, PostgresFault, Retry, translated
from relay.store.postgres.listen import Listener
from relay.store.postgres.migrate import is_migrated, migrate
from relay.store.postgres.query import DIALECT
from relay.store.postgres.rights import Rights, rights_of
from relay.store.postgres.server import check_pooler, check_server
from relay.store.postgres.silent_holder import ending_silent
from relay.store.postgres.statement_batching import SingleStatements, SingleTx
from relay.store.postgres.transaction import Bends, PostgresTx, drive, rollback
from relay.store.wakeup import Subscribers, Wakeup, kept_up

T = TypeVar("T")
#: The first half of the key of the room's advisory lock ("rely"); the second is the schema's hash. The next number
#: orders the log (postgres/migrations/0001_log.sql).
ROOM_LOCK = 1919249529
#: How often work is tried: when another transaction was in the way, and when the connection was lost.
TRIES_CONFLICT = 5
TRIES_LOST = 2
#: Seconds between two tries: random, so that two do not meet again.
_WAIT_S = (0.002, 0.02)


class PostgresStore:
    """A `Store` over a PostgreSQL database. Make it with `open_store`.

    `clock` is for tests: its time is the setting `relay.now` of each transaction, for a `relay_now()` that reads it.
    """

    engine = DIALECT
    errors: type[Exception] = PostgresFault
    transient: type[Exception] = PostgresAway
    #: Always empty: a server that is away is reported to each caller.
    trouble = ""

    def __init__(
        self,
        address: Address,
        *,
        connections: int = 8,
        connect_s: float = 10.0,
        busy_timeout_s: float = 30.0,
        clock: Callable[[], float] | None = None,
        member: str | None = None,
    ) -> None:
        self._address = address
        self._busy_timeout_s = busy_timeout_s
        self._clock = clock
        self._bends: Bends = {}
        self._subscribers = Subscribers()
        self._turn = asyncio.Lock()
        self._long_turn = asyncio.Lock()
        self._open = Connections(
            address, most=connections, connect_s=connect_s, busy_timeout_s=busy_timeout_s
        )
        self._singles = SingleStatements(
            lambda: self._open.lent(self._open.short), address.place, self._bends, busy_timeout_s
        )
        self._listener = Listener(
            self._open.connect, SCHEMA, self._subscribers.notify, lambda: self._open.writer_pid
        )
        self._member = member
        self._lock = None if member is None else DaemonLock(self._open.connect, SCHEMA, address.place, member)
        self._side: list[asyncio.Task[None]] = []

    # -- transactions

    def _tx(self, connection: Any, *, single: bool = False, actor: Caller | None = None) -> PostgresTx:
        own = bool(self._open.rights.become(actor))
        return PostgresTx(
            connection, place=self.place, bends=self._bends, clock=self._clock, single=single, own=own
        )

    async def write(
        self,
        work: Work[T],
        *,
        durable: bool = False,
        single: bool = False,
        quiet: bool = False,
        actor: Caller | None = None,
    ) -> T:
        if self._lock is not None:
            self._lock.check()
        # A leader's write is checked behind the room's lock, which a single write does not have alone.
        if single and EPOCH.get() is None:
            return await self._again(partial(self._write_single, work, durable, actor, quiet))
        return await self._again(partial(self._write, work, durable, actor))

    async def read(
        self, work: Work[T], *, long: bool = False, single: bool = False, actor: Caller | None = None
    ) -> T:
        if single and actor is None and self._clock is None:
            return await self._again(partial(self._read_single, work))
        if not long:
            return await self._again(partial(self._read, self._open.short, work, actor))
        async with self._long_turn:
            return await self._again(partial(self._read, self._open.long, work, actor))

    async def _again(self, once: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run `once`, and again where nothing of it can have been kept."""
        tried = 0
        while True:
            try:
                return await once()
            except PostgresAway as error:
                tried += 1
                most = {Retry.CONFLICT: TRIES_CONFLICT, Retry.LOST: TRIES_LOST}.get(error.again, 0)
                if tried >= most:
                    raise
            await asyncio.sleep(random.uniform(*_WAIT_S))

    async def _write(self, work: Work[T], durable: bool, actor: Caller | None) -> T:
        # The wait counts from here, so writers that queue behind a held lock give up together.
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._busy_timeout_s):
                await self._turn.acquire()
        except TimeoutError:
            raise PostgresAway(
                f"{self.place}: the writers before this one took too long; nothing was changed, try again"
            ) from None
        try:
            if self._lock is not None:
                self._lock.check()  # again: the daemon's lock may be lost since the check before the wait
            async with self._open.lent(self._open.writer) as connection:
                tx = self._tx(connection, actor=actor)
                left_ms = max(1, round((self._busy_timeout_s - (time.monotonic() - began)) * 1000))
                begin = f"BEGIN; SET LOCAL lock_timeout = {left_ms}; {_ALONE}"
                if (epoch := EPOCH.get()) is not None:
                    begin += f"; SELECT relay_fence({epoch})"
                with ending_silent(self._open.connect, ROOM_LOCK, SCHEMA):
                    result = await self._transaction(connection, tx, begin, work, durable, actor, notice=True)
        finally:
            self._turn.release()
        # A worker that looks for work in a transaction and finds none must not wake everybody, itself included.
        if tx.changed:
            self._listener.known.update(tx.events)
            self._subscribers.notify(tx.types)
        return result

    async def _write_single(self, work: Work[T], durable: bool, actor: Caller | None, quiet: bool) -> T:
        """One statement that is a transaction by itself. The listener wakes readers by the events that it appends."""
        if durable or actor is not None or self._clock is not None:
            async with self._open.lent(self._open.short) as connection:
                tx = self._tx(connection, single=True)
                result = await self._transaction(connection, tx, "BEGIN", work, durable, actor)
        else:
            result = await drive(work, SingleTx(self._singles, self.place))
        if not quiet:
            self._listener.stir()
        return result

    async def _transaction(
        self,
        connection: Any,
        tx: PostgresTx,
        begin: str,
        work: Work[T],
        durable: bool,
        actor: Caller | None,
        *,
        notice: bool = False,
    ) -> T:
        try:
            await self._begin(
                connection, begin + ("; SET LOCAL synchronous_commit = on" if durable else ""), actor
            )
            result = await drive(work, tx)
        except BaseException:
            await rollback(connection)
            raise
        await self._commit(
            connection, f"{self._listener.notice}; COMMIT" if notice and tx.changed else "COMMIT"
        )
        return result

    async def _begin(self, connection: Any, text: str, actor: Caller | None) -> None:
        if self._clock is not None:
            text += f"; SET LOCAL relay.now = '{self._clock()!r}'"
        try:
            # The actor's rights are set LOCAL, so they end with the transaction.
            await connection.execute(text + self._open.rights.become(actor))
        except ENGINE as error:
            raise translated(error, self.place) from error

    async def _commit(self, connection: Any, text: str) -> None:
        try:
            status = await connection.execute(text)
        except asyncpg.InFailedSQLTransactionError:
            status = "ROLLBACK"
        except ENGINE as error:
            fault = translated(error, self.place)
            if fault.again is Retry.LOST:
                raise CommitUnknown.on(self.place) from error
            raise fault from error
        finally:
            await rollback(connection)
        if status != "COMMIT":
            raise PostgresFault(
                f"{self.place}: a statement of the transaction had failed, so nothing was kept"
            )

    async def _read(self, pool: Any, work: Work[T], actor: Caller | None) -> T:
        async with self._open.lent(pool) as connection:
            tx = self._tx(connection, actor=actor)
            try:
                await self._begin(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", actor)
                return await drive(work, tx, aside=pool is self._open.long)
            finally:
                await rollback(connection)

    async def _read_single(self, work: Work[T]) -> T:
        """One statement, which is a snapshot by itself."""
        async with self._open.lent(self._open.short) as connection:
            try:
                return await drive(work, self._tx(connection, single=True))
            except BaseException:
                # A statement that was prepared and not run has begun a transaction, and the driver does not know it.
                await rollback(connection, known=False)
                raise

    # -- the store as a whole

    @property
    def place(self) -> str:
        return self._address.place

    @property
    def rights(self) -> Rights:
        """Whether what is done for an agent is done with that agent's rights only."""
        return self._open.rights

    @property
    def notes(self) -> Sequence[str]:
        return self.rights.notes

    def wakeup(self, types: Collection[str] | None = None, *, first: bool = False) -> Wakeup:
        return self._subscribers.wakeup(types, first)

    @contextlib.asynccontextmanager
    async def _asking(self, pool: Any) -> AsyncIterator[Any]:
        """A connection for questions outside of a transaction; the engine's errors become ours."""
        async with self._open.lent(pool) as connection:
            try:
                yield connection
            except BaseException as error:
                await rollback(connection, known=False)  # as after a single read
                if isinstance(error, ENGINE):
                    raise translated(error, self.place) from error
                raise

    async def daemon(self, member: str) -> str:
        async with self._asking(self._open.short) as connection:
            holder = await holder_of(connection, SCHEMA, member)
        return "" if holder is None else str(holder)

    async def stay_sole(self) -> None:
        if self._lock is not None:
            await self._lock.stay()

    async def prepare(self, wings: Sequence[Path], *, create: bool) -> None:
        """Bring the tables up to date. Raises StoreMissing where there are none and `create` is False."""
        await self._open.ready()
        async with self._asking(self._open.writer) as connection:
            if await check_server(connection, self.place):
                async with self._open.lent(self._open.short) as other:
                    await check_pooler(connection, other, self.place)
            if self._lock is not None:
                # Before the tables are changed, which an older daemon may be using.
                await self._lock.take()
                # From here on: making the tables may take longer than a lock is sure without a look at it.
                self._beside("store-member", self._lock.keep)
            if not create and not await is_migrated(connection, SCHEMA):
                raise StoreMissing(f"there are no tables of relay in {self.place} yet")
            await migrate(connection, SCHEMA, wings, ROOM_LOCK, self.place)
            self._open.rights = await rights_of(connection, SCHEMA)
            self._open.after_crash = await connection.fetchval(_AFTER_CRASH)
            await self._open.start(connection)

    async def start(self) -> None:
        self._beside("store-listen", self._listener.run)

    def _beside(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._side.append(asyncio.create_task(kept_up(name, run), name=name))

    async def check(self) -> list[str]:
        """Indexes that are not valid, and pages whose checksum was wrong; empty when there are none.

        The server checks the pages that it reads. This call does not make it read all of them.
        """
        async with self._long_turn, self._asking(self._open.long) as connection:
            names = [row["name"] for row in await connection.fetch(_INVALID_INDEXES, SCHEMA)]
            failed = await connection.fetchval(_CHECKSUM_FAILURES)
        faults = [f"the index {name} is not valid; REINDEX INDEX {SCHEMA}.{name}" for name in names]
        if failed:
            faults.append(f"the server found {failed} pages with a wrong checksum")
        return faults

    async def size(self) -> Size:
        """The size of the tables and indexes; the journal is the server's own affair."""
        async with self._asking(self._open.short) as connection:
            return Size(int(await connection.fetchval(_SIZE, SCHEMA)), 0)

    async def checkpoint(self, *, whole: bool = False) -> bool:
        """The server makes its checkpoints itself."""
        return True

    async def give_back(self) -> int:
        """The server looks after its files itself."""
        return 0

    async def close(self) -> None:
        for task in self._side:
            task.cancel()
        await asyncio.gather(*self._side, return_exceptions=True)
        await self._singles.close()
        if self._listener.owes:
            with contextlib.suppress(PostgresFault, *ENGINE):
                async with asyncio.timeout(CLOSE_S), self._open.lent(self._open.writer) as connection:
                    await connection.execute(self._listener.notice)
        await self._open.close()
        # The lock last, so that the next daemon starts after this one's writes.
        if self._lock is not None:
            await self._lock.close()


_ALONE = f"SELECT pg_advisory_xact_lock({ROOM_LOCK}, hashtext('{SCHEMA}'))"
#: Empty in a database without the log's tables.
_AFTER_CRASH = """
SELECT CASE WHEN to_regprocedure('relay_after_crash()') IS NULL THEN '' ELSE 'SELECT relay_after_crash()' END
"""
_INVALID_INDEXES = """
SELECT c.relname AS name FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND NOT i.indisvalid ORDER BY 1
"""
_CHECKSUM_FAILURES = "SELECT checksum_failures FROM pg_stat_database WHERE datname = current_database()"
_SIZE = """
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'
"""


async def open_store(
    address: Address,
    wings: Iterable[Path],
    *,
    create: bool = True,
    connections: int = 8,
    connect_s: float = 10.0,
    busy_timeout_s: float = 30.0,
    clock: Callable[[], float] | None = None,
    member: str | None = None,
) -> PostgresStore:
    """Open (and migrate) the database at `address` for the given wing folders.

    Several processes may do so at once. `member`: as the daemon of that name, until it is closed. Raises
    StoreError when it cannot be reached or used, AnotherDaemon, and StoreMissing when it has no tables of ours and
    `create` is False.
    """
    store = PostgresStore(
        address,
        connections=connections,
        connect_s=connect_s,
        busy_timeout_s=busy_timeout_s,
        clock=clock,
        member=member,
    )
    try:
        await store.prepare(list(wings), create=create)
        await store.start()
    except BaseException:
        await store.close()
        raise
    return store
