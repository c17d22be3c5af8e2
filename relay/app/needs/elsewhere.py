"""What needs people at the other members of a fleet: what an agent at work asks for, and that it is silent, only the
relay knows where it works. So each tells the others.

Invariant: what a member told counts as long as it is here; a request whose time is over is no need, whoever told it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time

from relay.app.fleet.fleet import LOOK_S, Fleet
from relay.app.needs.need import Need
from relay.fleet import members as fleet
from relay.fleet.members import MEMBER, MemberState
from relay.log.encoding import dumps
from relay.room.journal.live_bus import Live
from relay.store.ports import Store, Tx, Work

#: Seconds between two looks at what this member has, and seconds after which it tells what stands anew: how long an
#: agent has been silent is a part of it.
TELL_S, ANEW_S = 1.0, 60.0
#: Needs that a member tells.
MOST = 100


class NeedsElsewhere:
    """`own`: what this member alone knows of."""

    def __init__(self, store: Store, fleet: Fleet, live: Live, own: Work[list[Need]]) -> None:
        self._store, self._fleet, self._live, self._own = store, fleet, live, own

    @property
    def away(self) -> list[str]:
        """The members that cannot be reached: what their agents ask for is not known."""
        return [member.name for member in self._fleet.others if member.state is MemberState.AWAY]

    async def read(self, tx: Tx) -> list[Need]:
        """What the members that are here have told."""
        if self._fleet.alone:
            return []
        now, found = self._fleet.now(), list[Need]()
        for told in (await fleet.needs_elsewhere(tx, self._fleet.name)).values():
            for value in json.loads(told):
                with contextlib.suppress(KeyError, TypeError, ValueError):  # of another version of relay
                    found.append(Need.of_value(value))
        return [need for need in found if need.ends is None or need.ends > now]

    async def tell(self) -> None:
        """Tell the others, for ever."""
        told: list[tuple[str, ...]] | None = None
        at, name = 0.0, self._fleet.name
        while True:
            needs = (await self._store.read(self._own, single=True))[:MOST]
            ids, now = [(need.id, *need.parts) for need in needs], time.monotonic()
            if ids != told or (needs and now - at > ANEW_S):
                value = dumps([need.as_value() for need in needs])

                async def work(tx: Tx, value: str = value) -> None:
                    await fleet.tell_needs(tx, name, value)

                await self._store.write(work)
                told, at = ids, now
            await asyncio.sleep(TELL_S)

    async def hear(self) -> None:
        """Let the pages here look again when another member has told something, for ever."""
        known: list[str] | None = None
        with contextlib.closing(self._store.wakeup([MEMBER])) as wakeup:
            while True:
                ids = [need.id for need in await self._store.read(self.read)]
                if known is not None and ids != known:
                    self._live.publish("needs", {"elsewhere": len(ids)})
                known = ids
                await wakeup.wait(LOOK_S)
