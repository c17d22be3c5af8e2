"""`relay mcp` where the address of the database is the daemon's alone: the tools come through the running room."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import asyncpg
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests import postgres
from tests.e2e.conftest import Open
from tests.e2e.test_acp import speaker
from tests.faces.mcp.mcp_house import Process, environment
from tests.outside import REPO, Json, Outside, eventually


@pytest.fixture
def dsn() -> str:
    server = postgres.server()
    return server.dsn(server.new_database())


async def key_of(one: Outside, dsn: str, name: str) -> str:
    words = ("keys", "--config", str(one.path), "create", name, "--json")
    made = await one.run(sys.executable, "-m", "relay.cli", *words, env={"RELAY_POSTGRES_DSN": dsn})
    assert made.code == 0, made.all
    return str(json.loads(made.out)["key"])


def mcp(one: Outside, key: str = "", **env: str) -> Process:
    told = {"RELAY_CONFIG": str(one.path), **({"RELAY_API_KEY": key} if key else {}), **env}
    return Process(one.folder, env=told)


async def said(process: Process, tool: str, **arguments: Any) -> Json:
    told = await process.call(tool, **arguments)
    assert not told["isError"], told
    structured: Json = told["structuredContent"]
    return structured


async def refused(process: Process, code: int, *words: str) -> None:
    assert await process.wait() == code
    told = await process.errors()
    assert len(told.splitlines()) == 1 and told.startswith("relay mcp: "), told
    assert all(word in told for word in words), told
    assert process.process.stdout is not None and await process.process.stdout.read() == b""


async def waiters(dsn: str, count: int) -> None:
    connection = await asyncpg.connect(dsn)
    try:

        async def look() -> bool:
            return bool(await connection.fetchval("SELECT count(*) FROM relay.lock_waits") == count)

        await eventually(look, f"{count} in line", every_s=0.02)
    finally:
        await connection.close()


async def test_the_tools_through_the_room(open_room: Open, dsn: str) -> None:
    one = await open_room(start=False, storage="postgres")
    door = {"RELAY_POSTGRES_DSN": dsn}
    await one.start(env=door)
    ann = await key_of(one, dsn, "ANN")
    ben = (await one.ask("POST", "/keys", json={"identity": "BEN"}))[1]["key"]
    async with (
        mcp(one, RELAY_AGENT_ID="ANN") as keyless,
        mcp(one, "rk_bad") as bad,
        mcp(one, ben, RELAY_AGENT_ID="ANN") as foreign,
        mcp(one, ann) as first,
        mcp(one, ben, RELAY_SESSION_ID="talk-1") as other,
    ):
        await refused(keyless, 1, "postgres.dsn_file", "RELAY_POSTGRES_DSN", "RELAY_API_KEY")
        await refused(bad, 1, "relay keys create")
        await refused(foreign, 2, "ANN")
        assert (await first.hello())["serverInfo"]["name"] == "relay"
        await other.hello()
        assert len((await first.ask("tools/list"))["tools"]) == 25
        assert (await said(first, "acquire_lock", file_path="a.py"))["action"] == "acquired"
        blocked = await said(other, "acquire_lock", file_path="a.py")
        assert (blocked["success"], blocked["locked_by"]) == (False, "ANN")
        read = await other.ask("resources/read", {"uri": "locks://status/a%20b.py"})
        assert json.loads(read["contents"][0]["text"]) is not None

        # A wait whose client gives it up leaves the line, and is never answered; one that is not goes on.
        call = {"name": "acquire_lock", "arguments": {"file_path": "a.py", "wait_seconds": 200}}
        waits = other.send("tools/call", call)
        await waiters(dsn, 1)
        assert (await said(other, "who"))["you"]["session_id"] == "talk-1"
        other.notify("notifications/cancelled", {"requestId": waits})
        await waiters(dsn, 0)
        assert (await said(first, "release_lock", file_path="a.py"))["success"]
        assert (await said(other, "acquire_lock", file_path="a.py"))["action"] == "acquired"
        assert all(line.get("id") != waits for line in other.lines)

        made = await said(first, "submit_work", task_type="test", task_description="look")
        got = await said(other, "get_work")
        assert got["task_id"] == made["task_id"]
        assert (await said(other, "complete_work", task_id=got["task_id"], success=True))["success"]
        malformed = await first.call("acquire_lock")
        assert malformed["isError"] and malformed["structuredContent"]["reason"] == "bad_request"
        await _newest_protocol(one, ann)
        assert (await said(first, "acquire_lock", file_path="mine.py"))["success"]

        await _while_it_is_away(one, first, other)
        async with mcp(one, ann) as late:
            await refused(late, 1, "postgres.dsn_file", "RELAY_API_KEY", "run")
        before = one.state_file()
        await one.start(env=door)
        assert before is None or one.url != before["url"]
        held = {lock["file_path"]: lock for lock in (await said(other, "check_locks"))["result"]}
        assert set(held) == {"a.py", "mine.py"}
        assert (await said(other, "who"))["you"]["session_id"] == "talk-1"

        # The process's own session ends with it; a given one does not.
        assert await first.end() == 0
        assert (await said(other, "acquire_lock", file_path="mine.py"))["action"] == "acquired"
        assert await other.end() == 0
    locks = await one.get("/locks")
    assert {lock["file_path"]: lock["locked_by"] for lock in locks} == {"a.py": "BEN", "mine.py": "BEN"}


async def _newest_protocol(one: Outside, key: str) -> None:
    """The official client, which asks for the newest version and says it with each request."""
    env = environment(RELAY_CONFIG=str(one.path), RELAY_API_KEY=key)
    place = StdioServerParameters(command=sys.executable, args=["-m", "relay.app.mcp.command"], env=env)
    async with Client(stdio_client(place), mode="auto") as client:
        assert len((await client.list_tools()).tools) == 25
        told = await client.call_tool("acquire_lock", {"file_path": "ä b.py"})
        assert told.structured_content["action"] == "acquired"
        assert json.loads((await client.read_resource("work://pending")).contents[0].text) == []


async def _while_it_is_away(one: Outside, first: Process, other: Process) -> None:
    """A wait is cut off, a call is refused as busy, anything else by an error; the processes stay."""
    call = {"name": "acquire_lock", "arguments": {"file_path": "mine.py", "wait_seconds": 200}}
    waits = other.send("tools/call", call)
    assert (await said(other, "who"))["you"]
    stopped = await one.script("stop.sh")
    assert stopped.code == 0, stopped.all
    cut = await other.answer(waits)
    assert cut["isError"] and cut["structuredContent"]["reason"] == "busy"
    told = await first.call("check_locks")
    fault = told["structuredContent"]
    assert (told["isError"], fault["success"], fault["reason"]) == (True, False, "busy")
    assert fault["error"]["code"] == "busy" and fault["message"] and fault["fix"]
    error = (await first.ask("resources/read", {"uri": "locks://current"}))["error"]
    assert error["data"]["reason"] == "busy"


async def test_an_agent_of_the_room_has_its_tools(
    open_room: Open, dsn: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("ace")
    ace = speaker(str(folder), "room")
    ace["env"]["PYTHONPATH"] += os.pathsep + str(REPO)
    one = await open_room(ace, start=False, storage="postgres")
    await one.start(env={"RELAY_POSTGRES_DSN": dsn})
    posted = await one.post("@ACE lock it")
    body = (await one.reply_to(posted["id"], "ACE"))["body"]
    assert body.startswith("25 tools, acquired by ACE in "), body
    (told,) = [
        json.loads(line) for line in (folder / "told.jsonl").read_text().splitlines() if '"mcp"' in line
    ]
    handed = {pair["name"]: pair["value"] for pair in told["server"]["env"]}
    assert handed["RELAY_API_KEY"].startswith("rk_") and "RELAY_POSTGRES_DSN" not in handed
    assert body.endswith(handed["RELAY_SESSION_ID"])  # the room's own session of the agent: it keeps the lock
    assert [lock["locked_by"] for lock in await one.get("/locks")] == ["ACE"]
