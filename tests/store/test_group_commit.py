"""Writes to SQLite that waited for the writer's thread: committed together, each by itself."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.log.verify import verify
from relay.store.ports import AwaitedOutside, Queries, Tx, Work
from relay.store.sqlite import group_commit, writer_queue
from relay.store.sqlite import store as sqlite_store
from relay.store.sqlite.store import SqliteStore, open_store
from relay.store.sqlite.writer_queue import GROUP

PATIENT_S = 60.0
SQL = """
-- name: level
PRAGMA synchronous

-- name: put_parent
INSERT INTO parents (id) VALUES (:id)

-- name: put_parent_or_nothing
INSERT OR ROLLBACK INTO parents (id) VALUES (:id)

-- name: put_child
INSERT INTO children (parent) VALUES (:parent)

-- name: children
SELECT parent FROM children ORDER BY parent

"""


@pytest.fixture(autouse=True)
def time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group ends by its number, however slow the machine is just now."""
    monkeypatch.setattr(group_commit, "GROUP_S", 60.0)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await open_store(tmp_path / "events.db", [events.FOLDER])
    yield opened
    await opened.close()


@pytest.fixture
async def q(store: SqliteStore, tmp_path: Path) -> Queries:
    """Two tables whose rows belong together by the COMMIT, not before."""
    (tmp_path / "things" / "sqlite").mkdir(parents=True)
    (tmp_path / "things" / "sqlite" / "queries.sql").write_text(SQL)
    await store._writer.execute("CREATE TABLE parents (id INTEGER PRIMARY KEY)")
    await store._writer.execute(
        "CREATE TABLE children (parent INTEGER REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED)"
    )
    return Queries(tmp_path / "things")


@asynccontextmanager
async def while_it_writes(store: SqliteStore) -> AsyncIterator[None]:
    """The writer's thread is at a write that changes nothing: what is asked for within waits for it."""
    began, let_go = threading.Event(), threading.Event()

    async def hold(tx: Tx) -> bool:
        began.set()
        return let_go.wait(PATIENT_S)

    holding = asyncio.create_task(store.write(hold))
    try:
        assert await asyncio.to_thread(began.wait, PATIENT_S)
        yield
        await asyncio.sleep(0)  # let those that were made ask
    finally:
        let_go.set()
        assert await holding


async def ended(store: SqliteStore, *works: Work[Any], durable: Work[Any] | None = None) -> list[Any]:
    """What these came to, which all waited when the first of them began."""
    async with while_it_writes(store):
        asked = [asyncio.create_task(store.write(work, durable=work is durable)) for work in works]
    return await asyncio.gather(*asked, return_exceptions=True)


def commits(store: SqliteStore) -> int:
    """The commit frames of the write-ahead log (SQLite, "WAL File Format"): each closes one transaction."""
    log = store.path.with_name(store.path.name + "-wal").read_bytes()
    page, salts = int.from_bytes(log[8:12], "big"), log[16:24]
    frames = [log[at : at + 24] for at in range(32, len(log), 24 + page)]
    return sum(frame[8:16] == salts and frame[4:8] != b"\0\0\0\0" for frame in frames)


def note(who: str) -> Work[events.Event]:
    return lambda tx: events.append(tx, NewEvent("note", Lane("room", who)))


async def notes(store: SqliteStore) -> list[str]:
    assert await verify(store) == []
    return [event.lane for event in await store.read(lambda tx: events.read_after(tx, 0, limit=1000))]


async def test_those_that_waited_are_one_commit_and_one_that_fails_fails_alone(
    store: SqliteStore, q: Queries, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(tx: Tx) -> None:
        await note("fails")(tx)
        raise ValueError("not this one")

    async def waits(tx: Tx) -> None:
        await note("waits")(tx)
        await asyncio.sleep(0)

    async def twice(tx: Tx) -> None:
        for _ in range(2):
            await tx.execute(q.put_parent, id=7)

    async def told(tx: Tx) -> list[str]:
        """What those before it in the group wrote is there for it."""
        return [event.lane for event in await events.read_after(tx, 0)]

    woken: list[Any] = []
    loop = asyncio.get_running_loop()
    safely = loop.call_soon_threadsafe
    # The look at the log for other processes' events notifies too; it finds nothing new here.
    monkeypatch.setattr(sqlite_store, "_news", lambda _connection, last, pos, _known: (last, pos, set()))
    await store.read(lambda tx: tx.one(q.children))  # a look that has begun ends
    monkeypatch.setattr(store._subscribers, "notify", lambda _types: woken.append("notified"))
    before = commits(store)
    async with while_it_writes(store):
        asked = [
            asyncio.create_task(store.write(work))
            for work in (note("a"), fails, note("b"), waits, twice, note("cancelled"), told, note("c"))
        ]
        await asyncio.sleep(0)
        asked[5].cancel()
        monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *a: (woken.append(a[0]), safely(*a))[1])
    a, failed, b, waited, constraint, cancelled, seen, c = await asyncio.gather(
        *asked, return_exceptions=True
    )
    monkeypatch.setattr(loop, "call_soon_threadsafe", safely)
    assert commits(store) == before + 1
    assert [one.seq for one in (a, b, c)] == [1, 1, 1]
    assert str(failed) == "not this one"
    assert isinstance(waited, AwaitedOutside)
    assert isinstance(constraint, sqlite3.IntegrityError)
    assert isinstance(cancelled, asyncio.CancelledError)
    assert seen == ["a", "b"]
    assert await notes(store) == ["a", "b", "c"]
    assert await store.read(lambda tx: tx.one(q.children)) is None
    assert woken.count("notified") == 1
    assert woken.count(store._writes._look_for_answers) <= 2, (
        "for the write that they waited for, and for all of them"
    )


async def test_one_that_comes_alone_is_a_transaction_without_savepoint(store: SqliteStore) -> None:
    said: list[str] = []
    await store._writer.set_trace_callback(said.append)
    await store.write(note("a"))
    alone, said[:] = [word.split()[0] for word in said], []
    assert await ended(store, note("b"), note("c"))
    together = [
        word.split()[0] for word in said if word.split()[0] in ("BEGIN", "SAVEPOINT", "RELEASE", "COMMIT")
    ]
    assert (alone[0], alone[-1], "SAVEPOINT" in alone) == ("BEGIN", "COMMIT", False)
    held = ["BEGIN", "COMMIT"]
    assert together == [*held, "BEGIN", *["SAVEPOINT", "RELEASE"] * 2, "COMMIT"]


async def test_those_of_one_turn_of_the_loop_are_one_commit(store: SqliteStore) -> None:
    before = commits(store)
    found = await asyncio.gather(*(store.write(note("ann")) for _ in range(GROUP)))
    assert [event.seq for event in found] == list(range(1, GROUP + 1)), "in the order of asking"
    assert commits(store) == before + 1


async def test_the_loop_waits_for_a_short_write_and_for_no_other(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[Any] = []
    loop = asyncio.get_running_loop()
    safely = loop.call_soon_threadsafe
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *a: (woken.append(a), safely(*a))[1])

    async def answered(wait_s: float, *, durable: bool = False) -> int:
        """How many answers of ten writes came by waking the loop."""
        monkeypatch.setattr(writer_queue, "LOOP_S", wait_s)
        woken.clear()
        for _ in range(10):
            await store.write(note("ann"), durable=durable)
        return sum(call[0] == store._writes._look_for_answers for call in woken)

    assert await answered(60.0) <= 1, "the first may be in doubt: the one before it was not quick"
    assert await answered(60.0, durable=True) == 10
    await answered(0.0)
    assert await answered(0.0) == 10, "it was not quick, so the next one is not waited for"
    await answered(0.00005)  # each may be answered as the wait ends
    assert len(await notes(store)) == 50


async def test_a_group_has_a_bound_in_number_and_in_time(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = commits(store)
    found = await ended(store, *(note("ann") for _ in range(2 * GROUP + 1)))
    assert [event.seq for event in found] == list(range(1, 2 * GROUP + 2)), "in the order of asking"
    assert commits(store) == before + 3
    monkeypatch.setattr(group_commit, "GROUP_S", 0.0)
    await ended(store, *(note("bob") for _ in range(5)))
    assert commits(store) == before + 3 + 5
    assert len(await notes(store)) == 2 * GROUP + 6


async def test_a_group_with_a_durable_write_is_durable(store: SqliteStore, q: Queries) -> None:
    async def level(tx: Tx) -> int:
        row = await tx.one(q.level)
        assert row is not None
        return int(row["synchronous"])

    async def and_more(tx: Tx) -> int:
        return await level(tx)

    assert await ended(store, level, and_more, level, durable=and_more) == [2, 2, 2]
    assert await ended(store, level, level) == [1, 1]


async def test_where_sqlite_gives_up_the_whole_each_is_done_again_by_itself(
    store: SqliteStore, q: Queries
) -> None:
    begun: list[str] = []

    async def twice(tx: Tx) -> None:
        begun.append("twice")
        for _ in range(2):
            await tx.execute(q.put_parent_or_nothing, id=7)

    def counted(who: str) -> Work[events.Event]:
        async def work(tx: Tx) -> events.Event:
            begun.append(who)
            return await note(who)(tx)

        return work

    before = commits(store)
    a, failed, b = await ended(store, counted("a"), twice, counted("b"))
    assert begun == ["a", "twice", "a", "twice", "b"]
    assert isinstance(failed, sqlite3.IntegrityError)
    assert [a.seq, b.seq] == [1, 1]
    assert commits(store) == before + 2
    assert await notes(store) == ["a", "b"]


async def test_one_that_the_disk_has_no_room_for_harms_no_other(store: SqliteStore) -> None:
    # The database may grow by 20 pages of 4 KiB.
    (pages,) = await (await store._writer.execute("PRAGMA page_count")).fetchone() or (0,)
    await store._writer.execute(f"PRAGMA max_page_count={pages + 20}")
    large = NewEvent("note", Lane("room", "large"), outputs={"x": "y" * 1_000_000})
    a, full, b = await ended(store, note("a"), lambda tx: events.append(tx, large), note("b"))
    assert isinstance(full, sqlite3.OperationalError)
    assert full.sqlite_errorcode == sqlite3.SQLITE_FULL
    assert [a.seq, b.seq] == [1, 1]
    assert await notes(store) == ["a", "b"]


async def test_where_the_commit_fails_each_is_done_again_by_itself(store: SqliteStore, q: Queries) -> None:
    async def orphan(tx: Tx) -> None:
        await tx.execute(q.put_child, parent=1)

    async def whole(tx: Tx) -> None:
        await tx.execute(q.put_child, parent=2)
        await tx.execute(q.put_parent, id=2)

    before = commits(store)
    a, failed, done, b = await ended(store, note("a"), orphan, whole, note("b"))
    assert isinstance(failed, sqlite3.IntegrityError)
    assert done is None
    assert [a.seq, b.seq] == [1, 1]
    assert commits(store) == before + 3
    found = await store.read(lambda tx: tx.all(q.children))
    assert [row["parent"] for row in found] == [2]
    assert await notes(store) == ["a", "b"]


async def test_who_asks_as_the_store_closes_is_told(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "events.db", [events.FOLDER])
    async with while_it_writes(store):
        asked = [asyncio.create_task(store.write(note(who))) for who in "ab"]
        await asyncio.sleep(0)
        closing = asyncio.create_task(store.close())
    assert [event.seq for event in await asyncio.gather(*asked)] == [1, 1], "what was asked before is done"
    await closing
    with pytest.raises(ValueError, match="closed"):
        await store.write(note("late"))
