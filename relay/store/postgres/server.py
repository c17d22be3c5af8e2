"""What a server and a database must be for a room to live in them.

Invariant: what is not so is said before the first table is made, in one sentence that says what to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from relay.store.ports import StoreError

#: The oldest whose SQL the migrations speak (docs/postgres.md); as `server_version_num` has it.
OLDEST = 140000
_ASK = """
SELECT current_setting('server_version_num')::integer AS version, current_setting('server_encoding') AS encoding,
  pg_is_in_recovery() AS standby, current_setting('transaction_read_only') = 'on' AS read_only,
  pg_backend_pid() AS pid
"""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """A server as it says of itself."""

    version: int
    encoding: str
    standby: bool = False
    read_only: bool = False

    def unfit(self, place: str) -> str:
        """Why no room can live there, and what to do; empty where one can."""
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
    """Is there a pooler between? Raises StoreError where no room can live there."""
    row = await connection.fetchrow(_ASK)
    if wrong := ServerSettings(row["version"], row["encoding"], row["standby"], row["read_only"]).unfit(
        place
    ):
        raise StoreError(wrong)
    # Without one, the server's process is the one that the connection was told of at its start.
    return bool(row["pid"] != connection.get_server_pid())


async def check_pooler(connection: Any, other: Any, place: str) -> None:
    """Raise StoreError where a pooler hands one client's connection to another between two transactions: what a
    connection is told (settings, role), what it listens to and what it has prepared would be another's then."""
    first: int = await connection.fetchval(_PID)
    async with other.transaction():
        shared = first == await other.fetchval(_PID) or first != await connection.fetchval(_PID)
    if shared:
        raise StoreError(
            f"{place} is a pooler in transaction mode, and relay needs connections of its own (LISTEN, roles, "
            "prepared statements): give the server's own address, or have the pooler in session mode (pool_mode)"
        )


_PID = "SELECT pg_backend_pid()"
