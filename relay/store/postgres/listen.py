"""The one reader of the log's end in a process: it wakes who waits here for what was appended. Between processes:
LISTEN and NOTIFY, on a session connection of its own.

Invariant: a wake-up is a hint. A general write sends its NOTIFY with its commit, and wakes those here by what it
appended. A single one only stirs the listener, which reads what types of events the log has got, wakes those here who
wait for them, and sends one NOTIFY for all that came meanwhile. When the database goes away, and after every new
connection, it wakes everybody, and about once a second it looks in any case, so a wake-up that was lost (a restart, a
client that sends none) costs that second and nothing else. It reads on behind the last event that it saw, and events
become visible in the order of `pos`, so it skips none.

It is also who tells the log that the database is away, for everybody in this process: once, then at growing
intervals, and once when it is back.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Any

import asyncpg
import structlog

from relay.store.postgres.errors import ENGINE, PostgresFault

log = structlog.get_logger(__name__)
#: Seconds between two looks at the log's end while nothing is heard.
LOOK_S = 1.0
#: Seconds after a look in which what is stirred waits for the next: many commits, one NOTIFY.
CALM_S = 0.01
#: Seconds between two tries to connect: at first, and at most (twice as long each time).
RETRY_S = (0.1, 5.0)
#: Seconds for which the database has been away when that is said again: at first, then each time after twice as long.
REMIND_S = 60.0
#: Events that are read at a look.
BATCH = 1000
_LAST = "SELECT coalesce(max(pos), 0) FROM events"
_NEWS = "SELECT pos, type FROM events WHERE pos > $1 ORDER BY pos LIMIT $2"


class Outage:
    """What the log is told of a database that is away. `clock`: seconds, monotonic."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: float | None = None
        self._again_s = REMIND_S

    def goes_on(self, why: str) -> bool:
        """A connection could not be made; is it the first?"""
        if self._since is None:
            self._since, self._again_s = self._clock(), REMIND_S
            log.warning("the database is away", why=why)
            return True
        away_s = self._clock() - self._since
        if away_s >= self._again_s:
            self._again_s = 2 * away_s
            log.warning("the database is still away", away_s=round(away_s), why=why)
        return False

    def ends(self) -> None:
        """A connection was made."""
        if self._since is not None:
            log.warning("the database is back", away_s=round(self._clock() - self._since, 1))
        self._since = None


class Listener:
    """Calls `notify` when something was committed. `writer` is the server process of this store's general writes,
    whose commits woke everybody here already."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Any]],
        channel: str,
        notify: Callable[[Collection[str] | None], None],
        writer: Callable[[], int | None],
    ) -> None:
        self._connect = connect
        self._channel = channel
        self._notify = notify
        self._writer = writer
        self._stirred = asyncio.Event()
        self._own: int | None = None
        #: Another process has committed something since the last look.
        self._heard_of = False
        #: The places of events whose appending woke those here already.
        self.told: set[int] = set()
        #: Was there a single write since the last look?
        self.owes = False

    @property
    def notice(self) -> str:
        """The statement that wakes the others."""
        return f"NOTIFY {self._channel}"

    def stir(self) -> None:
        """A single write ended here, and may have appended events."""
        self.owes = True
        self._stirred.set()

    async def run(self) -> None:
        """Listen for ever, through lost connections and restarts of the server."""
        wait_s, most_s = RETRY_S
        outage = Outage()
        while True:
            try:
                connection = await self._connect()
            except PostgresFault as error:
                if outage.goes_on(str(error)):
                    # Who waits here for what is appended finds out now that nothing can be.
                    self._notify(None)
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, most_s)
                continue
            outage.ends()
            wait_s = RETRY_S[0]
            try:
                with contextlib.suppress(*ENGINE):
                    await self._listen(connection)
            finally:
                connection.terminate()

    async def _listen(self, connection: Any) -> None:
        self._own = connection.get_server_pid()
        connection.add_termination_listener(lambda _: self._stirred.set())
        await connection.add_listener(self._channel, self._heard)
        last = -1
        while not connection.is_closed():
            self._stirred.clear()
            owes, self.owes = self.owes, False
            heard, self._heard_of = self._heard_of, False
            try:
                before, last = last, await self._look(connection, last, heard)
                if last != before and owes:
                    await connection.execute(self.notice)
            except BaseException:
                self.owes = self.owes or owes
                raise
            await asyncio.sleep(CALM_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._stirred.wait()

    async def _look(self, connection: Any, last: int, heard: bool) -> int:
        """Wake those here for what was appended behind `last` (-1: wake all); where the log's end is by now."""
        try:
            if last < 0:
                last = await connection.fetchval(_LAST)
                self._notify(None)
                return last
            rows = await connection.fetch(_NEWS, last, BATCH)
        except asyncpg.UndefinedTableError:
            return 0  # opened without the log's tables
        if rows:
            last = rows[-1]["pos"]
            types = {row["type"] for row in rows if row["pos"] not in self.told}
            self.told = {pos for pos in self.told if pos > last}
            if types:
                self._notify(types)
        elif heard:
            self._notify(())  # what another process did was no event
        if len(rows) == BATCH:
            self._stirred.set()
        return last

    def _heard(self, _connection: Any, pid: int, _channel: str, _payload: object) -> None:
        if pid not in (self._own, self._writer()):
            self._heard_of = True
            self._stirred.set()
