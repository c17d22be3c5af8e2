"""The people who are connected to each member of a fleet: one list for the room.

Invariant: a member writes who is connected to it when that changed; whoever is at a member that is not here counts as
gone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence

from relay.app.fleet.fleet import LOOK_S, Fleet
from relay.fleet import members as fleet
from relay.fleet.members import MEMBER
from relay.room.journal.live_bus import Live
from relay.store.ports import Store, Tx

#: Seconds from when somebody comes or goes until the others are told.
SETTLE_S = 1.0


class FleetPeople:
    """Of this member."""

    def __init__(self, store: Store, fleet: Fleet, live: Live) -> None:
        self._store, self._fleet, self._live = store, fleet, live
        self._moved = asyncio.Event()
        live.moved = self._moved.set

    async def tell(self) -> None:
        """Tell the others who is connected here, for ever."""
        told: Sequence[str] | None = None
        while True:
            now, name = self._live.connected, self._fleet.name
            if now != told:

                async def work(tx: Tx, now: Sequence[str] = now, name: str = name) -> None:
                    await fleet.tell_people(tx, name, now)

                await self._store.write(work)
                told = now
            await self._moved.wait()
            await asyncio.sleep(SETTLE_S)  # a page that is loaded anew is nobody who left
            self._moved.clear()

    async def hear(self) -> None:
        """Take over who is connected to the others, for ever."""

        async def look(tx: Tx) -> Mapping[str, Sequence[str]]:
            return await fleet.people_elsewhere(tx, self._fleet.name)

        with contextlib.closing(self._store.wakeup([MEMBER])) as wakeup:
            while True:
                self._live.meet(await self._store.read(look))
                await wakeup.wait(LOOK_S)
