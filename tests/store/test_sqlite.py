"""The embedded store as a file that several processes open, migrate, lock and write."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
import threading
from asyncio.subprocess import DEVNULL, PIPE
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from relay.app.wiring.schema import SCHEMAS
from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.log.follow import tail
from relay.log.verify import verify
from relay.store import wakeup as side_tasks
from relay.store.ports import AwaitedOutside, Queries, StoreBusy, StoreError, Tx, load_migrations
from relay.store.sqlite import store as sqlite_store
from relay.store.sqlite.store import SqliteStore, open_store

LOG = events.FOLDER
ROOT = Path(__file__).parents[2]
PATIENT_S = 60.0
ANN = Lane("room", "human:ann")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await open_store(tmp_path / "events.db", [LOG])
    yield opened
    await opened.close()


def wing(folder: Path, *steps: str) -> Path:
    """A wing of a test's own, with these migrations."""
    migrations = folder / "things" / "sqlite" / "migrations"
    migrations.mkdir(parents=True, exist_ok=True)
    for old in migrations.iterdir():
        old.unlink()
    for number, sql in enumerate(steps, start=1):
        (migrations / f"{number:04d}_step.sql").write_text(sql)
    return folder / "things"


FIRST = "-- one; and a comment\nCREATE TABLE things (name TEXT);\nINSERT INTO things VALUES ('a;b');\n"
SECOND = (
    "CREATE TRIGGER counted AFTER INSERT ON things BEGIN\n  UPDATE things SET name = name || '!';\nEND;\n"
    "INSERT INTO things VALUES ('c');\n-- done\n"
)


def rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(path) as connection:
        found = connection.execute(sql).fetchall()
    connection.close()
    return found


async def opened_once(path: Path, *wings: Path) -> None:
    store = await open_store(path, wings)
    await store.close()


# -- migrations


async def test_migrations_are_applied_once_from_every_version(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    await opened_once(path, wing(tmp_path, FIRST))
    assert rows(path, "SELECT name FROM things") == [("a;b",)]
    for _ in range(2):
        await opened_once(path, wing(tmp_path, FIRST, SECOND))
        assert rows(path, "SELECT name FROM things ORDER BY 1") == [("a;b!",), ("c!",)]
    assert rows(path, "SELECT wing, version FROM schema_migrations") == [("things", 1), ("things", 2)]


async def test_an_edited_migration_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    await opened_once(path, wing(tmp_path, FIRST))
    with pytest.raises(StoreError, match="differs from the one that was applied"):
        await opened_once(path, wing(tmp_path, FIRST + "\n", SECOND))
    assert rows(path, "SELECT COUNT(*) FROM things") == [(1,)]


async def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    await opened_once(path, wing(tmp_path, FIRST, SECOND))
    with pytest.raises(StoreError, match="newer relay"):
        await opened_once(path, wing(tmp_path, FIRST))


@pytest.mark.parametrize("broken", ["SELECT nonsense FROM nowhere;", "CREATE TABLE more (x"])
async def test_a_migration_that_fails_leaves_nothing(tmp_path: Path, broken: str) -> None:
    path = tmp_path / "x.db"
    await opened_once(path, wing(tmp_path, FIRST))
    with pytest.raises(StoreError):
        await opened_once(path, wing(tmp_path, FIRST, "CREATE TABLE half (x);\n" + broken))
    assert rows(path, "SELECT name FROM sqlite_master WHERE name = 'half'") == []
    await opened_once(path, wing(tmp_path, FIRST, "CREATE TABLE half (x);\n"))
    assert len(rows(path, "SELECT name FROM sqlite_master WHERE name = 'half'")) == 1


def test_a_gap_in_the_numbers_is_refused(tmp_path: Path) -> None:
    folder = wing(tmp_path, FIRST, SECOND)
    (folder / "sqlite" / "migrations" / "0001_step.sql").unlink()
    with pytest.raises(StoreError, match="not numbered"):
        load_migrations(folder, "sqlite")


async def test_what_is_no_database_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(b"my diary\n" * 1000)
    with pytest.raises(StoreError, match="cannot be used"):
        await opened_once(path, LOG)
    assert path.read_bytes() == b"my diary\n" * 1000


OPENER = """
import asyncio, sys
from pathlib import Path
from typing import Any
from relay.store.sqlite.store import open_store
from tests.room.parts import SCHEMAS

async def main() -> None:
    sys.stdin.readline()
    store = await open_store(Path(sys.argv[1]), SCHEMAS)
    await store.close()

asyncio.run(main())
"""


async def test_processes_that_open_at_once_all_succeed(tmp_path: Path) -> None:
    path = tmp_path / "events.db"
    started = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", OPENER, str(path), cwd=ROOT, stdin=asyncio.subprocess.PIPE
        )
        for _ in range(3)
    ]
    for one in started:
        assert one.stdin is not None
        one.stdin.write(b"go\n")
        await one.stdin.drain()
    async with asyncio.timeout(PATIENT_S):
        assert [await one.wait() for one in started] == [0, 0, 0]
    applied = rows(path, "SELECT wing, version, COUNT(*) FROM schema_migrations GROUP BY 1, 2")
    assert applied
    assert {count for _, _, count in applied} == {1}
    assert path.stat().st_mode & 0o777 == 0o600


# -- many writers

WRITER = """
import asyncio, sys
from pathlib import Path
from typing import Any
from relay.app.wiring.schema import SCHEMAS
from relay.log import events
from relay.store.sqlite import store as sqlite_store
from relay.log.events import Lane, NewEvent
from relay.store.sqlite.store import open_store

async def main() -> None:
    store = await open_store(Path(sys.argv[1]), [events.FOLDER])
    own, shared = Lane("room", sys.argv[2]), Lane("room", "shared")
    async def write(count):
        async def work(tx):
            said = await events.append(tx, NewEvent("note", own))
            await events.append(tx, NewEvent("heard", shared, parents=[said.id]))
            return said.seq
        for _ in range(count):
            print(await store.write(work), flush=True)
    callers = int(sys.argv[4])
    await asyncio.gather(*(write(int(sys.argv[3]) // callers) for _ in range(callers)))
    await store.close()

asyncio.run(main())
"""


async def test_four_processes_fork_no_lane_and_a_reader_misses_nothing(tmp_path: Path) -> None:
    path, count = tmp_path / "events.db", 60
    store = await open_store(path, [LOG])
    seen: list[events.Event] = []

    async def read() -> None:
        async for batch in tail(store, 0):
            seen.extend(batch)
            if len(seen) >= 4 * count * 2:
                return

    reading = asyncio.create_task(read())
    try:
        writers = [
            await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                WRITER,
                str(path),
                f"w{i}",
                str(count),
                callers,
                cwd=ROOT,
                stdout=DEVNULL,
            )
            for i, callers in enumerate("1146")
        ]
        async with asyncio.timeout(PATIENT_S):
            assert [await one.wait() for one in writers] == [0] * 4
            await reading
        assert [event.pos for event in seen] == sorted({event.pos for event in seen})
        for lane in ("w0", "w1", "w2", "w3", "shared"):
            length = count * 4 if lane == "shared" else count
            assert [event.seq for event in seen if event.lane == lane] == list(range(1, length + 1))
        assert await verify(store) == []
    finally:
        reading.cancel()
        await store.close()


async def test_a_writer_killed_in_a_transaction_leaves_no_half_and_loses_nothing_it_was_told(
    tmp_path: Path,
) -> None:
    path = tmp_path / "events.db"
    store = await open_store(path, [LOG])
    told = 0
    try:
        # Of one caller each transaction is his own; of twelve they are groups.
        for wait, callers in ((0.05, "1"), (0.1, "12"), (0.15, "12")):
            writer = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", WRITER, str(path), "w", "120000", callers), cwd=ROOT, stdout=PIPE
            )
            before = await store.read(events.last_pos)
            async with asyncio.timeout(PATIENT_S):
                async for _ in tail(store, before):
                    break
            await asyncio.sleep(wait)
            writer.send_signal(signal.SIGKILL)
            said, _ = await writer.communicate()
            acknowledged = {int(line) for line in said.splitlines(keepends=True) if line.endswith(b"\n")}
            found = await store.read(lambda tx: events.read_after(tx, 0, limit=1_000_000))
            types = Counter(event.type for event in found)
            assert types["note"] == types["heard"]
            assert acknowledged <= {event.seq for event in found if event.lane == "w"}
            told += len(acknowledged)
            assert await verify(store) == []
        assert told
    finally:
        await store.close()


# -- locked, cancelled


async def test_a_lock_that_is_held_on_is_busy_and_a_short_one_is_waited_for(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "events.db", [LOG], busy_timeout_s=0.2)
    blocker = sqlite3.connect(store.path, isolation_level=None, check_same_thread=False)
    try:
        blocker.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match="try again"):
            await store.write(lambda tx: events.append(tx, NewEvent("note", ANN)))
        # Readers are not held up by a writer.
        assert await store.read(events.last_pos) == 0
        blocker.execute("ROLLBACK")
        await store.write(lambda tx: events.append(tx, NewEvent("note", ANN)))
    finally:
        blocker.close()
        await store.close()
    patient = await open_store(tmp_path / "events.db", [LOG], busy_timeout_s=PATIENT_S)
    blocker = sqlite3.connect(patient.path, isolation_level=None, check_same_thread=False)
    try:
        blocker.execute("BEGIN IMMEDIATE")
        letting_go = threading.Timer(0.3, blocker.execute, ["ROLLBACK"])
        letting_go.start()
        event = await patient.write(lambda tx: events.append(tx, NewEvent("note", ANN)))
        assert event.seq == 2
        letting_go.join()
    finally:
        blocker.close()
        await patient.close()


async def test_writers_behind_a_lock_that_is_held_on_give_up_together(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "events.db", [LOG], busy_timeout_s=1.0)
    blocker = sqlite3.connect(store.path, isolation_level=None)
    try:
        blocker.execute("BEGIN IMMEDIATE")
        writes = [store.write(lambda tx: events.append(tx, NewEvent("note", ANN))) for _ in range(60)]
        async with asyncio.timeout(30):  # one after the other they would take a minute
            ended = await asyncio.gather(*writes, return_exceptions=True)
        assert all(isinstance(one, StoreBusy) for one in ended)
        blocker.execute("ROLLBACK")
        assert await store.read(events.last_pos) == 0
    finally:
        blocker.close()
        await store.close()


async def test_a_cancelled_write_harms_nobody(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "events.db", [LOG])
    blocker = sqlite3.connect(store.path, isolation_level=None)
    try:
        blocker.execute("BEGIN IMMEDIATE")
        writing = asyncio.create_task(store.write(lambda tx: events.append(tx, NewEvent("note", ANN))))
        await asyncio.sleep(0.05)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        blocker.execute("ROLLBACK")
        wakeup = store.wakeup()
        await store.write(lambda tx: events.append(tx, NewEvent("note", ANN)), durable=True)
        assert await wakeup.wait(PATIENT_S)
        found = await store.read(lambda tx: events.read_after(tx, 0))
        assert [event.seq for event in found] == list(range(1, len(found) + 1))
        assert await verify(store) == []
    finally:
        blocker.close()
        await store.close()


async def test_a_transaction_awaits_nothing_but_its_tx(store: SqliteStore) -> None:
    async def work(tx: Tx) -> None:
        await events.append(tx, NewEvent("note", ANN))
        await asyncio.sleep(0)

    with pytest.raises(AwaitedOutside, match="awaited something other"):
        await store.write(work)
    assert await store.read(events.last_pos) == 0


async def test_what_was_written_is_brought_home(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write-ahead log does not grow for ever: it is used again from its beginning."""
    monkeypatch.setattr(sqlite_store, "CHECKPOINT_EVERY_S", 0.01)
    monkeypatch.setattr(sqlite_store, "CHECKPOINT_ROWS", 10)
    monkeypatch.setattr(sqlite_store, "CHECKPOINT_BYTES", 40_000)
    other = await open_store(tmp_path / "events.db", [LOG])
    wal = tmp_path / "events.db-wal"
    try:
        sizes: list[int] = []
        async with asyncio.timeout(60):
            while len(sizes) < 4 or len(set(sizes[-4:])) > 1:
                for _ in range(10):
                    await other.write(lambda tx: events.append(tx, NewEvent("note", ANN)))
                sizes.append(wal.stat().st_size)
                await asyncio.sleep(0.02)
        assert await verify(store) == []
    finally:
        await other.close()


# -- the write-ahead log


async def test_the_write_ahead_log_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay.store.sqlite.store.CHECKPOINT_EVERY_S", 0.05)
    monkeypatch.setattr("relay.store.sqlite.store.CHECKPOINT_BYTES", 100_000)
    store = await open_store(tmp_path / "events.db", [LOG])
    try:
        big = {"x": "y" * 50_000}
        wal = store.path.with_name("events.db-wal")
        written = 0
        async with asyncio.timeout(PATIENT_S):
            while written < 2_000_000 or written < 4 * wal.stat().st_size:
                await store.write(lambda tx: events.append(tx, NewEvent("note", ANN, outputs=big)))
                written += 50_000
                await asyncio.sleep(0.01)
        assert await store.check() == []
    finally:
        await store.close()


async def test_a_durable_write_is_synchronous_and_the_next_is_not(store: SqliteStore) -> None:
    levels: list[int] = []

    async def work(tx: Tx) -> None:
        row = await tx.one(Queries(Path(__file__).parent).level)
        assert row is not None
        levels.append(row["synchronous"])

    for durable in (False, True, False):
        await store.write(work, durable=durable)
    assert levels == [1, 2, 1]


def test_the_folder_of_a_new_database_is_private(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        asyncio.run(opened_once(tmp_path / "new" / "events.db", LOG))
    finally:
        os.umask(old)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


async def test_what_lies_beside_a_database_is_private_too(tmp_path: Path) -> None:
    (tmp_path / "events.db-wal").touch(mode=0o644)
    old = os.umask(0o022)
    try:
        store = await open_store(tmp_path / "events.db", [LOG])
    finally:
        os.umask(old)
    await store.write(lambda tx: events.append(tx, NewEvent("note", ANN)))
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    await store.close()
    assert modes == {"events.db": 0o600, "events.db-wal": 0o600, "events.db-shm": 0o600}


# -- long reads, side tasks


async def test_a_long_read_holds_up_no_short_one(store: SqliteStore) -> None:
    let_go = threading.Event()

    async def long(tx: Tx) -> bool:
        return let_go.wait(PATIENT_S)

    reading = asyncio.create_task(store.read(long, long=True))
    try:
        await asyncio.sleep(0)
        async with asyncio.timeout(PATIENT_S / 2):
            assert await store.read(events.last_pos) == 0
        assert not reading.done()
    finally:
        let_go.set()
    assert await reading


async def test_a_side_task_that_fails_is_told_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_tasks, "SIDE_RETRY_S", (0.01, 0.02))
    monkeypatch.setattr(sqlite_store, "CHECKPOINT_EVERY_S", 0.01)
    monkeypatch.setattr(sqlite_store, "CHECKPOINT_ROWS", 1)
    looks, checkpoints = iter(range(3)), iter(range(3))
    looked, checkpointed = asyncio.Event(), asyncio.Event()
    loop, honest = asyncio.get_running_loop(), sqlite_store._news

    def look(*asked: Any) -> Any:
        if next(looks, None) is not None:
            raise OSError("a bad look")
        loop.call_soon_threadsafe(looked.set)
        return honest(*asked)

    def checkpoint(path: Path) -> None:
        if next(checkpoints, None) is not None:
            raise sqlite3.DatabaseError("a bad checkpoint")
        loop.call_soon_threadsafe(checkpointed.set)

    monkeypatch.setattr(sqlite_store, "_news", look)
    monkeypatch.setattr(sqlite_store, "_checkpoint_now", checkpoint)
    with capture_logs() as told:
        one, other = [await open_store(tmp_path / "events.db", [LOG]) for _ in range(2)]
        wakeup = one.wakeup()
        try:
            async with asyncio.timeout(PATIENT_S):
                assert await wakeup.wait()
                while not (looked.is_set() and checkpointed.is_set()):
                    await other.write(lambda tx: events.append(tx, NewEvent("note", ANN)))
                    await asyncio.sleep(0.02)
        finally:
            await one.close()
            await other.close()
    failed = {line["task"] for line in told if line["event"] == "a side task of the store failed"}
    assert failed == {"store-watch", "store-checkpoint"}


async def test_sqlite_is_asked_at_each_look_of_a_watch_that_looks_seldom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A durable commit is seen when its flush ends. The write before that is told, its end is not."""
    monkeypatch.setattr(sqlite_store, "UNHEARD_S", 0.02)
    asked, looked, honest = 0, 0, sqlite_store._news

    def news(*arguments: Any) -> Any:
        nonlocal asked
        asked += 1
        return honest(*arguments)

    monkeypatch.setattr(sqlite_store, "_news", news)
    store = await open_store(tmp_path / "events.db", [LOG], keeper=True)
    honestly = store._look_at_files

    async def look() -> None:
        nonlocal looked
        looked += 1
        await honestly()

    monkeypatch.setattr(store, "_look_at_files", look)
    try:
        async with asyncio.timeout(60):
            while looked < 12:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert asked >= looked - 1
    finally:
        await store.close()


async def test_a_checkpoint_empties_the_journal_unless_somebody_reads(store: SqliteStore) -> None:
    await store.write(lambda tx: events.append(tx, NewEvent("note", ANN)))
    reader = sqlite3.connect(store.path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM events").fetchall()
    await store.write(lambda tx: events.append(tx, NewEvent("note", ANN)))
    assert not await store.checkpoint()
    reader.execute("ROLLBACK")
    reader.close()
    assert (await store.size()).journal > 0
    assert await store.checkpoint(whole=True)
    size = await store.size()
    assert size.journal == 0
    assert size.data > 0


async def test_tables_without_row_ids_have_their_key_in_front(tmp_path: Path) -> None:
    """Else SQLite's own check calls a sound file damaged ("NULL value in ..."), at least until 3.40."""
    store = await open_store(tmp_path / "events.db", SCHEMAS)
    await store.close()
    with closing(sqlite3.connect(tmp_path / "events.db")) as connection:
        made = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        for name in [name for name, sql in made if "without rowid" in sql.lower()]:
            columns = connection.execute(f"PRAGMA table_info({name})").fetchall()
            key = [number for number, *_, place in columns if place]
            assert key == list(range(len(key))), name


async def test_a_table_kept_in_its_keys_order_has_its_columns_in_that_order(tmp_path: Path) -> None:
    """SQLite 3.40's quick_check takes other tables without a row id for damaged, and so would the room."""
    path = tmp_path / "events.db"
    await (await open_store(path, SCHEMAS)).close()
    with closing(sqlite3.connect(path)) as connection:
        named = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%WITHOUT ROWID%'"
        tables = [name for (name,) in connection.execute(named)]
        for table in tables:
            columns = connection.execute(f"PRAGMA table_info('{table}')").fetchall()
            keys = [row[5] for row in columns if row[5]]
            assert [row[5] for row in columns][: len(keys)] == sorted(keys), table
    assert "knowledge_relations" in tables


async def test_a_search_does_not_wait_for_a_check_of_the_whole_file(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = threading.Event()
    monkeypatch.setattr(sqlite_store, "_faults", lambda _: [] if read.wait(30) else ["nobody could read"])
    checking = asyncio.create_task(store.check())
    await asyncio.sleep(0)
    await store.read(events.last_pos, long=True)
    read.set()
    assert await checking == []
