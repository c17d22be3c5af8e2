"""The files of messages that are at other members of a fleet: they come when a page asks for one, and when an agent
is given a message that names one (docs/entries.md).

Invariant: what comes is what the id says, by its hash; what does not come is said, with the member that has it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import time
from functools import partial
from typing import Any

import structlog

from relay.app.entries.files import RoomFiles
from relay.app.fleet.fleet import LOOK_S, Fleet
from relay.config.settings import LiveSettings
from relay.fleet import files as fleet_files
from relay.fleet.members import MEMBER
from relay.model import Fault, Refusal
from relay.room.parsing.file_names import ID
from relay.store.ports import Store, StoreError, Tx

log = structlog.get_logger(__name__)
#: Seconds that a file may take from a member that is here, and that others may take to say that they have a copy.
WAIT_S, COPY_S = 15.0, 2.0
#: Files that one text brings.
MOST = 50
#: Seconds between two looks whether it came.
_LOOK_S = 1.0


class FleetFiles(RoomFiles):
    """The files of one room that has several relays."""

    def __init__(self, store: Store, settings: LiveSettings, fleet: Fleet) -> None:
        super().__init__(store, settings)
        self._fleet = fleet
        self._coming: dict[str, asyncio.Task[bytes]] = {}

    async def add(self, name: str, data: bytes) -> dict[str, Any]:
        kept = await super().add(name, data)
        await self._store.write(lambda tx: fleet_files.put_at(tx, kept["id"], self._fleet.name))
        return kept

    async def forget_unnamed(self) -> list[str]:
        gone = await super().forget_unnamed()
        for id in gone:
            await self._store.write(partial(fleet_files.forget, id=id))
        return gone

    async def read(self, id: str) -> bytes:
        """The bytes of a file, which is kept here from then on. Raises Refusal."""
        try:
            return await super().read(id)
        except Refusal:
            if not ID.fullmatch(id):
                raise
        coming = self._coming.get(id)
        if coming is None:
            coming = self._coming[id] = asyncio.create_task(self._fetch(id), name=f"file-{id[:8]}")

            def done(task: asyncio.Task[bytes]) -> None:
                del self._coming[id]
                if not task.cancelled():
                    task.exception()  # whoever waited may have gone

            coming.add_done_callback(done)
        return await asyncio.shield(coming)

    async def bring(self, text: str) -> str:
        paths = dict.fromkeys(re.findall(rf"{re.escape(str(self.folder))}/({ID.pattern})", text))
        return "\n".join(filter(None, await asyncio.gather(*map(self._bring, [*paths][:MOST]))))

    async def _bring(self, id: str) -> str:
        path = self.folder / id
        if await asyncio.to_thread(path.exists):
            return ""
        try:
            await self.read(id)
        except Refusal as refusal:
            return f"{path} cannot be read now. {refusal}"
        except (StoreError, self._store.errors, OSError) as error:
            log.warning("file not fetched", file=id, error=str(error))
            return f"{path} cannot be read now: the room's database does not answer."
        here = await asyncio.to_thread(path.exists)
        return "" if here else f"{path} cannot be read: there is no space for it."

    async def _fetch(self, id: str) -> bytes:
        own = self._fleet.name
        at = await self._store.read(lambda tx: fleet_files.at(tx, id))
        known = {member.name: member for member in self._fleet.others}
        if not any(member.live for member in known.values()):
            raise self._missing(id, at)
        until = time.monotonic() + (WAIT_S if at in known and known[at].live else COPY_S)
        with contextlib.closing(self._store.wakeup([MEMBER])) as wakeup:
            await self._store.write(lambda tx: fleet_files.want(tx, id, own))
            try:
                while (parts := await self._store.read(lambda tx: fleet_files.given(tx, id, own))) is None:
                    left = until - time.monotonic()
                    if left <= 0:
                        raise self._missing(id, at)
                    await wakeup.wait(min(left, _LOOK_S))
                data = b"".join([await self._part(id, number) for number in range(parts)])
            finally:
                await self._store.write(lambda tx: fleet_files.stop_wanting(tx, own, id))
        if hashlib.sha256(data).hexdigest() != id.partition(".")[0]:
            raise Refusal(f"What came of {id} is not that file.", "Try again.", Fault.UNAVAILABLE, "broken")
        with contextlib.suppress(Refusal):  # no space: it is shown all the same
            await self.keep(id, data)
        return data

    async def _part(self, id: str, number: int) -> bytes:
        return await self._store.read(lambda tx: fleet_files.part(tx, id, self._fleet.name, number))

    def _missing(self, id: str, at: str) -> Refusal:
        away = [member.name for member in self._fleet.others if not member.live]
        if at and at != self._fleet.name:
            how = "does not answer" if at in away else "has not given it"
            again = f"It comes when {at} is back." if at in away else "Try again."
            return Refusal(f"The file is at {at}, which {how}.", again, Fault.UNAVAILABLE, "elsewhere")
        maybe = f"It may be at {' or '.join(away)}, which does not answer." if away else ""
        return Refusal(
            f"There is no file {id[:80]} at a relay of the room that answers.", maybe, Fault.UNKNOWN
        )

    async def give(self) -> None:
        """Give the others what they wait for, for ever."""
        own = self._fleet.name
        await self._store.write(lambda tx: fleet_files.stop_wanting(tx, own))  # of the daemon before
        with contextlib.closing(self._store.wakeup([MEMBER])) as wakeup:
            while True:
                for member, id in await self._store.read(fleet_files.wanted):
                    data = await self.here(id) if member != own and ID.fullmatch(id) else None
                    if data is not None:
                        await self._give(member, id, data)
                await wakeup.wait(LOOK_S)

    async def _give(self, member: str, id: str, data: bytes) -> None:
        starts = range(0, len(data), fleet_files.PART_BYTES)
        for number, start in enumerate(starts):
            piece = data[start : start + fleet_files.PART_BYTES]

            async def put(tx: Tx, number: int = number, piece: bytes = piece) -> None:
                await fleet_files.put_part(tx, id, member, number, piece)

            await self._store.write(put, single=True, quiet=True)
        await self._store.write(lambda tx: fleet_files.give(tx, id, member, len(starts), self._fleet.name))
