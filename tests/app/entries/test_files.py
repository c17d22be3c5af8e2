"""Which files make room for others when there is no space: only those that nothing names."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from relay.app.entries.files import RoomFiles
from relay.config.loading import parse
from relay.config.settings import LiveSettings
from relay.log.events import Lane
from relay.store.ports import Store
from tests.engines import BOTH, Clock
from tests.room.office import Office
from tests.room.parts import open_room

pytestmark = BOTH


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_room(tmp_path)
    yield opened
    await opened.close()


@pytest.fixture
async def office(store: Store) -> AsyncIterator[Office]:
    async with Office(store, Clock()).at_work() as office:
        yield office


@pytest.fixture
def files(store: Store, tmp_path: Path) -> RoomFiles:
    made = parse(json.dumps({"agents": [{"name": "ALPHA", "cmd": "x"}]}), tmp_path / "config.json")
    return RoomFiles(store, LiveSettings(made))


async def sent(files: RoomFiles, text: str) -> str:
    """A file of long ago, by its reference."""
    kept = await files.add("notes.txt", text.encode())
    os.utime(kept["path"], (1, 1))
    return str(kept["reference"])


def name_of(reference: str) -> str:
    return reference.rpartition(":")[2].rstrip(")")


def beginning(digits: str) -> str:
    """A text whose hash begins so."""
    every = (f"text {n}" for n in range(1_000_000))
    return next(text for text in every if hashlib.sha256(text.encode()).hexdigest().startswith(digits))


async def test_what_anything_names_stays(office: Office, files: RoomFiles) -> None:
    # A parser of words takes such hashes for numbers: 6e340..., 67586e98...
    numbers = [await sent(files, beginning(digits)) for digits in ("1e1", "6e3", "67e", "0e")]
    for reference in numbers:
        await office.post(f"look at {reference}")
    far = await sent(files, "behind what is searched")
    await office.post(f"{'many words ' * 20_000}{far}")
    first, second, third = [await sent(files, f"version {n}") for n in range(3)]
    edited = await office.post(f"see {first}")
    for reference in (second, third):
        assert "error" not in (await office.ask(f"/edit m{edited.number} see {reference}")).meta
    of_task = await sent(files, "of a task")
    lane = Lane("-", "ann", short=True)
    await office.store.write(
        lambda tx: office.board.create(tx, "Mend it", by="ann", lane=lane, body=f"As in {of_task}.")
    )
    gone = [await sent(files, "nobody names it")]
    for words in ("a", "b"):  # a deleted message names none, whatever it said before it was edited
        told = await office.post(f"see {(before := await sent(files, words))}")
        after = await sent(files, words * 2)
        await office.ask(f"/edit m{told.number} see {after}")
        await office.ask(f"/delete m{told.number}")
        gone += [before, after]

    assert sorted(await files.forget_unnamed()) == sorted(map(name_of, gone))
    stay = {name_of(one) for one in (*numbers, far, first, second, third, of_task)}
    assert {path.name for path in files.folder.iterdir()} == stay
    assert await files.forget_unnamed() == []


async def test_what_was_broken_off_goes_and_what_is_being_written_stays(files: RoomFiles) -> None:
    await files.add("a.txt", b"a")
    broken, writing = (files.folder / f".{digit * 64}.png.part" for digit in "01")
    for part in (broken, writing):
        part.write_bytes(b"half of it")
    os.utime(broken, (1, 1))
    again = await files.add("a.txt", b"a")
    assert {path.name for path in files.folder.iterdir()} == {writing.name, again["id"]}


async def test_nothing_stays_of_what_the_disk_did_not_take(
    files: RoomFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            await files.add("a.txt", b"a")
    assert list(files.folder.iterdir()) == []
    assert (await files.add("a.txt", b"a"))["size"] == 1


async def test_a_file_is_hashed_and_looked_at_off_the_loop(
    files: RoomFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    real = hashlib.sha256

    def hashed(data: bytes) -> object:
        threads.append(threading.get_ident())
        return real(data)

    monkeypatch.setattr("relay.app.entries.files.hashlib", SimpleNamespace(sha256=hashed))
    await files.add("a.txt", b"a")
    assert threads and threading.get_ident() not in threads
