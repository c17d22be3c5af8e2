"""The one reader of the log's end in a process: it wakes the waiters of this process for new events. Processes tell
each other by LISTEN and NOTIFY, on a session connection of its own.

Invariant: a wake-up is a hint. A general write sends its NOTIFY with its commit, and wakes the waiters of its process
by the events that it appended. A single write only stirs the listener, and a quiet one not even that. The listener
then reads the types of the new events, wakes their waiters, and sends one NOTIFY for all of them. It wakes everybody
when the database goes away and after every new connection, and it looks about once a second in any case, so a lost
wake-up (a restart, a client that sends none) costs that second and nothing else. It reads on behind the last event
that it saw, and events become visible in the order of `pos`, so it skips none.

The listener also writes for the whole process to relay's log that the database is away: once, then at growing
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
#: Seconds between two looks while it is stirred: many commits, one NOTIFY.
CALM_S = 0.01
#: Seconds between two tries to connect: at first, and at most (twice as long each time).
RETRY_S = (0.1, 5.0)
#: Seconds until an outage is logged again; the interval doubles each time.
REMIND_S = 60.0
#: Events that are read at a look.
BATCH = 1000
_LAST = "SELECT coalesce(max(pos), 0) FROM events"
_NEWS = "SELECT pos, type FROM events WHERE pos > $1 ORDER BY pos LIMIT $2"


class Outage:
    """Logs that the database is away, and for how long. `clock`: seconds, monotonic."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: float | None = None
        self._again_s = REMIND_S

    def goes_on(self, why: str) -> bool:
        """A connection could not be made; True where the outage begins with it."""
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
    """Calls `notify` when something was committed. `writer`: the server process of this store's general writes, whose
    commits have woken the waiters of this process already."""

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
        #: Whether another process has committed since the last look.
        self._heard_of = False
        #: The places of events whose waiters here were woken already.
        self.known: set[int] = set()
        #: Whether there was a single write since the last look.
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
                    # The waiters of this process find out that nothing can be appended now.
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
        """Wake the waiters of the events behind `last` (-1: all waiters); returns the log's end."""
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
            types = {row["type"] for row in rows if row["pos"] not in self.known}
            self.known = {pos for pos in self.known if pos > last}
            if types:
                self._notify(types)
        elif heard:
            self._notify(())  # another process committed something without an event
        if len(rows) == BATCH:
            self._stirred.set()
        return last

    def _heard(self, _connection: Any, pid: int, _channel: str, _payload: object) -> None:
        if pid not in (self._own, self._writer()):
            self._heard_of = True
            self._stirred.set()
