"""When the room says something: by the store's clock, whatever the machine's own says."""

from __future__ import annotations

from pathlib import Path

from relay.base.durations import iso
from relay.room.journal import ledger
from tests.engines import BOTH, Clock
from tests.room.parts import open_room

pytestmark = BOTH


async def test_the_room_speaks_by_the_store_s_clock(tmp_path: Path, clock: Clock) -> None:
    store = await open_room(tmp_path, clock=clock)
    said, _ = await store.write(lambda tx: ledger.say(tx, "by the store"))
    assert said.ts == iso(clock.now)
    said, _ = await store.write(lambda tx: ledger.say(tx, "as given", now=clock.now - 5.0))
    assert said.ts == iso(clock.now - 5.0)
    await store.close()
