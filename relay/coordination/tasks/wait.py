"""A call that waits for work: until there is a task for it, or its time is over.

Invariants:
- nothing is held while it waits: no transaction, no place in the database. Every commit wakes it, and it reads what
  happened since; it tries again only after something that may have made a task ready, so it writes nothing because
  others work;
- a caller that goes away has nothing: a claim that was made in that moment is undone, and no attempt of the task is
  counted;
- a key that was revoked, and a session that was ended meanwhile, get nothing.

There is no line: the first to try gets the task. (docs/coordination.md, "Work".)
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from relay.coordination.locks.table import FORCED, RELEASED
from relay.coordination.locks.wait import to_its_end
from relay.coordination.locks.wording import short
from relay.coordination.sessions import ENDED, was_ended
from relay.coordination.tasks.task_events import CHANGED, CREATED
from relay.coordination.tasks.work_request import Try, WorkRequest
from relay.log import events
from relay.model import Json, Refusal
from relay.store.ports import Tx
from relay.store.wakeup import Wakeup

#: Seconds between two looks at least: every commit wakes all who wait.
LOOK_EVERY_S = 0.05
#: Seconds after which it tries without a reason: a lease that ran out is no event until somebody asks for work.
TRY_EVERY_S = 15.0
#: What may make a task ready; the second, where files were in the way.
_OF_TASKS, _OF_FILES = (CREATED, CHANGED, ENDED), (RELEASED, FORCED)


class WorkWait:
    """The wait of one caller for one request."""

    def __init__(self, request: WorkRequest) -> None:
        self._request, self._store, self._caller = request, request.store, request.caller

    async def wait(self, wait_s: float, on_wait: Callable[[str], None] | None = None) -> Json:
        """At most `wait_s` seconds; `on_wait` is told that it waits. Raises Refusal."""
        end = time.monotonic() + wait_s
        wakeup = self._store.wakeup()
        try:
            while True:
                pos = await self._store.read(self._begin, actor=self._caller)
                tried = await self._try()
                left = end - time.monotonic()
                if left <= 0 or tried.final:
                    return tried.result()
                if on_wait is not None:
                    on_wait("No task for you is ready yet.")
                if not await self._until_ready(wakeup, pos, tried, left):
                    return (await self._try()).result()
        finally:
            wakeup.close()

    async def _try(self) -> Try:
        trying = asyncio.ensure_future(self._request.attempt())
        try:
            return await asyncio.shield(trying)
        except asyncio.CancelledError:
            await to_its_end(self._leave(trying))
            raise

    async def _leave(self, trying: asyncio.Future[Try]) -> None:
        # A try that failed got nothing, and a claim that cannot be undone now ends with its lease.
        with contextlib.suppress(Exception):
            tried = await trying
            if tried.answer is not None:
                await self._request.undo(tried.answer)

    async def _begin(self, tx: Tx) -> int:
        """Where the log stands. Raises Refusal when the caller is not let in any more."""
        refused = await self._request.heartbeat.let_in(tx, self._caller)
        if refused is not None:
            raise refused
        why = await was_ended(tx, self._caller)
        if why is not None:
            message = f"The session {short(self._caller.session)} was ended while it waited: {why}."
            raise Refusal(message, "A new call starts the session again.", code="session_ended")
        return await events.last_pos(tx)

    async def _until_ready(self, wakeup: Wakeup, pos: int, tried: Try, left: float) -> bool:
        """Wait until it is worth another try; False when the time is over first."""
        over = time.monotonic() + left
        again = time.monotonic() + min(TRY_EVERY_S, tried.next_s or TRY_EVERY_S)
        types = [*_OF_TASKS, *(_OF_FILES if tried.files else ())]

        async def look(tx: Tx) -> tuple[int, bool]:
            last = await self._begin(tx)
            news = bool(await events.read_after(tx, pos, types=types, limit=1))
            return last, news and await self._request.ready(tx)

        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            rest = min(over, again) - time.monotonic()
            if rest <= 0 or not await wakeup.wait(rest):
                return time.monotonic() < over
            pos, worth = await self._store.read(look, actor=self._caller)
            if worth:
                return True
