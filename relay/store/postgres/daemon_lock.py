"""One daemon for each member of a room's fleet: session-level advisory locks, held by a session of their own.

Invariants: the server gives a member's lock to one session, and frees it when that session ends for any reason, so
no record of the holder can be stale. A daemon holds the lock of the whole database too, shared with the other
members: a relay of before there were fleets takes that one alone, so such a daemon and a member never run side by
side. The session sets its name before it asks for the locks. A daemon writes nothing unless it knows that it holds
them: it asks again every `LOOK_S`, and counts as without them after `SURE_S` without an answer. That is before the
server can find out that a client is gone (connections.py: keepalives of 30 s and 3 times 10 s). A daemon that comes
back while another one has its lock does not go on.

Source: PostgreSQL, "Advisory Locks" and "The pg_locks View".
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import structlog

from relay.store.ports import AnotherDaemon
from relay.store.postgres.errors import ENGINE, PostgresFault, PostgresLost, translated

log = structlog.get_logger(__name__)
#: The first halves of the locks' keys (as ROOM_LOCK in store.py): of the database, whose second half is the schema's
#: hash, and of a member, whose second half is the hash of the schema with the member's name.
SOLE_LOCK = 1919249531
MEMBER_LOCK = 1919249532
#: Seconds between two checks of the session, and for the answer to one.
LOOK_S = 5.0
ANSWER_S = 20.0
#: Seconds without an answer after which this process no longer counts as the holder.
SURE_S = 30.0
#: Seconds that a start waits for the lock of a process that has just died.
PATIENT_S = 3.0
#: Seconds between two tries to connect: at first, and at most (twice as long each time).
RETRY_S = (0.1, 5.0)
_NAME = re.compile(r"relay daemon (?P<pid>\d+) (?P<mark>[0-9a-f]{8}) (?P<host>.+)")
_TRY = "SELECT pg_try_advisory_lock($1::integer, hashtext($2))"
_TRY_SHARED = "SELECT pg_try_advisory_lock_shared($1::integer, hashtext($2))"
_HOLDER = """
SELECT l.pid, coalesce(a.application_name, '') AS name FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.mode = 'ExclusiveLock' AND l.classid::bigint = $1::bigint
  AND l.objid::bigint = (hashtext($2)::bigint & 4294967295)
"""


@dataclass(frozen=True, slots=True)
class DaemonSession:
    """The session that has a lock. `backend`: its process on the server; `folder`: of its room, '' = not known."""

    backend: int
    name: str
    #: It shares the database with no other daemon: a relay of before there were fleets.
    alone: bool = False
    folder: str = ""

    def __str__(self) -> str:
        match = _NAME.fullmatch(self.name)
        if match is None:
            return f"a program that calls itself {self.name!r} (process {self.backend} of the server)"
        return f"pid {match['pid']} on {match['host']}" + (f", in {self.folder}" if self.folder else "")


async def holder_of(connection: Any, schema: str, member: str) -> DaemonSession | None:
    """The session of the daemon that keeps one from starting as this member: the member's own, or that of a relay
    which shares its database with none; None: there is neither."""
    for lock, name in ((MEMBER_LOCK, _key(schema, member)), (SOLE_LOCK, schema)):
        row = await connection.fetchrow(_HOLDER, lock, name)
        if row is not None:
            alone = lock == SOLE_LOCK
            folder = "" if alone else await _folder_of(connection, schema, member, row["name"])
            return DaemonSession(row["pid"], row["name"], alone=alone, folder=folder)
    return None


async def _folder_of(connection: Any, schema: str, member: str, session: str) -> str:
    """Where the daemon of this session has its room, by what it told the fleet; '' = it has not told."""
    match = _NAME.fullmatch(session)
    table = f'"{schema}".fleet_members'
    if match is None or await connection.fetchval("SELECT to_regclass($1)::text", table) is None:
        return ""
    row = await connection.fetchrow(f"SELECT host, folder FROM {table} WHERE name = $1", member)
    # A session's name has the host as far as there is room for it.
    return str(row["folder"]) if row is not None and row["host"].startswith(match["host"]) else ""


def _key(schema: str, member: str) -> str:
    return f"{schema}/{member}"


def _seconds() -> float:
    # A machine that was suspended was away for that long, which the usual clock does not count.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class DaemonLock:
    """The locks of one member, as this process has them. `connect` makes a connection for them alone."""

    def __init__(self, connect: Callable[[], Awaitable[Any]], schema: str, place: str, member: str) -> None:
        self._connect = connect
        self._member = member
        self._schema = schema
        self._place = place
        # Another process of the same number and host (two containers) has another mark. The server keeps 63 bytes.
        name = f"relay daemon {os.getpid()} {secrets.token_hex(4)} {socket.gethostname()}"
        self._name = "".join(c for c in name if c.isascii() and c.isprintable() and c != "'")[:63]
        self._connection: Any = None
        self._seen_at = 0.0
        self._ended = asyncio.Event()
        self._is_lost = asyncio.Event()
        #: Set once another daemon has the lock; this process does not take it again.
        self.lost: AnotherDaemon | None = None

    @property
    def held(self) -> bool:
        """Whether the lock is surely ours."""
        open_ = self._connection is not None and not self._connection.is_closed()
        return open_ and _seconds() - self._seen_at < SURE_S

    def check(self) -> None:
        """Raise where the lock is not held: AnotherDaemon, or PostgresLost while it may come back."""
        if self.lost is not None:
            raise self.lost
        if not self.held:
            raise PostgresLost(
                f"the connection to {self._place} that holds this member's lock was lost, and is opened "
                "again; nothing was changed, try again"
            )

    async def take(self) -> None:
        """Take the lock at the start. Raises AnotherDaemon, PostgresFault."""
        give_up = time.monotonic() + PATIENT_S
        while (holder := await self._try()) is not None:
            if time.monotonic() > give_up:
                raise self._refusal(holder)
            await asyncio.sleep(RETRY_S[0])

    async def keep(self) -> None:
        """Hold the lock until another daemon has it, through lost connections and restarts of the server."""
        while self.lost is None:
            await self._watch()
            log.warning("the lock of this member of the fleet was lost, and is taken anew")
            if await self._take_again():
                log.warning("the lock of this member of the fleet is held again")

    async def stay(self) -> None:
        """Wait until another daemon has the lock. Raises AnotherDaemon."""
        await self._is_lost.wait()
        self.check()

    async def close(self) -> None:
        """Release the lock."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(*ENGINE):
                await connection.close(timeout=LOOK_S)

    async def _watch(self) -> None:
        """Return when the session is gone."""
        while self._connection is not None and not self._connection.is_closed():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._ended.wait()
                    break
            asked = _seconds()
            try:
                await self._connection.execute("SELECT", timeout=ANSWER_S)
            except ENGINE:
                break
            self._seen_at = asked
        if self._connection is not None:
            self._connection.terminate()

    async def _take_again(self) -> bool:
        """Take the lock again, however long that takes; False: another daemon has it."""
        wait_s, most_s = RETRY_S
        while True:
            try:
                holder = await self._try()
            except PostgresFault:
                pass  # the listener tells the log that the database is away
            else:
                if holder is None:
                    return True
                if holder.name != self._name:
                    self.lost = self._refusal(holder)
                    self._is_lost.set()
                    return False
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, most_s)

    async def _try(self) -> DaemonSession | None:
        """Take the lock on a new connection, or return its holder; an old session of ours is ended."""
        connection = await self._connect()
        try:
            asked = _seconds()
            self._ended = ended = asyncio.Event()
            connection.add_termination_listener(lambda _: ended.set())
            await connection.execute(f"SET application_name = '{self._name}'; SET idle_session_timeout = 0")
            while not (
                await connection.fetchval(_TRY_SHARED, SOLE_LOCK, self._schema)
                and await connection.fetchval(_TRY, MEMBER_LOCK, _key(self._schema, self._member))
            ):
                holder = await holder_of(connection, self._schema, self._member)
                if holder is not None:  # else it was just given back
                    if holder.name == self._name:
                        await connection.fetchval("SELECT pg_terminate_backend($1)", holder.backend)
                    return holder
            self._connection, self._seen_at = connection, asked
            return None
        except ENGINE as error:
            raise translated(error, self._place) from error
        finally:
            if connection is not self._connection:
                connection.terminate()

    def _refusal(self, holder: DaemonSession) -> AnotherDaemon:
        if holder.alone:
            return AnotherDaemon(
                f"the database {self._place} has a daemon already that shares it with none: {holder}. It is an older "
                "relay: stop it there (bash stop.sh) and update it, or give this room a database of its own"
            )
        return AnotherDaemon(
            f"the database {self._place} has a daemon already that is called {self._member!r}: {holder}. Stop it "
            "there (bash stop.sh), or give one of the two another name (`fleet.name`)"
        )
