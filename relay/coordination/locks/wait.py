"""One request for locks that stands in line until it is granted, refused or too late.

Invariants:
- a wait that is cancelled leaves nothing behind: it gives up its place, and what it was granted at that moment;
- a caller whose key was revoked or expired is granted nothing, and neither is a session that ended meanwhile. Both
  are checked in the transaction that would grant it, and such a wait leaves the line;
- the store's clock decides when the time is over; the event loop's clock only decides when to look again.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from relay.coordination.locks import wait_line
from relay.coordination.locks.acquisition import Acquisition, Answer
from relay.coordination.locks.lock import Blocked, Granted
from relay.coordination.locks.wording import short
from relay.coordination.sessions import was_ended
from relay.model import Refusal
from relay.store.ports import Store, StoreError, Tx
from relay.store.wakeup import Wakeup

#: Seconds between two looks at least: every commit wakes all who wait.
LOOK_EVERY_S = 0.02
#: Those that give back what they have just now: a task that nobody refers to may be collected.
_LEAVING: set[asyncio.Future[None]] = set()


async def to_its_end(leaving: Coroutine[Any, Any, None]) -> None:
    """Run it in a task of its own, which goes on however often the waiting one is cancelled meanwhile: by asyncio, or
    by anyio, in whose scopes the SDK of MCP runs its calls and which cancel every further await too."""
    from anyio import CancelScope  # imported only when a call is cancelled

    task = asyncio.ensure_future(leaving)
    _LEAVING.add(task)
    task.add_done_callback(_LEAVING.discard)
    with CancelScope(shield=True):
        await asyncio.shield(task)


class LockWait:
    """The wait of one caller for one request."""

    def __init__(self, store: Store, acquisition: Acquisition) -> None:
        self._store, self._acquisition = store, acquisition
        self._caller, self._wanted = acquisition.caller, acquisition.request
        self._shown: tuple[object, ...] = ()
        self._place: int | None = None
        self._granted: Granted | None = None
        self._trying: asyncio.Future[Answer] | None = None
        self._until = 0.0
        self._now = 0.0

    async def take_turn(self, wait_s: float, on_wait: Callable[[str], None] | None = None) -> Answer:
        """Wait for `wait_s` seconds at most. The answer of a wait that was too late is `timeout`. `on_wait` is told
        where in line the caller stands and behind whom, each time that changes."""
        wakeup = self._store.wakeup()
        try:
            while True:
                outcome = await self._attempt(wait_s)
                if not isinstance(outcome, Blocked) or outcome.reason in ("deadlock", "timeout"):
                    return outcome
                self._show(outcome, on_wait)
                await self._until_changed(wakeup, outcome, on_wait)
        finally:
            wakeup.close()
            if self._trying is not None or self._place is not None:
                await to_its_end(self._leave())

    async def _attempt(self, wait_s: float) -> Answer:
        """One try. It runs to its end even when this wait is cancelled meanwhile: only then is it known what there
        is to give back."""
        self._trying = asyncio.ensure_future(
            self._store.write(lambda tx: self._try(tx, wait_s), actor=self._caller)
        )
        outcome = await asyncio.shield(self._trying)
        self._trying = None
        return outcome

    async def _leave(self) -> None:
        """Give back what a wait that was broken off has, or gets at this moment."""
        if self._trying is not None:
            # A try that failed got nothing.
            with contextlib.suppress(Exception):
                outcome = await self._trying
                self._granted = outcome if isinstance(outcome, Granted) else None
        if self._granted is not None or self._place is not None:
            # A place that cannot be given up now is none after a moment.
            with contextlib.suppress(StoreError, self._store.errors):
                await self._store.write(self._undo, actor=self._caller)

    async def _try(self, tx: Tx, wait_s: float) -> Answer:
        self._now = now = await tx.now()
        place = self._place
        refused = await self._acquisition.heartbeat.let_in(tx, self._caller)
        if place is None:
            self._until = now + wait_s
        elif refused is not None or not await wait_line.still(tx, place):
            # Given up for dead, and others have passed: to come back is to begin again, behind them.
            refused = refused or await self._ended(tx)
            await wait_line.leave(tx, place)
            place = None
        if refused is not None:
            self._place = None
            return refused
        outcome = await self._acquisition.attempt(tx, place, waits_on=True)
        over = not isinstance(outcome, Blocked) or outcome.reason == "deadlock" or now >= self._until
        if not over and place is None:
            place = await wait_line.stand(tx, self._caller, self._wanted, self._until)
        elif over and place is not None:
            await wait_line.leave(tx, place)
        self._place = None if over else place
        if isinstance(outcome, Blocked) and over and outcome.reason != "deadlock":
            return replace(outcome, reason="timeout")
        return outcome

    async def _ended(self, tx: Tx) -> Refusal | None:
        """Why nothing is granted any more in this session, which lost its place: it was ended."""
        why = await was_ended(tx, self._caller)
        if why is None:
            return None
        session = short(self._caller.session)
        message = f"The session {session} of {self._caller.agent} was ended while it waited: {why}."
        fix = "A new call starts the session again; acquire again what it held."
        return Refusal(message, fix, code="session_ended")

    async def _until_changed(
        self, wakeup: Wakeup, blocked: Blocked, on_wait: Callable[[str], None] | None
    ) -> None:
        """Until it may be our turn, our time is over, or the line has to see us again."""
        end = min(self._until, blocked.until) - self._now
        look_at = time.monotonic() + min(wait_line.SEEN_EVERY_S, end)
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            left = look_at - time.monotonic()
            if left <= 0 or not await wakeup.wait(left):
                return
            obstacle: Blocked | None = await self._store.read(self._obstacle, actor=self._caller)
            if obstacle is None:
                return
            self._show(obstacle, on_wait)

    async def _obstacle(self, tx: Tx) -> Blocked | None:
        """What is in the way yet; None: it may be our turn, or there is none any more."""
        if await self._acquisition.heartbeat.let_in(tx, self._caller) is not None:
            return None
        return await wait_line.obstacle(tx, self._caller, self._wanted, self._place)

    def _show(self, blocked: Blocked, on_wait: Callable[[str], None] | None) -> None:
        stands = (blocked.position, blocked.by.holder)
        if on_wait is not None and stands != self._shown:
            self._shown = stands
            on_wait(blocked.in_line())

    async def _undo(self, tx: Tx) -> None:
        """Give up the place in line, and what was granted to nobody any more."""
        if self._place is not None:
            await wait_line.leave(tx, self._place)
        if self._granted is not None:
            await self._acquisition.give_back(tx, self._granted)
