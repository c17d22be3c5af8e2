"""A process that is stopped in the middle of a statement does not hold the room for as long as it stands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.store.postgres import silent_holder
from relay.store.postgres import store as postgres_store
from relay.store.postgres.address import read_address
from tests import engines
from tests.engines import SCHEMAS, on_engine

#: Takes the room's lock, and prepares a statement without running it, as a driver does between two answers.
HOLDS = """
import asyncio, sys, asyncpg
async def main():
    connection = await asyncpg.connect(sys.argv[1])
    await connection.execute("BEGIN; SELECT pg_advisory_xact_lock(1919249529, hashtext('relay'))")
    await connection.prepare("SELECT 1 + $1::int")
    print("held", flush=True)
    await asyncio.sleep(3600)
asyncio.run(main())
"""


@pytest.fixture
def dsn(tmp_path: Path) -> Any:
    with on_engine("postgres"):
        yield engines.address_of(tmp_path)


async def test_a_write_ends_a_holder_that_says_nothing(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silent_holder, "IDLE_S", 1)
    store = await postgres_store.open_store(read_address(dsn, "the test"), SCHEMAS)
    holder = subprocess.Popen([sys.executable, "-c", HOLDS, dsn], stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        os.kill(holder.pid, signal.SIGSTOP)
        # With the server's own limit the holder would stand in the way until it goes on.
        await store.write(lambda tx: events.append(tx, NewEvent("test", Lane("room", "test"))))
    finally:
        holder.kill()
        holder.wait()
        await store.close()
