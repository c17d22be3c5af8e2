"""A session that holds the room's lock and says nothing more: its process was stopped in the middle of a statement.

The server ends a transaction that is idle (`IDLE_S`). One that waits for the second half of a statement (it was
prepared, and not run) counts as active there, so whoever waits for the lock ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import structlog

from relay.store.postgres.connections import IDLE_S
from relay.store.postgres.errors import ENGINE, PostgresFault

log = structlog.get_logger(__name__)
#: Seconds between two looks.
LOOK_S = 2.0
_END = """
SELECT l.pid, pg_terminate_backend(l.pid) AS ended FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.classid::bigint = $1::bigint AND l.objid::bigint = (hashtext($2)::bigint & 4294967295)
  AND a.wait_event = 'ClientRead' AND a.state_change < clock_timestamp() - make_interval(secs => $3)
"""
#: Makes a connection with the rights of the process, outside of the pools.
Connect = Callable[[], Awaitable[Any]]


@contextlib.contextmanager
def ending_silent(connect: Connect, lock: int, schema: str) -> Iterator[None]:
    """While this is open, a holder of the lock that has said nothing for `IDLE_S` is ended."""
    looks: list[asyncio.Task[None]] = []

    def begin() -> None:
        looks.append(asyncio.create_task(_look(connect, lock, schema), name="store-silent"))

    timer = asyncio.get_running_loop().call_later(IDLE_S, begin)
    try:
        yield
    finally:
        timer.cancel()
        for task in looks:
            task.cancel()


async def _look(connect: Connect, lock: int, schema: str) -> None:
    while True:
        connection = None
        try:
            connection = await connect()
            for row in await connection.fetch(_END, lock, schema, float(IDLE_S)):
                log.warning("a session that held the room's lock and said nothing is ended", **dict(row))
        except (*ENGINE, PostgresFault) as error:
            log.info("who holds the room's lock is not known", reason=str(error))
        finally:
            if connection is not None:
                connection.terminate()
        await asyncio.sleep(LOOK_S)
