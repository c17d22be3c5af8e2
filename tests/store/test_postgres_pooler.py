"""A real PgBouncer between relay and the server: in session mode all works, in the others relay refuses to start."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.store.ports import Store, StoreError
from relay.store.postgres import store as postgres_store
from relay.store.postgres.address import read_address
from tests import postgres
from tests.engines import SCHEMAS
from tests.outside import eventually

CONFIG = """
[databases]
* = host={socket}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users.txt
pool_mode = {mode}
default_pool_size = 20
logfile = {folder}/pgbouncer.log
"""


@pytest.fixture
def database() -> str:
    return postgres.server().new_database(SCHEMAS)


@asynccontextmanager
async def pooler(folder: Path, mode: str, database: str) -> AsyncIterator[str]:
    """The address of the database behind a pooler in this mode."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip("there is no PgBouncer: install pgbouncer")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # It refuses to run as root, and a test's folder may be root's alone.
    user = "nobody" if os.geteuid() == 0 else None
    here = postgres.server().folder / f"pooler-{port}" if user else folder
    here.mkdir(exist_ok=True)
    (here / "users.txt").write_text('"relay" ""\n')
    (here / "pgbouncer.ini").write_text(
        CONFIG.format(socket=postgres.server().folder, port=port, folder=here, mode=mode)
    )
    if user:
        shutil.chown(here, user)
    process = subprocess.Popen(  # noqa: ASYNC220
        [program, "-q", str(here / "pgbouncer.ini")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        **({"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if user else {}),
    )
    dsn = f"postgres://relay:s3cret@127.0.0.1:{port}/{database}"

    async def answers() -> bool:
        assert process.poll() is None, (here / "pgbouncer.log").read_text()
        try:
            await (await asyncpg.connect(dsn, statement_cache_size=0)).close()
        except OSError:
            return False
        return True

    try:
        await eventually(answers, "the pooler answers")
        yield dsn
    finally:
        process.terminate()
        process.wait(30)


async def opened(dsn: str) -> Store:
    return await postgres_store.open_store(read_address(dsn, "RELAY_X"), SCHEMAS)


async def say(store: Store) -> None:
    await store.write(lambda tx: events.append(tx, NewEvent("test", Lane("room", "test"))))


@pytest.mark.parametrize("mode", ["transaction", "statement"])
async def test_a_pooler_that_gives_connections_to_others_is_refused_in_words(
    tmp_path: Path, database: str, mode: str
) -> None:
    async with pooler(tmp_path, mode, database) as dsn:
        for _ in range(3):  # also when its connections are warm
            with pytest.raises(StoreError, match=r"pooler in transaction mode.*session mode") as refused:
                await opened(dsn)
            assert "\n" not in str(refused.value) and "s3cret" not in str(refused.value)
        # Also while others use it, so that it gives another connection each time.
        others = [await asyncpg.connect(dsn, statement_cache_size=0) for _ in range(4)]

        async def busy(connection: asyncpg.Connection) -> None:
            while True:
                await connection.execute("SELECT pg_sleep(0.001)")

        tasks = [asyncio.create_task(busy(one)) for one in others]
        try:
            for _ in range(10):
                with pytest.raises(StoreError, match=r"pooler in transaction mode.*session mode"):
                    await opened(dsn)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for one in others:
                one.terminate()


async def test_a_pooler_in_session_mode_is_as_good_as_the_server(tmp_path: Path, database: str) -> None:
    async with pooler(tmp_path, "session", database) as dsn:
        one, other = await opened(dsn), await opened(dsn)
        try:
            assert not one.notes, "row-level security is held"
            woken = other.wakeup({"test"})
            while await woken.wait(0.5):
                pass  # what its start woke
            await say(one)
            assert await woken.wait(60), "by LISTEN, or its look once a second"
            assert len(await other.read(lambda tx: events.read_after(tx, 0))) == 1
        finally:
            await one.close()
            await other.close()
