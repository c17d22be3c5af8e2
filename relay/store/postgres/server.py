"""What relay needs of a server and a database.

Invariant: an unfit server is refused before the first table is made, in one sentence that says what to do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import asyncpg

from relay.store.ports import StoreError

#: The oldest version that the migrations run on (docs/postgres.md), as `server_version_num`.
OLDEST = 140000
_ASK = """
SELECT current_setting('server_version_num')::integer AS version, current_setting('server_encoding') AS encoding,
  pg_is_in_recovery() AS standby, current_setting('transaction_read_only') = 'on' AS read_only,
  pg_backend_pid() AS pid
"""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What a server says of itself."""

    version: int
    encoding: str
    standby: bool = False
    read_only: bool = False

    def unfit(self, place: str) -> str:
        """Why relay cannot use this server, and what to do; empty where it can."""
        if self.version < OLDEST:
            version = f"{self.version // 10000}.{self.version % 10000}"
            return (
                f"{place} is PostgreSQL {version}; relay needs {OLDEST // 10000} or newer: upgrade the server"
            )
        if self.encoding != "UTF8":
            return (
                f"{place} has the encoding {self.encoding}, and relay needs UTF8: make another database "
                "(CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0)"
            )
        if self.standby:
            return (
                f"{place} is a standby, which can only be read: give the address of its primary (of several hosts: "
                "`?target_session_attrs=primary`)"
            )
        if self.read_only:
            return (
                f"{place} lets this user only read (default_transaction_read_only is on); turn that off: ALTER "
                "DATABASE or ALTER ROLE ... SET default_transaction_read_only = off"
            )
        return ""


async def check_server(connection: Any, place: str) -> bool:
    """Whether there is a pooler in between. Raises StoreError where relay cannot use the server."""
    with _told(place):
        row = await connection.fetchrow(_ASK)
    if wrong := ServerSettings(row["version"], row["encoding"], row["standby"], row["read_only"]).unfit(
        place
    ):
        raise StoreError(wrong)
    # Without a pooler, the process that answers is the one that the connection began with.
    return bool(row["pid"] != connection.get_server_pid())


#: How often the pooler is looked at: while others use it, it may give two clients what looks like one each.
_LOOKS = 20
_PID = "SELECT pg_backend_pid()"


async def check_pooler(connection: Any, other: Any, place: str) -> None:
    """Raise StoreError where a pooler gives a client's connection to another one between two transactions. Settings,
    role, LISTEN and prepared statements would then be another client's."""
    with _told(place):
        first: int = await connection.fetchval(_PID)
        for _ in range(_LOOKS):
            async with other.transaction():
                shared = first == await other.fetchval(_PID) or first != await connection.fetchval(_PID)
            if shared:
                raise _shared(place)


@contextlib.contextmanager
def _told(place: str) -> Iterator[None]:
    """What only such a pooler makes the server or the driver say, in words: it has prepared a statement elsewhere, or
    (in statement mode) ends the connection at a BEGIN."""
    try:
        yield
    except (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError):
        raise _shared(place) from None
    except asyncpg.PostgresError as error:
        if "pooling mode" not in str(error):
            raise
        raise _shared(place) from None


def _shared(place: str) -> StoreError:
    return StoreError(
        f"{place} is a pooler in transaction mode, and relay needs connections of its own (LISTEN, roles, prepared "
        "statements): give the server's own address, or have the pooler in session mode (pool_mode; Supabase: port "
        "5432 instead of 6543)"
    )
