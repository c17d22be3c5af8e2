"""The embedded store: SQLite in WAL mode. A process has a thread for writes, one for reads, and one for long reads (a
search, a check), so that no short read waits for a long one.

Invariants:
- a transaction (`transaction.py`) runs on the thread of its connection, never on the event loop's;
- checkpoints run on a connection and a thread of their own, never inside a commit;
- a commit wakes the waiters of this process for the types that it appended, and those for any commit; the watcher
  does the same for other processes' commits;
- a side task (the watcher, the checkpoints) that fails is logged and goes on.

`synchronous` is NORMAL (a commit survives a killed process, not a power cut) and FULL where the caller asks for
`durable`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite
import structlog

from relay.base.file_events import FileEvents
from relay.base.freed_memory import trim
from relay.config.command_line import script
from relay.model import Caller
from relay.store.ports import Size, StoreError, Work
from relay.store.sqlite.files import DatabaseFiles, moved, refuse_saved, save, saved_path
from relay.store.sqlite.migrate import migrate
from relay.store.sqlite.reader import add_functions
from relay.store.sqlite.transaction import DIALECT, run_read
from relay.store.sqlite.writer_queue import WriteQueue
from relay.store.wakeup import Subscribers, Wakeup, kept_up

log = structlog.get_logger(__name__)
T = TypeVar("T")
#: Seconds between two looks for commits of other processes (a hint; our own commits wake at once), and while nothing
#: is heard of the file, where the system tells of it.
POLL_S, UNHEARD_S = 0.1, 1.0
#: Seconds from when it is heard that something is written to when it is mostly committed.
SETTLE_S = 0.005
#: At every how many of these looks SQLite is asked, even if its file looks as before.
ASK_EVERY = 10
#: SQLite's pages that a connection keeps in memory, as SQLite counts: -KiB.
CACHE_SIZE = -16000
#: Events that are read at a look.
BATCH = 1000
_HAS_LOG = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'events'"
_END = "SELECT coalesce(max(pos), 0) FROM events"
_BEHIND = "SELECT pos, type FROM events WHERE pos > ? ORDER BY pos LIMIT ?"
#: Seconds, about, between two looks whether a checkpoint is due. It is due after so many rows of ours (about 4 MiB of
#: write-ahead log), when the file grew by so many bytes, or after so many seconds.
CHECKPOINT_EVERY_S = 1.0
CHECKPOINT_ROWS = 500
CHECKPOINT_BYTES = 4 * 1024 * 1024
CHECKPOINT_AT_LEAST_S = 60.0
#: Of the file's pages those that are unused: from this share on it is written anew where somebody asks for the space.
LEAST_UNUSED = 0.1
#: The log begins anew when it holds this many times that, even if writers wait for it a few milliseconds.
RESTART_TIMES = 4


class SqliteStore:
    """A `Store` over one database file. Make it with `open_store`."""

    engine = DIALECT
    errors: type[Exception] = sqlite3.Error
    transient: type[Exception] = sqlite3.OperationalError

    def __init__(
        self,
        path: Path,
        writer: aiosqlite.Connection,
        readers: tuple[aiosqlite.Connection, aiosqlite.Connection],
        busy_timeout_s: float,
        clock: Callable[[], float] = time.time,
        *,
        keeper: bool = False,
    ) -> None:
        """`keeper`: it saves the content of the files when they are removed or replaced (`files.py`)."""
        self.path = path
        self._clock = clock
        self._writer = writer
        self._reader, self._long_reader = readers
        self._files = DatabaseFiles(path)
        self._keeper = keeper
        self.trouble = ""
        self._writes = WriteQueue(writer, clock, busy_timeout_s, self._files, self._count)
        self._subscribers = Subscribers()
        #: The places of events whose waiters here were woken already; the watcher forgets those that it has seen.
        self._known: set[int] = set()
        self._side: list[asyncio.Task[None]] = []
        self._rows_written = 0

    async def write(
        self,
        work: Work[T],
        *,
        durable: bool = False,
        single: bool = False,
        quiet: bool = False,
        actor: Caller | None = None,
    ) -> T:
        # There is one writer, with every right, so `single` and `actor` change nothing here. Nor does
        # `quiet`: other processes see any commit.
        return await self._writes.write(work, durable)

    def _count(self, rows: int, appended: dict[int, str]) -> None:
        self._rows_written += rows
        self._known.update(appended)
        self._subscribers.notify(set(appended.values()))

    async def read(
        self, work: Work[T], *, long: bool = False, single: bool = False, actor: Caller | None = None
    ) -> T:
        result: T = await _hop(self._long_reader if long else self._reader, run_read, work, self._clock)
        return result

    @property
    def place(self) -> str:
        return self.path.name

    @property
    def notes(self) -> Sequence[str]:
        return ()

    def wakeup(self, types: Collection[str] | None = None, *, first: bool = False) -> Wakeup:
        return self._subscribers.wakeup(types, first)

    async def start(self) -> None:
        """Start the side tasks: the watcher for other processes' commits, and the checkpoints."""
        self._side = [
            asyncio.create_task(kept_up("store-watch", self._watch_commits), name="store-watch"),
            asyncio.create_task(kept_up("store-checkpoint", self._checkpoints), name="store-checkpoint"),
        ]

    async def _watch_commits(self) -> None:
        # In one process of a room: a user has few of these watches (128), which other programs want too.
        with contextlib.closing(FileEvents([self.path, self._wal] if self._keeper else [])) as files:
            await self._watch(files)

    async def _watch(self, files: FileEvents) -> None:
        last, pos, looks, stood, heard, again = -1, -1, 0, (0, 0), False, False
        while True:
            await self._look_at_files()
            if self.trouble:
                pos = -1  # another file may come, whose log ends elsewhere
            # A commit changes the file, and looking at the file wakes no thread. A file's time is coarse, so two
            # commits may look like one: SQLite itself is asked now and then all the same. It is at each look where
            # these are a second apart: a commit is seen when its flush ends, which nothing tells.
            stands = _stamp(self._wal)
            if files.works or stands != stood or looks % ASK_EVERY == 0:
                stood = stands
                try:
                    version, end, types = await _hop(self._reader, _news, last, pos, self._known.copy())
                except sqlite3.DatabaseError:
                    version = (
                        last  # locked, full or damaged: reads and writes report it, the next look decides
                    )
                if version != last:
                    last, pos = version, end
                    self._known = {at for at in self._known if at > end}
                    self._subscribers.notify(types)
            looks += 1
            # What was heard being written is committed a moment later: there is a look then, and one more.
            again = heard
            if again or self.trouble or not files.works:
                await asyncio.sleep(POLL_S)
                heard = False
            elif heard := await files.wait(UNHEARD_S):
                await asyncio.sleep(SETTLE_S)

    async def _look_at_files(self) -> None:
        what = self._files.moved()
        if bool(what) == bool(self.trouble):
            return
        if not what:
            if self._keeper:
                await asyncio.to_thread(saved_path(self.path).unlink, missing_ok=True)
            log.warning("the database's files are back", path=str(self.path))
            self.trouble = ""
            return
        self.trouble = str(moved(what, self.path))
        log.error(
            "the database's files are gone: nothing is written any more", path=str(self.path), what=what
        )
        if not self._keeper:
            return
        try:
            await _hop(self._long_reader, save, self.path)
        except (sqlite3.Error, OSError) as error:
            self.trouble += f"; what was in it could not be saved: {error}. It is lost when relay stops"
            log.exception("what was in the database could not be saved", path=str(self.path))
        else:
            self.trouble += f"; what was in it is saved in {saved_path(self.path).name}"
            log.warning("what was in the database is saved", path=str(saved_path(self.path)))

    @property
    def _wal(self) -> Path:
        return self.path.with_name(self.path.name + "-wal")

    async def _checkpoints(self) -> None:
        """Make a checkpoint after our own writing, and now and then after everybody's.

        The fill of the write-ahead log stands in the file beside it, which only SQLite may open: closing it here
        would drop SQLite's own locks on it. So each process does its share, by the rows that it wrote.
        """
        last, size = time.monotonic(), 0
        while True:
            await asyncio.sleep(CHECKPOINT_EVERY_S * random.uniform(0.5, 1.5))
            # The file's size shows large rows, but only while it grows: it is used again from its beginning.
            now = _stamp(self._wal)[1]
            size = min(size, now)
            old = time.monotonic() - last >= CHECKPOINT_AT_LEAST_S
            if now - size >= CHECKPOINT_BYTES or old or self._rows_written >= CHECKPOINT_ROWS:
                quiet, last, self._rows_written, size = not self._rows_written, time.monotonic(), 0, now
                if not self._files.moved():
                    await asyncio.to_thread(_checkpoint_now, self.path)
                if quiet:
                    await self._shrink()

    async def _shrink(self) -> None:
        """Give back the memory of pages that were read, up to 16 MB a connection: the system caches them too."""
        for connection in (self._writer, self._reader, self._long_reader):
            await connection.execute("PRAGMA shrink_memory")
        await asyncio.to_thread(trim)

    async def checkpoint(self, *, whole: bool = False) -> bool:
        return await asyncio.to_thread(_checkpoint_all, self.path, "TRUNCATE" if whole else "PASSIVE")

    async def give_back(self) -> int:
        before = _stamp(self.path)[1]
        if await asyncio.to_thread(_give_back, self.path):
            await self.checkpoint(whole=True)
        # Somebody who reads keeps the file as long as it was, until a later checkpoint.
        return max(0, before - _stamp(self.path)[1])

    async def daemon(self, member: str) -> str:
        """Empty: daemons of one machine find each other by their record (relay/app/runtime/instance.py)."""
        return ""

    async def stay_sole(self) -> None:
        """As `daemon`: there is no other."""

    async def size(self) -> Size:
        """The journal is the write-ahead log. SQLite reuses it from its beginning, so its size is its maximum."""
        return Size(_stamp(self.path)[1], _stamp(self._wal)[1])

    async def check(self) -> list[str]:
        """What `PRAGMA quick_check` finds wrong, by table; empty when the file is sound. Reads all of it."""
        # Beside the long reads: on a large file it takes a minute, and a search would wait for it.
        return await asyncio.to_thread(_damage, self.path)

    async def close(self) -> None:
        for task in self._side:
            task.cancel()
        await asyncio.gather(*self._side, return_exceptions=True)
        for connection in (self._long_reader, self._reader, self._writer):
            await connection.close()


async def _hop(connection: aiosqlite.Connection, function: Callable[..., T], *args: Any) -> T:
    """Run `function(connection, *args)` on the connection's thread: one hop, however many statements."""
    # aiosqlite has no public call for this; the version is pinned, and tests/log would fail at once.
    result: T = await connection._execute(function, connection._conn, *args)  # type: ignore[no-untyped-call]
    return result


def _checkpoint_now(path: Path) -> None:
    """On a connection of this call, so that nothing is left open when the store closes."""
    try:
        with contextlib.closing(_connected(path, 0.1)) as connection:
            _, frames, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            # With busy writers the log never comes to its end and grows: make it begin anew.
            (page,) = connection.execute("PRAGMA page_size").fetchone()
            if frames * page >= RESTART_TIMES * CHECKPOINT_BYTES:
                connection.execute("PRAGMA wal_checkpoint(RESTART)")
    except sqlite3.OperationalError:
        return  # someone else is at it, or the disk is full: the next one is soon


def _checkpoint_all(path: Path, how: str) -> bool:
    with contextlib.closing(_connected(path, 5.0)) as connection:
        busy, frames, moved = connection.execute(f"PRAGMA wal_checkpoint({how})").fetchone()
    return not busy and moved >= frames


def _give_back(path: Path) -> int:
    with contextlib.closing(_connected(path, 5.0)) as connection:
        (page,), (pages,), (unused,) = (
            connection.execute(f"PRAGMA {name}").fetchone()
            for name in ("page_size", "page_count", "freelist_count")
        )
        if unused < LEAST_UNUSED * pages:
            return 0
        # The whole is written twice: in the system's folder for temporary files, and in the write-ahead log.
        connection.execute("VACUUM")
        (left,) = connection.execute("PRAGMA page_count").fetchone()
    return int((pages - left) * page)


def _damage(path: Path) -> list[str]:
    with contextlib.closing(_connected(path, 5.0)) as connection:
        return _faults(connection)


def _faults(connection: sqlite3.Connection) -> list[str]:
    whole = _quick_check(connection, "20")
    if not whole:
        return []
    try:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    except sqlite3.DatabaseError:
        names = []
    faults = []
    for name in names:
        if wrong := _quick_check(connection, f"'{name}'"):
            faults.append(f"the table {name} is damaged ({wrong.splitlines()[-1]})")
    return faults or whole.splitlines()


def _quick_check(connection: sqlite3.Connection, what: str) -> str:
    """What is wrong with a table, or (a number) with the whole; empty when nothing is. SQLite's message
    where the check fails."""
    try:
        rows = connection.execute(f"PRAGMA quick_check({what})").fetchall()
    except sqlite3.DatabaseError as error:
        return str(error)
    return "\n".join(row[0] for row in rows if row[0] != "ok")


def _connected(path: Path, timeout_s: float) -> sqlite3.Connection:
    """A connection for one call. It never makes the file: a removed one must not come back empty."""
    uri = f"{path.absolute().as_uri()}?mode=rw"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=timeout_s)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


def _news(
    connection: sqlite3.Connection, last: int, pos: int, known: set[int]
) -> tuple[int, int, set[str] | None]:
    """SQLite's number of the database's state, the end of the log (-1: there is no log), and the types of the events
    behind `pos` that are not `known` (None: unknown; empty: perhaps a change without an event). The latter two are
    read where the number is not `last`."""
    version: int = connection.execute("PRAGMA data_version").fetchone()[0]
    if version == last:
        return version, pos, set()
    if pos < 0 and connection.execute(_HAS_LOG).fetchone() is None:
        return version, -1, None
    rows = [] if pos < 0 else connection.execute(_BEHIND, (pos, BATCH)).fetchall()
    if pos < 0 or len(rows) == BATCH:
        end: int = connection.execute(_END).fetchone()[0]
        return version, end, None
    types = {row["type"] for row in rows if row["pos"] not in known}
    return version, rows[-1]["pos"] if rows else pos, types


async def _connect(path: Path, wings: list[Path], *, query_only: bool) -> aiosqlite.Connection:
    connection = await aiosqlite.connect(path, isolation_level=None, timeout=5.0, cached_statements=512)
    connection.row_factory = sqlite3.Row
    try:
        for pragma in (
            "journal_mode=WAL",
            "synchronous=NORMAL",
            "foreign_keys=ON",
            "wal_autocheckpoint=0",
            f"cache_size={CACHE_SIZE}",
            "temp_store=MEMORY",
            f"query_only={'ON' if query_only else 'OFF'}",
        ):
            await connection.execute(f"PRAGMA {pragma}")
        await _hop(connection, add_functions, wings)
    except BaseException:
        # Its thread is no daemon thread: left open, it keeps the whole process from ending.
        await connection.close()
        raise
    return connection


async def open_store(
    path: Path,
    wings: Iterable[Path],
    *,
    busy_timeout_s: float = 30.0,
    clock: Callable[[], float] = time.time,
    keeper: bool = False,
) -> SqliteStore:
    """Open (and create, and migrate) the database at `path` for the given wing folders.

    Safe when several processes do it at once. `keeper`: see `SqliteStore`; one process of a room is it, the daemon.
    Raises StoreError when the file is no database of ours, when a saved copy of it waits to be put back, when it was
    written by a newer relay, or when an applied migration was edited since.
    """
    folders = list(wings)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    refuse_saved(path)
    _make_private(path)
    try:
        async with contextlib.AsyncExitStack() as opened:
            writer = await _connect(path, folders, query_only=False)
            opened.push_async_callback(writer.close)
            # From here on the wait for others is `begin`'s (`transaction.py`).
            await writer.execute("PRAGMA busy_timeout=0")
            await _hop(writer, migrate, folders, busy_timeout_s)
            reader = await _connect(path, folders, query_only=True)
            opened.push_async_callback(reader.close)
            long_reader = await _connect(path, folders, query_only=True)
            opened.pop_all()  # the store closes them
    except sqlite3.DatabaseError as error:
        raise StoreError(
            f"{path} cannot be used: {error}. Run {script('healthcheck.sh')}; to start over, move the file away"
        ) from error
    store = SqliteStore(path, writer, (reader, long_reader), busy_timeout_s, clock, keeper=keeper)
    await store.start()
    return store


def _make_private(path: Path) -> None:
    """Make the file its owner's alone before SQLite opens it: what SQLite puts beside it gets the same mode."""
    with contextlib.suppress(OSError):  # SQLite says better what is wrong with the place
        path.touch(mode=0o600)
        for file in path.parent.glob(path.name + "*"):
            if file.name.removeprefix(path.name) in ("", "-wal", "-shm"):
                file.chmod(0o600)
