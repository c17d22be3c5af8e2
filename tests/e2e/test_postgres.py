"""The whole room on PostgreSQL: the daemon, its interfaces and its scripts, through kills and restarts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests import postgres
from tests.e2e.conftest import Open
from tests.outside import Json, Outside, agent, eventually

#: What must be seen nowhere: a password in the address (the server asks for none).
SECRET = "s3cret-of-the-room"


@pytest.fixture
def server() -> Iterator[postgres.Server]:
    """A server of the test's own, since it is restarted."""
    found = postgres.binaries()
    if found is None:
        postgres.server()  # says what is missing
        raise AssertionError("no server")
    made = postgres.make_server(found)
    yield made
    made.end()


def new_dsn(server: postgres.Server) -> str:
    """The address of a new database, with a password."""
    return server.dsn(server.new_database()).replace("relay@", f"relay:{SECRET}@")


async def order(one: Outside, text: str) -> str:
    posted = await one.post(text)
    body: str = (await one.reply_to(posted["id"], "RELAY"))["body"]
    return body


async def asked(one: Outside, word: str) -> None:
    posted = await one.post(f"@ECHO {word}")
    assert word in (await one.reply_to(posted["id"], "ECHO"))["body"]


def files_with(folder: Path, text: str) -> list[Path]:
    return [at for at in folder.rglob("*") if at.is_file() and text.encode() in at.read_bytes()]


async def test_a_room_on_postgres(open_room: Open, server: postgres.Server) -> None:
    dsn = new_dsn(server)
    one = await open_room(agent("ECHO"), start=False, storage="postgres")
    without = await one.relay("run")
    assert without.code == 1
    assert "RELAY_POSTGRES_DSN" in without.all
    assert "postgres.dsn_file" in without.all

    kept = one.folder / "dsn"
    kept.touch(mode=0o600)
    kept.write_text(dsn)
    one.configure({**_configuration(one), "postgres": {"dsn_file": "dsn"}})
    await one.start()
    await asked(one, "good morning")
    posted = await one.post("@ECHO a\0b")  # PostgreSQL's text has no NUL
    assert "a\ufffdb" in (await one.reply_to(posted["id"], "ECHO"))["body"]
    assert "t1" in await order(one, "/task mend the roof")
    state = await one.get("/api/state")
    assert state["storage"]["engine"] == "postgres"
    assert [task["number"] for task in state["tasks"]] == [1]
    assert not (one.runtime / "events.db").exists()

    checked = await one.script("healthcheck.sh")
    assert checked.code == 0, checked.all

    one.kill()
    await one.start()
    await asked(one, "after a kill")
    assert [task["number"] for task in (await one.get("/api/state"))["tasks"]] == [1]

    async with one.socket(None) as line:
        assert (await line.receive_json())["type"] == "hello"
        await asyncio.to_thread(server.stop)
        while (message := await line.receive(60)).type is aiohttp.WSMsgType.TEXT:
            pass
        assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1013)
        assert message.extra == "the room's database is away; come back with the last cursor"
    with pytest.raises(aiohttp.WSServerHandshakeError, match="503"):
        async with one.socket(None):
            pass

    async def refused() -> bool:
        status, _ = await one.ask("POST", "/api/messages", json={"body": "/who", "name": "ann"})
        return status == 503

    await eventually(refused, "the database to be away")
    away = await one.script("healthcheck.sh")
    assert (away.code, away.out.count("cannot be reached")) == (1, 1), away.all
    assert "is not well: its database cannot be opened" in away.out
    await asyncio.to_thread(server.start)

    async def again() -> bool:
        status, _ = await one.ask("POST", "/api/messages", json={"body": "/who", "name": "ann"})
        assert status in (201, 503), status
        return status == 201

    await eventually(again, "the room's database")
    await asked(one, "after a restart of the server")

    async def hello() -> bool:
        with contextlib.suppress(aiohttp.WSServerHandshakeError):
            async with one.socket(None) as line:
                return bool((await line.receive_json())["type"] == "hello")
        return False

    await eventually(hello, "the room's socket")

    async def told_of() -> list[Json]:
        # How long it was away, and when the lock of the only daemon was missed, hangs on the machine.
        lines = [line for line in one.log_lines() if line["logger"] == "relay.store.postgres.listen"]
        lines = [line for line in lines if line["event"] != "the database is still away"]
        return lines if len(lines) > 1 else []

    said = await eventually(told_of, "the log to say that the database is back")
    assert [line["event"] for line in said] == ["the database is away", "the database is back"]
    assert "cannot be reached" in said[0]["why"]
    assert said[1]["away_s"] > 0
    assert not [line for line in one.log_lines() if "exception" in line]

    verified = await one.relay("verify")
    assert (verified.code, "The log is intact." in verified.out) == (0, True), verified.all
    archived = await one.relay("archive", "--keep", "2")
    assert archived.code == 0, archived.all
    assert "entries" in archived.out
    # A link needs no address of the database: the room is asked. What works on the database itself says what to set.
    one.configure({**_configuration(one), "postgres": {}})
    linked = await one.relay("link")
    assert linked.code == 0 and "#link=" in linked.out, linked.all
    async with aiohttp.ClientSession() as browser:
        secret = linked.out.strip().partition("#link=")[2]
        async with browser.post(f"{one.url}/api/sign-in", json={"link": secret}) as answer:
            assert answer.status == 200
    for words in (("locks",), ("keys", "list")):
        refused_here = await one.relay(*words)
        assert refused_here.code == 1 and "export RELAY_POSTGRES_DSN=" in refused_here.all, refused_here.all
    told = [str(state), without.all, checked.all, away.all, verified.all, archived.all, one.said()]
    stopped = await one.script("stop.sh")
    assert stopped.code == 0, stopped.all
    assert not any(SECRET in text for text in [*told, stopped.all])
    assert files_with(one.folder, SECRET) == [kept]


def _configuration(one: Outside) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(one.path.read_text())
    return read


async def test_a_pid_file_alone_finds_the_daemon_and_an_agent_never_gets_the_address(open_room: Open) -> None:
    dsn = new_dsn(postgres.server())
    show = "import os, sys; sys.stdin.read(); print(sorted(os.environ), os.environ.get('RELAY_POSTGRES_DSN'))"
    one = await open_room(
        {"name": "SHOW", "kind": "command", "cmd": [sys.executable, "-c", show], "cwd": "."},
        start=False,
        storage="postgres",
    )
    await one.start(env={"RELAY_POSTGRES_DSN": dsn})
    posted = await one.post("@SHOW what do you see?")
    answer = (await one.reply_to(posted["id"], "SHOW"))["body"]
    assert "RELAY_AGENT_ID" in answer
    assert "DSN" not in answer
    assert SECRET not in answer
    assert (await one.script("healthcheck.sh")).code == 1  # the shell has no address: it cannot look
    (one.folder / "speaker.lock").unlink()
    stopped = await one.script("stop.sh")
    assert stopped.code == 0, stopped.all
    assert one.process is not None
    await asyncio.to_thread(one.process.wait, 30)
