"""Hearing of other processes' commits: LISTEN, on a session connection of its own.

Invariant: a wake-up is a hint. After every new connection, and about once a second, the log is looked at, so one
that was lost (a restart, a client that could not NOTIFY) costs that second and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import structlog

from relay.log.postgres_errors import ENGINE, PostgresFault

log = structlog.get_logger(__name__)
#: Seconds between two looks at the log's end while nothing is heard.
LOOK_S = 1.0
#: Seconds between two tries to connect: at first, and at most (twice as long each time).
RETRY_S = (0.1, 5.0)
_LAST = "SELECT coalesce(max(pos), 0) FROM events"


class Listener:
    """Calls `notify` when something was committed. `own` says of a server process that it is this store's writer,
    whose commits woke everybody here already."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Any]],
        channel: str,
        notify: Callable[[], None],
        own: Callable[[int], bool],
    ) -> None:
        self._connect = connect
        self._channel = channel
        self._notify = notify
        self._own = own

    async def run(self) -> None:
        """Listen for ever, through lost connections and restarts of the server."""
        wait_s, most_s = RETRY_S
        away = False
        while True:
            try:
                connection = await self._connect()
            except PostgresFault as error:
                if not away:
                    log.warning("the database is away", why=str(error))
                away = True
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, most_s)
                continue
            if away:
                log.info("the database is back")
            wait_s, away = RETRY_S[0], False
            try:
                with contextlib.suppress(*ENGINE):
                    await self._listen(connection)
            finally:
                connection.terminate()

    async def _listen(self, connection: Any) -> None:
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _: lost.set())
        await connection.add_listener(self._channel, self._heard)
        last = None
        while not lost.is_set():
            now = await _last_pos(connection)
            if now != last:
                last = now
                self._notify()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await lost.wait()

    def _heard(self, _connection: Any, pid: int, _channel: str, _payload: object) -> None:
        if not self._own(pid):
            self._notify()


async def _last_pos(connection: Any) -> int:
    try:
        last: int = await connection.fetchval(_LAST)
    except asyncpg.UndefinedTableError:
        return 0  # opened without the log's tables
    return last
