"""The files of an open SQLite database: whether they are still the ones that were opened, and a copy when not.

Invariant: nothing is committed into removed or replaced files: SQLite would accept it, and it would be gone when the
last process closes them. Earlier commits are still in the open files, so they are copied to a file beside them. While
that copy is there, no process begins an empty database: a person has to decide (`refuse_saved`).

Source: SQLite, "How To Corrupt An SQLite Database File", 2.4 (unlinking or renaming a file while it is in use).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from pathlib import Path

from relay.config.command_line import script
from relay.store.ports import StoreError, StoreMoved

#: The database and what SQLite keeps beside it.
PARTS = ("", "-wal", "-shm")


class DatabaseFiles:
    """The files of a database that is open. Make it when all connections have read once: then each file is there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        #: Looked at before each COMMIT: texts, which cost less than a Path.
        self._opened = {part: (f"{path}{part}", _identity(f"{path}{part}")) for part in PARTS}

    def moved(self) -> str:
        """What happened to a file; empty while all are those that were opened. Three `stat`s."""
        for part, (place, opened) in self._opened.items():
            there = _identity(place)
            if opened is not None and there != opened:
                done = "removed" if there is None else "replaced by another file"
                return f"{self.path.name}{part} was {done} while relay had it open"
        return ""

    def check(self) -> None:
        """Raise StoreMoved when a commit would be lost."""
        if what := self.moved():
            raise moved(what, self.path)


def _identity(place: str) -> tuple[int, int] | None:
    """Device and inode; None: there is no such file."""
    try:
        status = os.stat(place)  # noqa: PTH116 - before each COMMIT: pathlib costs three times as much
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


def saved_path(path: Path) -> Path:
    """The path of the copy that a daemon makes of removed or replaced files."""
    return path.with_name(f"{path.name}.saved")


def moved(what: str, path: Path) -> StoreMoved:
    """The error for a write."""
    saved = saved_path(path).name
    return StoreMoved(
        f"{what}, so nothing more is written to it",
        f"Stop relay with {script('stop.sh')}. Where {saved} is there, relay has saved what it had, and "
        f"{script('healthcheck.sh --repair')} puts it back. Then start relay again.",
    )


def refuse_saved(path: Path) -> None:
    """Raise StoreError while a saved copy waits for a person: a room that began anew beside it would be another."""
    if saved_path(path).exists():
        saved = saved_path(path).name
        raise StoreError(
            f"the files of {path.name} were removed or replaced while relay ran, and what it had is saved in "
            f"{saved}. {script('healthcheck.sh --repair')} puts it back once relay is stopped; to go on without it, "
            f"move {saved} to another folder"
        )


def save(connection: sqlite3.Connection, path: Path) -> None:
    """Copy what the connection sees to `saved_path`, whole or not at all. Raises OSError, sqlite3.Error."""
    making = path.with_name(f"{path.name}.saving")
    making.unlink(missing_ok=True)
    os.close(os.open(making, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with contextlib.closing(sqlite3.connect(making, isolation_level=None)) as copy:
        connection.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")  # one file, whole by itself
    with making.open("rb") as file:
        os.fsync(file.fileno())
    making.replace(saved_path(path))


def put_back(path: Path) -> str | None:
    """Put the saved copy in the database's place, and what is there aside: what was done, None without a copy.

    For a room whose daemon is stopped. Raises OSError.
    """
    saved = saved_path(path)
    if not saved.exists():
        return None
    aside = path.with_name(f"{path.name}.replaced-{time.strftime('%Y%m%dT%H%M%S')}")
    report = f"put back {path.name} as it was before its files were removed or replaced"
    for part in PARTS:
        side_file = Path(f"{path}{part}")
        if side_file.exists():
            side_file.replace(f"{aside}{part}")
            report += f"; {side_file.name} is {aside.name}{part} now"
    saved.replace(path)
    return report
