"""A member of a PostgreSQL room has one daemon: the second is told whose it is, and one that lost its place steps
down."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess

import asyncpg

from tests import postgres
from tests.e2e.conftest import Open
from tests.outside import Outside, agent, eventually

#: How a session of the server is found that holds a daemon's lock (relay/store/postgres/daemon_lock.py).
HOLDER = """
SELECT DISTINCT a.pid FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND a.application_name LIKE 'relay daemon %' AND l.database =
  (SELECT oid FROM pg_database WHERE datname = $1)
"""
SESSIONS = "SELECT pid FROM pg_stat_activity WHERE datname = $1"


async def pair(open_room: Open) -> tuple[Outside, Outside, str]:
    """Two relays of two folders that are one member of the fleet, neither started; and the database's name."""
    server = postgres.server()
    database = server.new_database()
    one, two = [
        await open_room(agent("ECHO"), start=False, storage="postgres", fleet={"name": "M"}) for _ in range(2)
    ]
    one.env = two.env = {"RELAY_POSTGRES_DSN": server.dsn(database)}
    return one, two, database


async def end_session(database: str, sql: str = HOLDER) -> int:
    """End the sessions that `sql` names, as an administrator or a cut network does; how many there were."""
    connection = await asyncpg.connect(postgres.server().dsn("postgres"))
    try:
        return len(await connection.fetch(f"SELECT pg_terminate_backend(pid) FROM ({sql}) AS s", database))
    finally:
        await connection.close()


async def ended(process: subprocess.Popen[bytes]) -> int:
    return await asyncio.to_thread(process.wait, 60)


async def test_the_second_daemon_on_a_database_is_refused_and_told_whose_it_is(open_room: Open) -> None:
    one, two, _ = await pair(open_room)
    await one.start()
    assert one.process is not None
    who = f"pid {one.process.pid} on {socket.gethostname()}"
    posted = await one.post("@ECHO tok-first")
    await one.reply_to(posted["id"], "ECHO")

    started = await two.relay("run")
    assert started.code == 1, started.all
    assert who in started.all and "stop.sh" in started.all
    stopped = await two.script("stop.sh")
    assert stopped.code == 0 and who in stopped.all, stopped.all
    looked = await two.script("healthcheck.sh")
    assert looked.code == 1 and who in looked.all, looked.all
    mended = await two.script("healthcheck.sh", "--repair")
    assert mended.code == 1 and who in mended.all, mended.all

    # Nothing of the second is in the room, and the first goes on.
    told = [(entry["speaker"], entry["body"]) for entry in (await one.get("/api/transcript"))["entries"]]
    assert not [body for speaker, body in told if speaker == "RELAY" and "transcript" in body], told
    posted = await one.post("@ECHO tok-second")
    await one.reply_to(posted["id"], "ECHO")
    assert (await one.script("healthcheck.sh")).code == 0

    one.kill()
    await two.start()
    posted = await two.post("@ECHO tok-third")
    await two.reply_to(posted["id"], "ECHO")
    assert (await two.script("stop.sh")).code == 0
    await one.start()


async def test_a_daemon_whose_session_is_ended_takes_the_lock_anew_and_goes_on(open_room: Open) -> None:
    one, two, database = await pair(open_room)
    await one.start()
    assert one.process is not None
    for _ in range(2):
        assert await end_session(database) == 1

        async def again() -> bool:
            connection = await asyncpg.connect(postgres.server().dsn("postgres"))
            try:
                return bool(await connection.fetch(HOLDER, database))
            finally:
                await connection.close()

        await eventually(again, "the lock to be held again")
    refused = await two.relay("run")
    assert refused.code == 1 and f"pid {one.process.pid} on" in refused.all

    async def posts() -> bool:
        status, _ = await one.ask("POST", "/api/messages", json={"body": "@ECHO tok-on", "name": "ann"})
        return status == 201

    await eventually(posts, "the first to take messages")


async def test_a_daemon_that_comes_back_to_anothers_database_steps_down_and_says_so(open_room: Open) -> None:
    one, two, database = await pair(open_room)
    await one.start()
    assert one.process is not None
    os.kill(one.process.pid, signal.SIGSTOP)  # so that it comes back late
    try:
        # All its sessions end, as with a machine that sleeps: wherever it stopped, it holds no lock of the server's.
        assert await end_session(database, SESSIONS) >= 1
        await two.start()
    finally:
        os.kill(one.process.pid, signal.SIGCONT)
    assert two.process is not None
    assert await ended(one.process) == 1
    told = f"pid {two.process.pid} on {socket.gethostname()}"
    assert told in one.said(), one.said()
    posted = await two.post("@ECHO tok-after")
    await two.reply_to(posted["id"], "ECHO")
    assert (await two.script("healthcheck.sh")).code == 0


async def test_two_databases_are_two_rooms(open_room: Open) -> None:
    one, two, _ = await pair(open_room)
    two.env = {"RELAY_POSTGRES_DSN": postgres.server().dsn(postgres.server().new_database())}
    await one.start()
    await two.start()
    for each in (one, two):
        posted = await each.post("@ECHO tok-each")
        await each.reply_to(posted["id"], "ECHO")
