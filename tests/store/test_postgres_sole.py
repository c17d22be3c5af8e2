"""The only daemon of a member's name, by its store: who may write, and when."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.store.ports import AnotherDaemon, Store, StoreAway
from relay.store.postgres import daemon_lock as postgres_sole
from relay.store.postgres import store as postgres_store
from relay.store.postgres.address import read_address
from tests import engines
from tests.engines import SCHEMAS, on_engine

ME = f"pid {os.getpid()} on {socket.gethostname()}"


@pytest.fixture
def dsn(tmp_path: Path) -> Any:
    with on_engine("postgres"):
        yield engines.address_of(tmp_path)


@pytest.fixture
async def admin(dsn: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


async def opened(dsn: str, member: str | None = "one") -> postgres_store.PostgresStore:
    return await postgres_store.open_store(read_address(dsn, "the test"), SCHEMAS, member=member)


async def say(store: Store) -> None:
    await store.write(lambda tx: events.append(tx, NewEvent("test", Lane("room", "test"))))


async def holder(connection: Any) -> postgres_sole.DaemonSession | None:
    return await postgres_sole.holder_of(connection, "relay", "one")


async def until(look: Any) -> None:
    async with asyncio.timeout(60):
        while not await look():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_one_is_the_only_one_until_it_closes(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_sole, "PATIENT_S", 0.0)
    first = await opened(dsn)
    try:
        with pytest.raises(AnotherDaemon, match=f"a daemon already that is called 'one': {ME}"):
            await opened(dsn)
        other = await opened(dsn, None)  # a command's, or an agent's: of these there are many
        try:
            await say(other)
            assert await other.daemon("one") == await first.daemon("one") == ME
        finally:
            await other.close()
    finally:
        await first.close()
    await (await opened(dsn)).close()


async def test_who_lost_the_lock_to_another_writes_nothing_more(dsn: str, admin: Any) -> None:
    first = await opened(dsn)
    found, sole = await holder(admin), first._lock
    assert found is not None and sole is not None
    connect, may = sole._connect, asyncio.Event()

    async def late() -> Any:
        await may.wait()
        return await connect()

    sole._connect = late
    staying = asyncio.create_task(first.stay_sole())
    await admin.execute(f"SELECT pg_terminate_backend({found.backend})")
    try:
        second = await opened(dsn)
        try:
            with pytest.raises(StoreAway, match="nothing was changed, try again"):
                await say(first)
            before = await second.read(events.last_pos)
            may.set()
            with pytest.raises(AnotherDaemon, match=ME):
                await asyncio.wait_for(staying, 60)
            with pytest.raises(AnotherDaemon):
                await say(first)
            assert await second.read(events.last_pos) == before
            await first.close()
            assert await second.daemon("one") == ME
            await say(second)
        finally:
            await second.close()
    finally:
        await first.close()


async def test_who_lost_the_lock_while_it_waited_for_its_turn_writes_nothing(dsn: str) -> None:
    first = await opened(dsn)
    try:
        assert first._lock is not None
        before = await first.read(events.last_pos)
        async with first._turn:
            waiting = asyncio.create_task(say(first))
            await asyncio.sleep(0)
            first._lock.lost = AnotherDaemon("another daemon has it")
        with pytest.raises(AnotherDaemon):
            await waiting
        assert await first.read(events.last_pos) == before
    finally:
        await first.close()


async def test_a_session_that_the_server_still_has_of_a_lost_connection_is_ended(
    dsn: str, admin: Any
) -> None:
    first = await opened(dsn)
    try:
        before = await holder(admin)
        assert before is not None and first._lock is not None
        # The network is cut: no answer comes any more, and the server does not know.
        first._lock._connection = None
        first._lock._ended.set()

        async def anew() -> bool:
            now = await holder(admin)
            return now is not None and now.backend != before.backend and first._lock.held  # type: ignore[union-attr]

        await until(anew)
        await say(first)
    finally:
        await first.close()


async def test_a_holder_that_is_no_daemon_of_ours_is_named_as_what_it_calls_itself(
    dsn: str, admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_sole, "PATIENT_S", 0.0)
    await admin.execute("SET application_name = 'psql of ann'")
    await admin.execute(f"SELECT pg_advisory_lock({postgres_sole.SOLE_LOCK}, hashtext('relay'))")
    with pytest.raises(AnotherDaemon, match="a program that calls itself 'psql of ann'"):
        await opened(dsn)


async def test_members_of_other_names_share_the_database(dsn: str) -> None:
    first, second = await opened(dsn), await opened(dsn, "two")
    try:
        await say(first)
        await say(second)
        assert await first.daemon("two") == await second.daemon("one") == ME
        assert await first.daemon("three") == ""
    finally:
        await first.close()
        await second.close()


async def test_an_older_relay_and_a_member_never_share_one(
    dsn: str, admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_sole, "PATIENT_S", 0.0)
    alone = f"SELECT pg_try_advisory_lock({postgres_sole.SOLE_LOCK}, hashtext('relay'))"
    first = await opened(dsn)
    try:
        assert not await admin.fetchval(alone)
    finally:
        await first.close()
    await admin.execute("SET application_name = 'relay daemon 4711 12345678 build-1'")
    assert await admin.fetchval(alone)
    with pytest.raises(
        AnotherDaemon, match=r"shares it with none: pid 4711 on build-1\. It is an older relay"
    ):
        await opened(dsn)


async def test_the_lock_is_kept_however_long_the_tables_take(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_sole, "LOOK_S", 0.01)
    taken: list[Any] = []

    async def take(lock: Any, before: Any = postgres_sole.DaemonLock.take) -> None:
        await before(lock)
        taken.append((lock, lock._seen_at))

    async def migrated(*words: Any, before: Any = postgres_store.migrate) -> None:
        async def looked() -> bool:
            lock, at = taken[0]
            return bool(lock._seen_at > at)

        await until(looked)
        await before(*words)

    monkeypatch.setattr(postgres_sole.DaemonLock, "take", take)
    monkeypatch.setattr(postgres_store, "migrate", migrated)
    store = await opened(dsn)
    await say(store)
    await store.close()
