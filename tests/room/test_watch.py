from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.room import watch


class Woken:
    """A watch on a file of its own, and how often it woke."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._event = asyncio.Event()

    def wake(self) -> None:
        self._event.set()

    async def soon(self) -> None:
        async with asyncio.timeout(30):
            await self._event.wait()
        # What one change causes may come in two pieces.
        await asyncio.sleep(0.1)
        self._event.clear()

    async def never(self) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await self._event.wait()


@pytest.fixture
async def woken(tmp_path: Path) -> AsyncIterator[Woken]:
    made = Woken(tmp_path / "transcript.log")
    watching = asyncio.create_task(watch._inotify(made.path, made.wake))
    await made.soon()
    yield made
    watching.cancel()
    await asyncio.wait([watching])


def append(path: Path) -> None:
    with path.open("a") as file:
        file.write("[ann] hi\n")


async def test_it_sees_the_file_come_change_and_be_replaced(woken: Woken) -> None:
    append(woken.path)
    await woken.soon()
    append(woken.path)
    await woken.soon()
    other = woken.path.with_name("other")
    append(other)
    await woken.never()
    other.replace(woken.path)
    await woken.soon()
    append(woken.path)
    await woken.soon()
    woken.path.unlink()
    append(woken.path)
    await woken.soon()
    append(woken.path)
    await woken.soon()


async def test_other_files_of_the_folder_wake_nobody(woken: Woken) -> None:
    append(woken.path)
    await woken.soon()
    for _ in range(5):
        append(woken.path.with_name("events.db-wal"))
    await woken.never()


async def test_without_a_folder_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await watch.changes(tmp_path / "none" / "transcript.log", lambda: None)


async def test_where_there_is_no_inotify_watchfiles_does_it(tmp_path: Path) -> None:
    made = Woken(tmp_path / "transcript.log")
    append(made.path)
    watching = asyncio.create_task(watch._watchfiles(made.path, made.wake))
    try:
        async with asyncio.timeout(30):
            while not made._event.is_set():
                append(made.path)
                await asyncio.sleep(0.1)
    finally:
        watching.cancel()
        await asyncio.wait([watching])
