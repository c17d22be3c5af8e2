"""A database's only daemon, by its store: who may write, and when."""

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


async def opened(dsn: str, *, sole: bool = True) -> postgres_store.PostgresStore:
    return await postgres_store.open_store(read_address(dsn, "the test"), SCHEMAS, sole=sole)


async def say(store: Store) -> None:
    await store.write(lambda tx: events.append(tx, NewEvent("test", Lane("room", "test"))))


async def holder(connection: Any) -> postgres_sole.DaemonSession | None:
    return await postgres_sole.holder_of(connection, "relay")


async def until(look: Any) -> None:
    async with asyncio.timeout(60):
        while not await look():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_one_is_the_only_one_until_it_closes(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_sole, "PATIENT_S", 0.0)
    first = await opened(dsn)
    try:
        with pytest.raises(AnotherDaemon, match=f"has a daemon already: {ME}"):
            await opened(dsn)
        other = await opened(dsn, sole=False)  # a command's, or an agent's: of these there are many
        try:
            await say(other)
            assert await other.daemon() == await first.daemon() == ME
        finally:
            await other.close()
    finally:
        await first.close()
    await (await opened(dsn)).close()


async def test_who_lost_the_lock_to_another_writes_nothing_more(dsn: str, admin: Any) -> None:
    first = await opened(dsn)
    found, sole = await holder(admin), first._sole
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
            assert await second.daemon() == ME
            await say(second)
        finally:
            await second.close()
    finally:
        await first.close()


async def test_who_lost_the_lock_while_it_waited_for_its_turn_writes_nothing(dsn: str) -> None:
    first = await opened(dsn)
    try:
        assert first._sole is not None
        before = await first.read(events.last_pos)
        async with first._turn:
            waiting = asyncio.create_task(say(first))
            await asyncio.sleep(0)
            first._sole.lost = AnotherDaemon("another daemon has it")
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
        assert before is not None and first._sole is not None
        # The network is cut: no answer comes any more, and the server does not know.
        first._sole._connection = None
        first._sole._ended.set()

        async def anew() -> bool:
            now = await holder(admin)
            return now is not None and now.backend != before.backend and first._sole.held  # type: ignore[union-attr]

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
