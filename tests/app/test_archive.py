"""`relay archive`, beside a running tail and without one, and killed at each of its steps."""

from __future__ import annotations

import asyncio
import json
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.app.commands.archive import archive
from relay.config import loading
from relay.config.settings import Settings
from relay.room.journal import ledger
from relay.room.journal.ledger import Q
from relay.room.parsing import line_format
from relay.room.transcript import checkpoint
from relay.room.transcript.rotation import ArchiveError
from relay.room.transcript.tail import Transcript
from relay.store.open import open_store
from relay.store.ports import Store, Tx
from tests import engines
from tests.engines import BOTH
from tests.room.parts import all_messages, transcript

KILL = """
import asyncio, os, sys
import relay.app.commands.archive as archive
from relay.config import loading
from relay.room.transcript import checkpoint, rotation

module, name = {"settle_held": (checkpoint, "settle_held")}.get(sys.argv[2], (rotation, sys.argv[2]))
real, calls = getattr(module, name), 0

def killed(*args, **more):
    global calls
    calls += 1
    if calls == int(sys.argv[3]):
        os._exit(9)
    return real(*args, **more)

setattr(module, name, killed)
asyncio.run(archive.archive(loading.load(sys.argv[1]), keep=5))
"""
#: The step at which the process is killed (before it is done), and which of its calls.
STEPS = [
    ("_find_cut", 1),
    ("_copy_out", 1),
    ("_link_anew", 1),
    ("_copy_rest", 1),
    ("_announce_from", 1),
    ("_exchange", 1),
    ("sync_folder", 2),
    ("settle_held", 2),
    ("_carry_over", 1),
    ("_carry_over", 2),
]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(engines.configure(tmp_path / ".relay", monkeypatch)))
    return loading.load(path)


@pytest.fixture
async def store(settings: Settings) -> AsyncIterator[Store]:
    settings.runtime_dir.mkdir(mode=0o700, exist_ok=True)
    opened = await open_store(settings, engines.wings("log", "room"))
    yield opened
    await opened.close()


def tail_of(store: Store, settings: Settings) -> Transcript:
    lock = line_format.lock_path(settings.runtime_dir, settings.transcript_path)
    return transcript(store, settings.transcript_path, lock, agents=(), member=settings.member)


async def fill(store: Store, tail: Transcript, settings: Settings, count: int = 20) -> None:
    """`count` entries that are in the room and in the file: half plain lines, half the room's own."""
    await tail.sync()
    for number in range(count // 2):
        with settings.transcript_path.open("a") as file:
            file.write(f"[ann] question number{number}\n")
        await tail.sync()
        await store.write(lambda tx, n=number: ledger.say(tx, f"remark {n}", now=time.time()))
        await tail.sync()


async def bodies(store: Store) -> list[str]:
    return [message.body for message in await all_messages(store)]


async def histories(store: Store) -> int:
    rows = await store.read(lambda tx: tx.all(Q.messages_after, after=0, limit=10_000))
    return sum("history" in json.loads(row["meta"]) for row in rows)


async def cycles(store: Store) -> int:
    return len(await store.read(lambda tx: tx.all(Q.routing)))


def lines(settings: Settings) -> list[str]:
    return settings.transcript_path.read_text().splitlines()


def archives(settings: Settings) -> list[Path]:
    return sorted((settings.runtime_dir / "archive").glob("transcript-*.log"))


@BOTH
async def test_old_entries_move_and_stay_searchable(store: Store, settings: Settings) -> None:
    tail = tail_of(store, settings)
    await fill(store, tail, settings)
    before = lines(settings)
    done = await archive(settings, keep=5)
    assert (done.moved, done.kept) == (15, 5)
    assert lines(settings) == before[-5:]
    assert done.file is not None and done.file.read_text().splitlines() == before[:-5]
    assert "[ann] question number3\n" in done.file.read_text()
    assert stat.S_IMODE(done.file.stat().st_mode) == 0o600
    assert json.loads(json.dumps(done.as_json()))["moved"] == 15 and str(done.file) in done.text()
    found = await store.read(lambda tx: tx.all(Q.search, words='["number3"]', limit=5))
    assert [row["body"] for row in found] == ["question number3"]
    # A tail that stood in the old file and one that starts anew both go on without a word.
    for reader in (tail, tail_of(store, settings)):
        await reader.sync()
    assert len(await bodies(store)) == 20
    assert await cycles(store) == 10


async def test_a_second_archive_gets_a_name_of_its_own(store: Store, settings: Settings) -> None:
    tail = tail_of(store, settings)
    await fill(store, tail, settings)
    first, second = await archive(settings, keep=10), await archive(settings, keep=0)
    assert first.file != second.file and len(archives(settings)) == 2
    assert (second.moved, second.kept) == (10, 0)
    assert lines(settings) == []
    with settings.transcript_path.open("a") as file:
        file.write("[bob] and now\n")
    await tail.sync()
    assert (await bodies(store))[-1] == "and now"
    assert len(await bodies(store)) == 21


async def test_nothing_to_move(store: Store, settings: Settings) -> None:
    await fill(store, tail_of(store, settings), settings, count=4)
    before = settings.transcript_path.read_bytes()
    done = await archive(settings, keep=4)
    assert (done.moved, done.kept, done.file) == (0, 4, None)
    assert "Nothing to archive" in done.text()
    assert settings.transcript_path.read_bytes() == before and archives(settings) == []


async def test_what_the_room_has_not_read_stays(store: Store, settings: Settings) -> None:
    tail = tail_of(store, settings)
    await fill(store, tail, settings, count=4)
    await store.write(lambda tx: ledger.say(tx, "not in the file yet", now=time.time()))
    with settings.transcript_path.open("a") as file:
        file.write("[ann] nobody has read this\n[ann] nor is this finis")
    done = await archive(settings, keep=0)
    assert (done.moved, done.kept) == (4, 0)
    assert lines(settings) == ["[ann] nobody has read this", "[ann] nor is this finis"]
    with settings.transcript_path.open("a") as file:
        file.write("hed\n")
    await tail.sync()
    told = await bodies(store)
    assert told[-2:] == ["nobody has read this", "nor is this finished"]
    assert told.count("not in the file yet") == 1
    assert await histories(store) == 0 and await cycles(store) == 4
    assert sum("not in the file yet" in line for line in lines(settings)) == 1


async def test_a_running_tail_goes_on(store: Store, settings: Settings) -> None:
    tail = tail_of(store, settings)
    await fill(store, tail, settings)
    running = asyncio.create_task(tail.run())
    said = 0
    over = False

    async def chat() -> None:
        # No cancel ends it: one between the line and its count would leave a line that is never told.
        nonlocal said
        lock = line_format.lock_path(settings.runtime_dir, settings.transcript_path)
        while not over:
            line = f"[bob] live {said}\n".encode()
            await asyncio.to_thread(line_format.append, settings.transcript_path, lock, line)
            said += 1
            await store.write(lambda tx, n=said: ledger.say(tx, f"told {n}", now=time.time()))
            tail.poke()

    chatting = asyncio.create_task(chat())
    try:
        moved = 0
        for _ in range(4):
            moved += (await archive(settings, keep=3)).moved
        over = True
        await chatting
        async with asyncio.timeout(30):
            while len(await bodies(store)) < 20 + 2 * said or await lacking(store):
                tail.poke()
                await asyncio.sleep(0.02)
    finally:
        chatting.cancel()
        running.cancel()
        await asyncio.gather(chatting, running, return_exceptions=True)
    told = await bodies(store)
    assert sorted(told) == sorted(set(told)), "something was read twice"
    assert await histories(store) == 0 and not any("replaced" in body for body in told)
    await tail.sync()
    kept = [line for file in [*archives(settings), settings.transcript_path] for line in [file.read_text()]]
    for number in range(said):
        assert sum(text.count(f"[bob] live {number}\n") for text in kept) == 1
    assert moved >= 20 - 3


async def lacking(store: Store) -> int:
    """Entries that are not in the file yet."""

    async def work(tx: Tx) -> int:
        here = await checkpoint.kept_place(tx, "")
        assert here is not None
        return (await checkpoint.lacking(tx, here))[0]

    return await store.read(work)


@pytest.mark.parametrize(("step", "call"), STEPS)
@pytest.mark.parametrize("running", [True, False], ids=["beside-a-tail", "alone"])
async def test_killed_at_any_step(
    store: Store, settings: Settings, step: str, call: int, running: bool
) -> None:
    """Nothing is lost, read twice, answered twice, or taken for history; and the next archive works."""
    tail = tail_of(store, settings)
    await fill(store, tail, settings, count=12)
    await store.write(lambda tx: ledger.say(tx, "said before", now=time.time()))
    with settings.transcript_path.open("a") as file:
        file.write("[ann] who answers this\n")
    killed = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", KILL, settings.path, step, str(call)], timeout=60, check=False
    )
    assert killed.returncode == 9
    reader = tail if running else tail_of(store, settings)
    await reader.sync()
    told = await bodies(store)
    assert len(told) == 14 and len(set(told)) == 14, told
    assert await histories(store) == 0 and await cycles(store) == 7
    again = await archive(settings, keep=2)
    await reader.sync()
    assert await bodies(store) == told
    assert again.kept == 2 and len(lines(settings)) == 2
    everywhere = "".join(file.read_text() for file in [*archives(settings), settings.transcript_path])
    for body in told:
        assert body in everywhere
    assert list(settings.transcript_path.parent.glob(".transcript.log.*")) == []


async def test_a_place_that_moved_is_not_overwritten(store: Store, settings: Settings) -> None:
    tail = tail_of(store, settings)
    await fill(store, tail, settings, count=2)
    here = await store.read(lambda tx: checkpoint.kept_place(tx, ""))
    assert here is not None
    await archive(settings, keep=0)
    with pytest.raises(checkpoint.PlaceMoved):
        await store.write(lambda tx: checkpoint.move(tx, "", here, here))


async def test_a_file_that_was_replaced_is_refused(store: Store, settings: Settings) -> None:
    await fill(store, tail_of(store, settings), settings, count=4)
    settings.transcript_path.write_text("[ann] all is new\n")
    with pytest.raises(ArchiveError, match="has not read"):
        await archive(settings, keep=0)
    assert lines(settings) == ["[ann] all is new"] and archives(settings) == []


async def test_without_a_room_it_says_so(settings: Settings) -> None:
    with pytest.raises(ArchiveError, match="has not run yet"):
        await archive(settings, keep=1)


async def test_a_room_that_has_read_nothing(store: Store, settings: Settings) -> None:
    with pytest.raises(ArchiveError, match="start it once"):
        await archive(settings, keep=1)
