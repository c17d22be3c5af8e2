"""Tells the places outside what needs people (docs/inbox.md).

Invariants:
- a need is told to a place once, over restarts and kills: its id is kept before it is sent, and that it was told
  behind that. Killed in between, it is told again with the same id;
- a place that does not answer holds up nobody: each has its own pause, which grows, and nothing here keeps the loop;
- what is settled before it was told is not told.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import aiohttp
import structlog

from relay.app.needs.inbox import NeedsInbox
from relay.app.needs.need import Need
from relay.app.notify import sending, told
from relay.app.notify.bodies import body_of, headers_of
from relay.app.notify.places import Place, places_of
from relay.app.notify.told import Standing, Telling
from relay.config.command_line import command
from relay.config.settings import LiveSettings
from relay.room.journal import ledger
from relay.store.ports import Store, Tx

log = structlog.get_logger(__name__)
#: Seconds between two looks at the inbox: at least, and at most where nothing happens.
LOOK_S = (1.0, 5.0)
#: Seconds after which the room is told of a place that cannot be reached.
SAID_S = 300.0
#: Seconds until a place whose variable is not set is looked at again.
UNSET_S = 60.0


class Teller:
    """`page`: the room's own address, "" = not known yet; `clock`: Unix seconds, one for all members of a fleet."""

    def __init__(
        self,
        store: Store,
        settings: LiveSettings,
        read: Callable[[], Awaitable[list[Need]]],
        page: Callable[[], str],
        clock: Callable[[], float],
    ) -> None:
        self._store, self._settings, self._read, self._page, self._clock = store, settings, read, page, clock
        self._standing: dict[str, Standing] = {}
        self._needs: dict[str, Need] = {}
        self._busy: set[str] = set()

    async def run(self) -> None:
        """Tell what there is to tell, for ever."""
        self._busy.clear()
        least, most = LOOK_S
        self._standing = await self._store.read(told.load)
        async with sending.session() as http, asyncio.TaskGroup() as group:
            with contextlib.closing(self._store.wakeup()) as wakeup:
                while True:
                    places = places_of(self._settings.current.notify)
                    if places or self._standing:
                        await self._look(places)
                    for place in places:
                        standing = self._standing[place.name]
                        if place.name in self._busy or not standing.waiting or standing.next > self._clock():
                            continue
                        self._busy.add(place.name)
                        group.create_task(self._tell(http, place, standing))
                    await asyncio.sleep(least)
                    idle = [each for name, each in self._standing.items() if name not in self._busy]
                    await wakeup.wait(told.soonest(idle, self._clock(), most - least))

    async def _look(self, places: tuple[Place, ...]) -> None:
        """Take in what needs people now, and keep the ids of what is new before anything is sent."""
        needs = await self._read() if places else []
        self._needs = {need.told_as: need for need in needs}
        names = [place.name for place in places]
        changed = set(names) != set(self._standing)
        self._standing = {name: self._standing.get(name) or Standing() for name in names}
        for place in places:
            changed |= self._standing[place.name].take_in(needs, place, self._clock())
        if changed:
            await self._keep()
        for place in places:
            if place.trouble and not self._standing[place.name].said:
                await self._troubled(place, self._standing[place.name])

    async def _tell(self, http: aiohttp.ClientSession, place: Place, standing: Standing) -> None:
        """Send what waits, one by one, until one is not taken."""
        try:
            for id, telling in standing.waiting:
                need = self._needs.get(id)
                if need is None or not telling.waits:
                    continue
                if not await self._told(http, place, standing, need, telling):
                    break
        finally:
            self._busy.discard(place.name)

    async def _told(
        self, http: aiohttp.ClientSession, place: Place, standing: Standing, need: Need, telling: Telling
    ) -> bool:
        """Send one. False: the place is left alone for a while."""
        if place.trouble:
            standing.failed(place.trouble, UNSET_S, self._clock())
            await self._troubled(place, standing)
            return False
        url, body = body_of(place, need, self._settings.current.room_name, place.page or self._page())
        headers = headers_of(place, telling.id, int(self._clock()), body)
        answer = await sending.post(http, place, url, body, headers)
        now = self._clock()
        if answer.ok:
            standing.done(telling, now)
            log.info("a need was told outside", place=place.name, need=need.id)
            await self._keep()
            return True
        if answer.passes:
            standing.failed(answer.said, answer.after_s, now)
        else:
            standing.refused(telling, answer.said, now)
        await self._troubled(place, standing, need.id, gave_up=telling.gave_up is not None)
        return not answer.passes

    async def _troubled(
        self, place: Place, standing: Standing, need: str = "", *, gave_up: bool = False
    ) -> None:
        """Keep that it failed; the room is told once of what does not pass by itself soon."""
        now = self._clock()
        log.warning(
            "a place outside was not told",
            place=place.name,
            need=need,
            reason=standing.trouble,
            gave_up=gave_up,
            again_in_s=None if gave_up else round(max(0.0, standing.next - now), 1),
        )
        says = not standing.said and (gave_up or bool(place.trouble) or now - standing.since > SAID_S)
        standing.said = standing.said or says

        async def work(tx: Tx) -> None:
            await told.keep(tx, self._standing)
            if says:
                trial = command(f"notify test {place.name}")
                text = f"{place.name} is not told what needs you: {standing.trouble}. {trial} tries it."
                await ledger.say(tx, text, meta={"notice": "notify"})

        await self._store.write(work)

    async def _keep(self) -> None:
        await self._store.write(lambda tx: told.keep(tx, self._standing))


def inbox_of(store: Store, inbox: NeedsInbox) -> Callable[[], Awaitable[list[Need]]]:
    """What needs people, read in a transaction of its own."""
    return lambda: store.read(inbox.read)


def tells(settings: LiveSettings, kind: str) -> bool:
    """Is a place told of needs of this kind?"""
    return any(place.wants(kind) and not place.trouble for place in places_of(settings.current.notify))
