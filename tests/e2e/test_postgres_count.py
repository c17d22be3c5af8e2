"""What a room asks of its PostgreSQL, counted in the server's log: while it idles, and for a lock and its release."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import asyncpg

from tests import postgres
from tests.e2e.conftest import Open
from tests.outside import agent

PAIRS = 15
#: Seconds that the room is watched while nothing happens.
IDLE_S = 6.0
READS = "READ ONLY"


async def logged_database() -> str:
    """A database of which the server logs each statement."""
    server = postgres.server()
    name = server.new_database()
    connection = await asyncpg.connect(server.dsn("postgres"))
    try:
        for setting in ("log_statement = 'all'", "log_min_messages = 'warning'"):
            await connection.execute(f'ALTER DATABASE "{name}" SET {setting}')
    finally:
        await connection.close()
    return name


class Statements:
    """The statements that the server logged since `begin`."""

    def __init__(self, log: Path) -> None:
        self._log, self._at = log, 0

    def begin(self) -> None:
        self._at = self._log.stat().st_size

    def ran(self) -> list[str]:
        with self._log.open("rb") as log:
            log.seek(self._at)
            lines = log.read().decode().splitlines()
        return [line for line in lines if "LOG:  statement" in line or "LOG:  execute" in line]


async def test_one_reader_of_the_log_wakes_only_who_waits_for_what_came(open_room: Open) -> None:
    server = postgres.server()
    one = await open_room(agent("ECHO"), agent("OTHER"), start=False, storage="postgres")
    one.env = {"RELAY_POSTGRES_DSN": server.dsn(await logged_database())}
    await one.start()
    _, made = await one.ask("POST", "/keys", json={"identity": "ECHO"})
    asked = Statements(server.folder / "server.log")
    async with aiohttp.ClientSession(headers={"X-API-Key": made["key"]}) as client:

        async def pair(number: int) -> None:
            for does in ("acquire", "release"):
                async with client.post(
                    f"{one.url}/locks/{does}", json={"file_path": f"src/f{number}.py"}
                ) as told:
                    assert (await told.json())["success"]

        await pair(0)
        await asyncio.sleep(3)  # what a start looks at
        asked.begin()
        await asyncio.sleep(IDLE_S)
        idle = asked.ran()
        assert len(idle) <= 10 * IDLE_S, idle  # it was 18 a second

        asked.begin()
        for number in range(1, 1 + PAIRS):
            await pair(number)
        await asyncio.sleep(1.2)  # the last look of the reader
        ran = asked.ran()
    assert len(ran) >= PAIRS, "the server logs nothing"
    transactions = [line for line in ran if READS in line]
    assert len(transactions) <= 2 * PAIRS, transactions  # it was 17 a pair
    assert len(ran) <= 16 * PAIRS, ran  # it was 64 a pair
    # And nobody missed anything: a message still goes through every part of the room.
    posted = await one.post("@ECHO tok-heard")
    assert "tok-heard" in (await one.reply_to(posted["id"], "ECHO"))["body"]
    lines = one.transcript.read_text()
    assert "tok-heard" in lines
