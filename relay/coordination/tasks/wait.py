"""A call that waits for work: until there is a task for it, or its time is over.

Invariants:
- nothing is held while it waits: no transaction, no place in the database. Every commit wakes it, and it reads what
  happened since; it tries again only after something that may have made a task ready, so it writes nothing because
  others work;
- who goes away has nothing: a claim that was made in that moment is undone, and no attempt of the task is counted;
- a key that was revoked, and a session that was ended meanwhile, get nothing.

There is no line: who tries first gets the task. (docs/coordination.md, "Work".)
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from relay.coordination.locks.table import FORCED, RELEASED
from relay.coordination.locks.wait import LetIn, to_its_end
from relay.coordination.locks.wording import short
from relay.coordination.sessions import ENDED, was_ended
from relay.coordination.tasks.task_events import CHANGED, CREATED
from relay.log import events
from relay.model import Caller, Fault, Refusal
from relay.store.ports import Store, Tx
from relay.store.wakeup import Wakeup

Json = dict[str, Any]

#: Seconds between two looks at least: every commit wakes all who wait.
LOOK_EVERY_S = 0.05
#: Seconds after which it tries without a reason: a lease that ran out is no event until somebody asks for work.
TRY_EVERY_S = 15.0
#: What may make a task ready; the second, where files were in the way.
_OF_TASKS, _OF_FILES = (CREATED, CHANGED, ENDED), (RELEASED, FORCED)
#: Those that give back what they have just now: a task that nobody refers to may be collected.
_LEAVING: set[asyncio.Future[None]] = set()


@dataclass(frozen=True, slots=True)
class Try:
    """What an attempt gave: `answer` is a task's, or None with `refusal` or `nothing` to be told at the end.

    `next_s`: seconds after which time alone may make one ready. `files`: held files were in the way."""

    answer: Json | None = None
    nothing: Json | None = None
    refusal: Refusal | None = None
    next_s: float | None = None
    files: bool = False

    def told(self) -> Json:
        """The answer to the caller. Raises Refusal."""
        if self.refusal is not None:
            raise self.refusal
        answer = self.answer or self.nothing
        assert answer is not None
        return answer


@dataclass(frozen=True, slots=True)
class WorkWait:
    """`attempt` tries once, in a transaction of its own; `undo` takes back the claim that it gave; `ready` says
    whether there may be a task for this caller."""

    store: Store
    caller: Caller
    let_in: LetIn
    attempt: Callable[[], Awaitable[Try]]
    undo: Callable[[Json], Awaitable[None]]
    ready: Callable[[Tx], Awaitable[bool]]
    heard: Callable[[str], None] | None = None

    async def wait(self, wait_s: float) -> Json:
        """At most `wait_s` seconds. Raises Refusal."""
        end = time.monotonic() + wait_s
        wakeup = self.store.wakeup()
        try:
            while True:
                pos = await self.store.read(self._begin, actor=self.caller)
                tried = await self._try()
                left = end - time.monotonic()
                if tried.answer is not None or left <= 0 or _is_final(tried):
                    return tried.told()
                if self.heard is not None:
                    self.heard("No task for you is ready yet.")
                if not await self._until_ready(wakeup, pos, tried, left):
                    return (await self._try()).told()
        finally:
            wakeup.close()

    async def _try(self) -> Try:
        trying = asyncio.ensure_future(self.attempt())
        try:
            return await asyncio.shield(trying)
        except asyncio.CancelledError:
            leaving = asyncio.ensure_future(self._leave(trying))
            _LEAVING.add(leaving)
            leaving.add_done_callback(_LEAVING.discard)
            with to_its_end():
                await asyncio.shield(leaving)
            raise

    async def _leave(self, trying: asyncio.Future[Try]) -> None:
        # A try that failed got nothing, and a claim that cannot be undone now ends with its lease.
        with contextlib.suppress(Exception):
            tried = await trying
            if tried.answer is not None:
                await self.undo(tried.answer)

    async def _begin(self, tx: Tx) -> int:
        """Where the log stands. Raises Refusal when the caller is not let in any more."""
        refused = await self.let_in(tx, self.caller)
        if refused is not None:
            raise refused
        why = await was_ended(tx, self.caller)
        if why is not None:
            message = f"The session {short(self.caller.session)} was ended while it waited: {why}."
            raise Refusal(message, "A new call starts the session again.", Fault.REFUSED, "session_ended")
        return await events.last_pos(tx)

    async def _until_ready(self, wakeup: Wakeup, pos: int, tried: Try, left: float) -> bool:
        """Wait until it is worth another try; False when the time is over first."""
        over = time.monotonic() + left
        again = time.monotonic() + min(TRY_EVERY_S, tried.next_s or TRY_EVERY_S)
        types = [*_OF_TASKS, *(_OF_FILES if tried.files else ())]

        async def look(tx: Tx) -> tuple[int, bool]:
            last = await self._begin(tx)
            news = bool(await events.read_after(tx, pos, types=types, limit=1))
            return last, news and await self.ready(tx)

        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            rest = min(over, again) - time.monotonic()
            if rest <= 0 or not await wakeup.wait(rest):
                return time.monotonic() < over
            pos, worth = await self.store.read(look, actor=self.caller)
            if worth:
                return True


def _is_final(tried: Try) -> bool:
    """Is the task that was named none that will ever be ready for this caller?"""
    reasons = () if tried.refusal is None else tried.refusal.details.get("reasons", ())
    return any(reason["reason"] in ("finished", "archived") for reason in reasons)
