"""What the check says of the room's files, and what a repair makes of them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from relay.app.health.context import Status
from relay.app.health.files import FAIL_FREE, WARN_FREE, disk_of
from relay.room.journal import ledger
from tests.app.health.conftest import Room
from tests.engines import BOTH
from tests.room.parts import all_jobs, all_messages

ROOM = Path(__file__).parents[3]


@BOTH
async def test_after_a_cut_the_transcript_is_history_and_opens_nothing(room: Room) -> None:
    await room.fill(jobs=2)
    path = room.settings.transcript_path
    path.write_text("[bob] @CLAUDE this is old\n")
    await room.look(repair=True)
    with path.open("a") as file:
        file.write("[bob] @CLAUDE this is new\n")
    async with room.store() as store:
        await room.transcript(store).sync()
        messages, jobs = await all_messages(store), await all_jobs(store)
    old, new = (next(one.id for one in messages if word in one.body) for word in ("is old", "is new"))
    assert [job.message_id for job in jobs if job.message_id in (old, new)] == [new]
    assert sum("was replaced or cut" in one.body for one in messages) == 1


async def test_the_transcript_that_cannot_be_written(room: Room) -> None:
    room.settings.transcript_path.mkdir(parents=True)
    assert (await room.look())["transcript"].detail.endswith("is not a regular file")


async def test_an_open_last_line_and_waiting_entries_are_seen_and_left(room: Room) -> None:
    await room.fill()
    async with room.store() as store:
        await store.write(lambda tx: ledger.say(tx, "not yet in the file", now=time.time()))
    path = room.settings.transcript_path
    with path.open("a") as file:
        file.write("[bob] I was cut o")
    os.utime(path, (1.0, 1.0))
    checks = await room.look(repair=True)
    assert checks["transcript"].status is Status.WARNING
    assert "not ended" in checks["transcript"].detail
    assert "are not in the file yet" in checks["transcript"].detail
    assert path.read_text().endswith("[bob] I was cut o")


@pytest.mark.parametrize(
    ("free", "status"),
    [(WARN_FREE, Status.OK), (WARN_FREE - 1, Status.WARNING), (FAIL_FREE - 1, Status.FAILED)],
)
def test_free_space(free: int, status: Status) -> None:
    assert disk_of(free, Path("/")).status is status
