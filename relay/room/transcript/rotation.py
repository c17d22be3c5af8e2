"""The rotation of the transcript: its old entries go into a file of their own, and stay searchable.

Invariants: nothing leaves the transcript before it is on disk in the archive; only what the room has read is
archived (an unread line stays, and an entry that is not in the file yet comes into the new one); no line is read
twice or taken for history by it, whether a daemon runs or not, and wherever the process is killed.

It does not go through a running daemon. The kept place of the tail and the announcement of the new file are in the
database (`checkpoint.py`), where a daemon that runs beside it, one that starts later, and the next rotation all find
them: one way for every case, and the one that also holds when the process dies half-way. All that a kill can leave
behind is hidden temporary files, which the next rotation overwrites, and an archive whose entries are still in the
transcript, to be archived once more.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from relay.base.files import reading, sync_folder
from relay.room.parsing import line_format
from relay.room.parsing.line_format import Junk
from relay.room.transcript import checkpoint, file_position
from relay.room.transcript.checkpoint import PlaceMoved, Swap
from relay.room.transcript.file_position import Place
from relay.store.ports import Store

_BLOCK = 1 << 20
#: Seconds in which a shell that had opened the old file may still write to it.
_GRACE_S = 0.1


class ArchiveError(Exception):
    """The transcript was not archived; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Archived:
    """What was done: entries `moved` and `kept` (of those the room has read), and the archive with its size,
    None when there was nothing to move."""

    moved: int
    kept: int
    file: Path | None = None
    bytes_moved: int = 0

    def as_json(self) -> dict[str, Any]:
        return {
            "moved": self.moved,
            "kept": self.kept,
            "file": None if self.file is None else str(self.file),
            "bytes": self.bytes_moved,
        }

    def text(self) -> str:
        if self.file is None:
            return f"Nothing to archive: the transcript has {self.kept:,} entries."
        return (
            f"{self.moved:,} entries ({self.bytes_moved:,} bytes) are in {self.file} now; {self.kept:,} stay in "
            "the transcript. Search finds them as before."
        )


async def rotate(store: Store, path: Path, lock: Path, folder: Path, *, keep: int, member: str) -> Archived:
    """Move all but the newest `keep` entries that the room has read from the transcript of `member` at `path` into a
    new file in `folder`. `lock`: the append lock.

    A running daemon goes on meanwhile. Raises ArchiveError, OSError or what the store raises; then the transcript is
    as it was.
    """
    async with checkpoint.holding(lock):
        return await _rotate_held(store, path.resolve(), folder, keep, member)


async def _rotate_held(store: Store, path: Path, folder: Path, keep: int, member: str) -> Archived:
    await checkpoint.settle_held(store, path, member)
    here = await store.read(lambda tx: checkpoint.kept_place(tx, member))
    if here is None:
        raise ArchiveError("the room has not read its transcript yet; start it once")
    # What is to be blank does not go into the archive. The tail overwrites it once more, which changes nothing.
    if not await asyncio.to_thread(
        lambda: file_position.continues(path, here) and file_position.overwrite_held(path, here)
    ):
        raise ArchiveError(
            f"the room has not read {path} as it is now; start the room, or try again in a moment"
        )
    cut, moved, remaining = await asyncio.to_thread(_find_cut, path, here.offset, keep)
    if moved == 0:
        return Archived(0, remaining)
    file = await asyncio.to_thread(_copy_out, path, folder, cut)
    shorter = path.with_name(f".{path.name}.archiving")
    with reading(path) as old:
        copied = await asyncio.to_thread(_copy_rest, old.fileno(), shorter, cut)
        copied = await _announce(store, path, shorter, old.fileno(), cut, copied, member)
        await asyncio.to_thread(_exchange, shorter, path)
        await checkpoint.settle_held(store, path, member)
        for wait_s in (0.0, _GRACE_S):
            await asyncio.sleep(wait_s)
            copied = await asyncio.to_thread(_carry_over, old.fileno(), path, copied)
    return Archived(moved, remaining, file, cut)


def _find_cut(path: Path, until: int, keep: int) -> tuple[int, int, int]:
    """Where the newest `keep` entries before the offset `until` begin, and how many entries are before and behind
    that place, as far as the room has read."""
    newest: deque[int] = deque(maxlen=keep)
    entries = at = 0
    with reading(path) as file:
        for line in file:
            if at >= until:
                break
            if not isinstance(line_format.decode(line), Junk):
                entries += 1
                newest.append(at)
            at += len(line)
    return newest[0] if newest else until, entries - len(newest), len(newest)


def _copy_out(path: Path, folder: Path, length: int) -> Path:
    """The first `length` bytes of the transcript in a new archive; on disk when this returns."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = folder / ".part"
    with reading(path) as old:
        _copy(old.fileno(), part, 0, length, 0o600)
    file = _link_anew(part, folder / f"transcript-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.log")
    part.unlink()
    sync_folder(folder)
    return file


def _link_anew(part: Path, wanted: Path) -> Path:
    """Give `part` the name `wanted`, or the next that is free: a link never takes a name that is taken."""
    number, file = 1, wanted
    while True:
        with suppress(FileExistsError):
            file.hardlink_to(part)
            return file
        number += 1
        file = wanted.with_stem(f"{wanted.stem}-{number}")


def _copy_rest(old: int, shorter: Path, start: int) -> int:
    """Write what stays into the file that will take the transcript's place; the offset up to which it goes."""
    status = os.fstat(old)
    _copy(old, shorter, start, status.st_size, stat.S_IMODE(status.st_mode))
    return status.st_size


def _copy(source: int, to: Path, start: int, stop: int, mode: int) -> None:
    with suppress(FileNotFoundError):
        to.unlink()
    fd = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        os.fchmod(fd, mode)
        while start < stop and (data := os.pread(source, min(_BLOCK, stop - start), start)):
            file.write(data)
            start += len(data)
        file.flush()
        os.fsync(file.fileno())


def _copy_more(old: int, shorter: Path, copied: int) -> int:
    """Copy what was appended since; the offset up to which the old file is in the shorter one."""
    size = os.fstat(old).st_size
    if size > copied:
        with shorter.open("ab") as file:
            file.write(os.pread(old, size - copied, copied))
            file.flush()
            os.fsync(file.fileno())
    return size


async def _announce(
    store: Store, path: Path, shorter: Path, old: int, cut: int, copied: int, member: str
) -> int:
    """Announce the shorter file, with the place in it that the kept place is in the old one; the offset up to
    which the old one was copied."""
    status = shorter.stat()
    while True:
        here = await store.read(lambda tx: checkpoint.kept_place(tx, member))
        assert here is not None
        # A daemon beside us may have read on meanwhile, lines too that a shell has just appended.
        if here.offset < cut or not await asyncio.to_thread(file_position.continues, path, here):
            raise ArchiveError("the transcript was replaced meanwhile; nothing was changed, try again")
        copied = await asyncio.to_thread(_copy_more, old, shorter, copied)
        moved = replace(here, history_until=max(0, here.history_until - cut))
        # Bytes before the cut are blank by now.
        blank = tuple((max(0, first - cut), behind - cut) for first, behind in here.blank if behind > cut)
        after = await asyncio.to_thread(file_position.stand_at, shorter, here.offset - cut, moved, blank)
        with suppress(PlaceMoved):
            await _announce_from(store, member, here, Swap(after, status.st_dev, status.st_ino))
            return copied


async def _announce_from(store: Store, member: str, here: Place, made: Swap) -> None:
    await store.write(lambda tx: checkpoint.announce(tx, member, here, made), durable=True)


def _exchange(shorter: Path, path: Path) -> None:
    shorter.replace(path)
    sync_folder(path.parent)


def _carry_over(old: int, path: Path, copied: int) -> int:
    """Append what came into the old file past the append lock after it was copied; the offset up to there."""
    size = os.fstat(old).st_size
    if size > copied:
        data = os.pread(old, size - copied, copied)
        line_format.append_held(path, data if data.endswith(b"\n") else data + b"\n")
    return size
