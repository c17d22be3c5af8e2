"""The files that people paste or drop into messages: `.relay/files/HASH.ending` (docs/entries.md).

Invariant: a file is whole under its name, or not there. What no message and no task names may be removed, once it is
old enough that nobody is about to send the message.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relay.base.files import sync_folder
from relay.config.settings import LiveSettings
from relay.coordination.tasks import task_events
from relay.model import Fault, Refusal
from relay.room.entries import named_files
from relay.room.parsing import file_names as files
from relay.store.ports import Store, Tx

#: Seconds for which a file waits for the message that names it.
WAITS_S = 3600.0
#: How the name of a file ends while it is written.
_PART = ".part"


@dataclass(frozen=True, slots=True)
class Kept:
    """A file: its id, where it is, its size in bytes, and when it came (Unix seconds)."""

    id: str
    path: Path
    size: int
    at: float


class RoomFiles:
    """The files of one room."""

    def __init__(self, store: Store, settings: LiveSettings) -> None:
        self._store, self._settings = store, settings
        self._adding = asyncio.Lock()

    @property
    def folder(self) -> Path:
        return self._settings.current.runtime_dir / files.FOLDER

    async def add(self, name: str, data: bytes) -> dict[str, Any]:
        """Keep a file: `{id, name, type, size, path, reference}`. Raises Refusal."""
        name = files.clean_name(name)
        if not data:
            raise Refusal(f"{name} is empty.", "Choose a file that has something in it.", Fault.MALFORMED)
        self.check_size(name, len(data))
        id = await asyncio.to_thread(_id, name, data)
        path = await self.keep(id, data)
        return {
            "id": id,
            "name": name,
            "type": files.type_of(data),  # by its first bytes
            "size": len(data),
            "path": str(path),
            "reference": files.reference(name, id),
        }

    async def keep(self, id: str, data: bytes) -> Path:
        """Have the file of this id; where it is. Raises Refusal: there is no space."""
        path = self.folder / id
        async with self._adding:
            await asyncio.to_thread(_sweep, self.folder)
            if not await asyncio.to_thread(path.exists):
                await self._make_room(len(data))
                await asyncio.to_thread(_write, path, data)
            else:
                await asyncio.to_thread(os.utime, path)  # it waits for its message anew
        return path

    def check_size(self, name: str, size: int) -> None:
        """Raises Refusal: a file of so many bytes is too large."""
        most = self._settings.current.room.max_file_bytes
        if size > most:
            raise Refusal(
                f"{files.clean_name(name)} has {size:,} bytes; the largest file has {most:,}.",
                "Name its path instead, or raise `room.max_file_bytes` in config.json.",
                Fault.MALFORMED,
                "too_large",
            )

    async def read(self, id: str) -> bytes:
        """The bytes of a file. Raises Refusal."""
        data = await self.here(id) if files.ID.fullmatch(id) else None
        if data is None:
            raise Refusal(
                f"There is no file {id[:80]} here.", "A message names it as `relay-file:ID`.", Fault.UNKNOWN
            )
        return data

    async def bring(self, text: str) -> str:
        """Have the files that a text names by their paths; which do not come, and why, in words. Never raises."""
        return ""

    async def here(self, id: str) -> bytes | None:
        """The bytes of a file that is kept here; None = it is not."""
        with suppress(FileNotFoundError):
            return await asyncio.to_thread((self.folder / id).read_bytes)
        return None

    async def _make_room(self, size: int) -> None:
        """Raises Refusal where nothing that no message names can be removed."""
        limits = self._settings.current.room
        kept = await asyncio.to_thread(lambda: list(_kept(self.folder)))
        for attempt in range(2):
            fits = sum(file.size for file in kept) + size <= limits.max_files_bytes
            if fits and len(kept) < limits.max_files:
                return
            if attempt == 0:
                await self.forget_unnamed()
                kept = await asyncio.to_thread(lambda: list(_kept(self.folder)))
        raise Refusal(
            f"The room has {len(kept):,} files of {sum(file.size for file in kept):,} bytes, and no space for more.",
            "Delete messages whose files nobody needs, or raise `room.max_files_bytes` and `room.max_files`.",
            Fault.UNAVAILABLE,
            "full",
        )

    async def forget_unnamed(self) -> list[str]:
        """Remove what neither a message nor a task names; gives the ids."""
        before = time.time() - WAITS_S
        kept = await asyncio.to_thread(lambda: list(_kept(self.folder)))
        named = await self._store.read(_named, long=True)
        gone = [file for file in kept if file.at < before and file.id not in named]
        for file in gone:
            await asyncio.to_thread(file.path.unlink, True)
        return [file.id for file in gone]


async def _named(tx: Tx) -> set[str]:
    tasks = await tx.all(task_events.Q.tasks_with_files)
    of_tasks = {id for row in tasks for id in files.NAMED.findall(row["task_description"])}
    return of_tasks | await named_files.named(tx)


def _kept(folder: Path) -> Iterable[Kept]:
    for path in folder.glob("*") if folder.is_dir() else ():
        if files.ID.fullmatch(path.name):
            status = path.stat()
            yield Kept(path.name, path, status.st_size, status.st_mtime)


def _id(name: str, data: bytes) -> str:
    return f"{hashlib.sha256(data).hexdigest()}.{files.ending_of(name, data)}"


def _sweep(folder: Path) -> None:
    """Remove what a relay that was ended left half written. By its age: what is being written is younger."""
    before = time.time() - WAITS_S
    for part in folder.glob(f".*{_PART}"):
        with suppress(FileNotFoundError):
            if part.stat().st_mtime < before:
                part.unlink()


def _write(path: Path, data: bytes) -> None:
    """Raises OSError, with nothing left of it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}{_PART}")
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
