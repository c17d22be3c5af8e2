"""A process's connections to the database: what each is for, and the settings that it starts with.

Invariant: one connection is kept for general writes, one for long reads and one for LISTEN. The others are shared, so
a short read never waits behind a lock. What is set on a connection ends with its transaction (SET LOCAL, xact locks),
so a connection is not reset between two uses. A connection in an unknown state is closed; the pool makes another on
demand.

A connection that comes back from a good use stays on loan from its pool while nobody waits for one: to give it back
and to take it again costs as much processor time as a short statement.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import asyncpg

from relay.store.postgres.address import Address
from relay.store.postgres.errors import ENGINE, cannot_connect
from relay.store.postgres.rights import NONE, Rights

#: The schema of all our tables and functions, so that a shared database stays clean.
SCHEMA = "relay"
#: Connections with one purpose each: general writes, long reads, LISTEN. The others are shared.
KEPT = 3
#: Seconds after which the server ends a transaction that says nothing (a stopped process must not hold the room).
IDLE_S = 8
#: Seconds for one statement beyond the wait for a lock, then the connection counts as lost (a cut network).
STATEMENT_S = 30.0
LONG_STATEMENT_S = 600.0
#: Seconds that open connections get to end when the store closes.
CLOSE_S = 3.0


class Connections:
    """The pools `writer`, `long` and `short`, and connections for LISTEN."""

    def __init__(self, address: Address, *, most: int, connect_s: float, busy_timeout_s: float) -> None:
        self._address = address
        self._connect_s = connect_s
        self._busy_timeout_s = busy_timeout_s
        #: What the user of the address can take; known once the tables are there.
        self.rights: Rights = NONE
        #: What every connection asks first, once the tables are there (postgres/migrations/0002_after_a_crash.sql).
        self.after_crash = ""
        #: The server's process of the writer's connection.
        self.writer_pid: int | None = None
        self.writer = self._pool(1, init=self._start_writer)
        self.long = self._pool(1, command_timeout=LONG_STATEMENT_S)
        self.short = self._pool(max(1, most - KEPT))
        #: Of each pool the connections that are on loan and not in use, and how many callers wait for it.
        self._idle: dict[Any, list[Any]] = {pool: [] for pool in (self.writer, self.long, self.short)}
        self._waiting = dict.fromkeys(self._idle, 0)
        self._is_closing = False

    def _how(self, command_timeout: float | None = None) -> dict[str, Any]:
        return {
            "dsn": self._address.dsn,
            "timeout": self._connect_s,
            "command_timeout": command_timeout or self._busy_timeout_s + STATEMENT_S,
            "statement_cache_size": 1000,
            "max_cached_statement_lifetime": 0,
            # A pooler lets only these through; `start` sets the others.
            "server_settings": {"application_name": "relay", "timezone": "UTC"},
        }

    @property
    def _settings(self) -> str:
        lock_ms = max(1, round(self._busy_timeout_s * 1000))
        settings = {
            "search_path": SCHEMA,
            "synchronous_commit": "off",
            "lock_timeout": lock_ms,
            "idle_in_transaction_session_timeout": IDLE_S * 1000,
            "jit": "off",
            # Each statement has an index for any values (test_queries_postgres.py), so none is planned twice.
            "plan_cache_mode": "force_generic_plan",
            "standard_conforming_strings": "on",
            # The server, too, must find out that a client's machine is gone, and let its locks go.
            "tcp_keepalives_idle": 30,
            "tcp_keepalives_interval": 10,
            "tcp_keepalives_count": 3,
        }
        return "; ".join(f"SET {name} = {value}" for name, value in settings.items())

    def _pool(self, size: int, command_timeout: float | None = None, *, init: Any = None) -> Any:
        return asyncpg.create_pool(
            **self._how(command_timeout),
            min_size=0,
            max_size=size,
            init=init or self.start,
            reset=_nothing_to_reset,
            max_inactive_connection_lifetime=0,
            max_queries=10**9,
        )

    async def start(self, connection: Any) -> None:
        """Set up a connection: its settings, what a crash of the server left to do, then the service's role."""
        await connection.execute(
            "; ".join(filter(None, (self._settings, self.after_crash, self.rights.start)))
        )

    async def _start_writer(self, connection: Any) -> None:
        self.writer_pid = connection.get_server_pid()
        await self.start(connection)

    async def ready(self) -> None:
        """Before the first loan; a connection is made when one is wanted."""
        for pool in (self.writer, self.long, self.short):
            await pool

    async def connect(self) -> Any:
        """A connection outside of the pools. Raises PostgresFault, PostgresAway."""
        try:
            connection = await asyncpg.connect(**self._how())
        except (*ENGINE, ValueError) as error:
            raise cannot_connect(error, self._address.place) from None
        try:
            await connection.execute(self._settings)
        except BaseException as error:
            connection.terminate()
            if isinstance(error, ENGINE):
                raise cannot_connect(error, self._address.place) from None
            raise
        return connection

    @contextlib.asynccontextmanager
    async def lent(self, pool: Any) -> AsyncIterator[Any]:
        """`async with connections.lent(connections.short) as connection`. Raises PostgresFault, PostgresAway."""
        connection = await self._taken(pool)
        good = False
        try:
            yield connection
            good = _is_good(connection)
        finally:
            if good and not self._waiting[pool] and not self._is_closing:
                self._idle[pool].append(connection)
            else:
                await self._give_back(pool, connection)

    async def _taken(self, pool: Any) -> Any:
        while self._idle[pool]:
            connection = self._idle[pool].pop()
            if _is_good(connection):
                return connection
            await self._give_back(pool, connection)
        self._waiting[pool] += 1
        try:
            return await pool.acquire(timeout=self._busy_timeout_s + self._connect_s)
        except (*ENGINE, ValueError) as error:
            raise cannot_connect(error, self._address.place) from None
        finally:
            self._waiting[pool] -= 1

    async def _give_back(self, pool: Any, connection: Any) -> None:
        with contextlib.suppress(*ENGINE):
            await pool.release(connection, timeout=CLOSE_S)

    async def close(self) -> None:
        self._is_closing = True
        for pool in (self.long, self.short, self.writer):
            try:
                async with asyncio.timeout(CLOSE_S):
                    while self._idle[pool]:
                        await self._give_back(pool, self._idle[pool].pop())
                    await pool.close()
            except ENGINE:
                pool.terminate()


def _is_good(connection: Any) -> bool:
    try:
        return not (connection.is_closed() or connection.is_in_transaction())
    except asyncpg.InterfaceError:  # it was closed, and the pool has it back already
        return False


async def _nothing_to_reset(connection: Any) -> None:
    if connection.is_in_transaction():
        raise asyncpg.InterfaceError("the connection is still in a transaction")
