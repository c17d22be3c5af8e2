"""A crash of the PostgreSQL server: what it had acknowledged and not written is gone, and no number comes twice."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from functools import partial
from typing import Any

import asyncpg
import pytest

from relay.coordination.writes.fencing import LockCheck
from relay.log import events
from relay.log.verify import verify
from relay.model import Caller
from relay.store.ports import Store, StoreError
from relay.store.postgres import store as postgres_store
from tests import postgres
from tests.coordination.desk import over
from tests.engines import SCHEMAS

pytestmark = pytest.mark.faults

#: The longest that a server may keep from its disk what it has acknowledged: the more is lost.
LAZY = {**postgres.SETTINGS, "wal_writer_delay": "10s", "checkpoint_timeout": "1d"}
ANN, BOB = Caller("ann", "s1"), Caller("bob", "s2")


@pytest.fixture
def server() -> Iterator[postgres.Server]:
    """A server of the test's own, since it crashes."""
    found = postgres.binaries()
    if found is None:
        postgres.server()  # says what is missing
        raise AssertionError("no server")
    made = postgres.make_server(found, LAZY)
    yield made
    made.end()


def crash_of_all(server: postgres.Server) -> None:
    """`pg_ctl stop -m immediate`, and a new start."""
    server.restart(signal.SIGQUIT)


def crash_of_one(server: postgres.Server) -> None:
    """kill -9 of one of the server's processes: it ends all others, recovers, and goes on by itself."""

    async def kill() -> None:
        one, other = [await asyncpg.connect(server.dsn("postgres")) for _ in range(2)]
        os.kill(one.get_server_pid(), signal.SIGKILL)
        with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            async with asyncio.timeout(60):
                while True:
                    await other.execute("SELECT pg_sleep(0.01)")
        one.terminate()
        other.terminate()
        # A backend that has not died yet still answers. The server lets a new one in when all are gone.
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(asyncpg.PostgresError, OSError):
                    await (await asyncpg.connect(server.dsn("postgres"))).close()
                    return
                await asyncio.sleep(0.05)

    postgres.run(kill())


async def until_back(store: Store) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await store.read(events.last_pos)
                return
            except StoreError:
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("crash", [crash_of_all, crash_of_one])
async def test_no_token_and_no_cursor_is_given_twice(server: postgres.Server, crash: Any) -> None:
    name = server.new_database(SCHEMAS)
    stores = [await postgres_store.open_store(server.address(name), SCHEMAS) for _ in range(2)]
    locks = [over(store).locks for store in stores]
    given: list[int] = []
    lost = 0
    try:
        for _ in range(2):
            held = {}
            for number in range(30):
                path = f"src/{number}.py"
                # By the function, and every third by a general write.
                paths = [path] if number % 3 else [path, f"doc/{number}.md"]
                got = await locks[number % 2].acquire(ANN, paths)
                given += [one["fencing_token"] for one in got.get("locks", [got])]
                held[path] = given[-len(paths)]
            seen = await stores[0].read(events.last_pos)
            await asyncio.to_thread(crash, server)
            for store in stores:
                await until_back(store)
            assert await verify(stores[0]) == []
            there = {lock["file_path"] for lock in await locks[0].check(ANN)}
            gone = [path for path in held if path not in there]
            lost += len(gone)
            for path in gone[:4]:
                # Another may take what was lost; who had it is fenced off, and told so.
                got = await locks[1].acquire(BOB, [path])
                assert got["fencing_token"] > max(given), "a token was given twice"
                given.append(got["fencing_token"])
                (verdict,) = await stores[0].read(
                    partial(LockCheck().verdicts, caller=ANN, paths=[path], fencing_token=held[path])
                )
                assert verdict.verdict == "stale"
                await locks[1].release(BOB, path)
            # Who reads on from where it was misses nothing.
            found = await stores[0].read(partial(events.read_after, after=seen, types=["lock.acquired"]))
            assert len(found) == len(gone[:4])
            for path in sorted(there):
                await locks[0].release(ANN, path)
        assert lost, "the server lost nothing, so nothing was tried"
    finally:
        for store in stores:
            await store.close()
