"""`relay mcp` against a real room's database: alone, several at once, beside a daemon, and when it dies."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from asyncio.subprocess import PIPE
from contextlib import AsyncExitStack, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from relay.access.keys import LOOK_S, Keys
from relay.app.mcp import stdio_server
from relay.app.mcp.stdio_server import DatabaseRoom, OpenRoom
from relay.app.runtime.identity import Identity
from relay.model import Caller
from relay.store.sqlite.store import open_store
from tests.engines import SCHEMAS
from tests.faces.mcp.mcp_house import HELLO, Process

NAMES = ("ANN", "BEN", "CY", "DEE", "EVE", "FAY")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps({"agents": [], "coordination": {"process_lease_s": 2}}))
    return tmp_path


def agent(folder: Path, name: str, **env: str) -> Process:
    return Process(folder, env={"RELAY_AGENT_ID": name, **env})


def rows(folder: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(folder / ".relay/events.db")) as database:
        return database.execute(sql).fetchall()


async def said(process: Process, tool: str, **arguments: Any) -> dict[str, Any]:
    told = await process.call(tool, **arguments)
    assert not told["isError"], told
    structured: dict[str, Any] = told["structuredContent"]
    return structured


async def test_six_at_once_on_an_empty_folder(folder: Path) -> None:
    """They make and migrate the database; then one room for all: locks, work, memory, resources, their ends."""
    async with AsyncExitStack() as stack:
        all_of_them = [await stack.enter_async_context(agent(folder, name)) for name in NAMES]
        await asyncio.gather(*(one.hello() for one in all_of_them))
        told = await asyncio.gather(*(said(one, "acquire_lock", file_path="src/a.py") for one in all_of_them))
        assert [one["action"] for one in told].count("acquired") == 1
        holder = next(name for name, one in zip(NAMES, told, strict=True) if one["success"])
        assert all(one["locked_by"] == holder and one["expires_at"] for one in told if not one["success"])
        one = all_of_them[NAMES.index(holder)]
        other = all_of_them[(NAMES.index(holder) + 1) % len(NAMES)]

        held = (await said(other, "check_locks"))["result"]
        assert [lock["file_path"] for lock in held] == ["src/a.py"] and held[0]["locked_by"] == holder
        read = await other.ask("resources/read", {"uri": "locks://current"})
        assert json.loads(read["contents"][0]["text"]) == held
        await _work(one, other)
        await _every_tool(other)

        # Who waits stands in line, gives up when its client does, and gets the lock when the holder's process ends.
        wait = {"name": "acquire_lock", "arguments": {"file_path": "src", "wait_seconds": 60}}
        cancelled = other.send("tools/call", wait)
        await _until(folder, "SELECT count(*) FROM lock_waits", 1)
        other.notify("notifications/cancelled", {"requestId": cancelled})
        await _until(folder, "SELECT count(*) FROM lock_waits", 0)
        waits = other.send("tools/call", wait)
        await _until(folder, "SELECT count(*) FROM lock_waits", 1)
        assert await one.end() == 0
        assert (await other.answer(waits))["structuredContent"]["action"] == "acquired"
        assert [await process.end() for process in all_of_them if process is not one] == [0] * 5
    ended = rows(folder, "SELECT agent_id FROM agent_sessions WHERE ended_at IS NOT NULL ORDER BY agent_id")
    assert [name for (name,) in ended] == list(NAMES)
    assert rows(folder, "SELECT DISTINCT end_reason FROM agent_sessions") == [("its process ended",)]


#: What the answer to `tools/list` needs nothing of: each takes a part of the start that a client waits for.
HEAVY = (
    *("mcp.client", "mcp.server.mcpserver", "httpx2", "cryptography", "rich.traceback"),
    *("aiohttp", "asyncpg", "numpy", "tree_sitter", "ollama", "acp", "prompt_toolkit"),
    *("relay.app.daemon.daemon", "relay.agents", "relay.airspace.live.scanner", "relay.code"),
)


async def test_nothing_is_loaded_for_the_list_of_tools_that_it_does_not_need(folder: Path) -> None:
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-X", "importtime", "-m", "relay.cli", "mcp", "--agent", "ann"),
        **{"stdin": PIPE, "stdout": PIPE, "stderr": PIPE},
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith("RELAY_")},
    )
    out, err = await process.communicate("\n".join(map(json.dumps, asked)).encode())
    listed = next(one for one in map(json.loads, out.splitlines()) if one["id"] == 2)
    assert len(listed["result"]["tools"]) == 25
    loaded = {line.rpartition("|")[2].strip() for line in err.decode().splitlines() if "|" in line}
    assert "mcp.server.lowlevel" in loaded, "the list of modules is there"
    assert sorted(loaded & set(HEAVY)) == []


async def test_the_database_is_opened_behind_the_list_of_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the first call at the latest, and once; without a call in a moment, or at the end of who only lists."""
    opened: list[OpenRoom] = []
    times = 0

    async def close() -> None:
        opened.pop()

    async def opening(_settings: Any) -> OpenRoom:
        nonlocal times
        times += 1
        store: Any = SimpleNamespace(close=close)
        services: Any = None
        opened.append(OpenRoom(store, services))
        return opened[-1]

    def room() -> DatabaseRoom:
        return DatabaseRoom(None, Identity("ANN", "s", True), None, opening)  # type: ignore[arg-type]

    monkeypatch.setattr(stdio_server, "PRELOAD_S", 3600.0)
    lists, calls = room(), room()
    for one in (lists, calls):
        one.open_soon()
    assert times == 0
    await lists.close()
    assert (times, opened) == (1, [])
    places = [await calls._opened() for _ in range(2)]
    assert opened == places[:1]
    await calls.close()
    assert opened == []
    monkeypatch.setattr(stdio_server, "PRELOAD_S", 0.0)
    waits = room()
    waits.open_soon()
    async with asyncio.timeout(30):
        while not opened:  # noqa: ASYNC110
            await asyncio.sleep(0)
    await waits.close()


def test_a_package_that_is_left_out_of_the_start_runs_when_it_is_asked_for() -> None:
    code = """
import sys
from relay.app.mcp import command as mcp_cli
mcp_cli._lean()
import mcp.server.lowlevel
print("mcp.client" in sys.modules)
from mcp import ClientSession
from mcp.server import Server
print(Server is mcp.server.lowlevel.Server, ClientSession.__module__, hasattr(mcp, "nothing"))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines() == ["False", "True mcp.client.session False"], ran.stderr


async def _work(one: Process, other: Process) -> None:
    made = await said(one, "submit_work", task_type="test", task_description="look", input_data={"a": [1]})
    pending = await other.ask("resources/read", {"uri": "work://pending"})
    assert [task["task_id"] for task in json.loads(pending["contents"][0]["text"])] == [made["task_id"]]
    got = await said(other, "get_work")
    assert got["task_id"] == made["task_id"] and got["input_data"] == {"a": [1]}
    assert (await said(one, "get_work"))["task_id"] is None
    done = await said(other, "complete_work", task_id=got["task_id"], success=True, result={"ok": True})
    assert done["status"] == "completed"
    # Another process's wait hears of a task that is made here, and claims it; one that is cancelled claims nothing.
    gone = other.send("tools/call", {"name": "get_work", "arguments": {"wait_seconds": 60}})
    other.notify("notifications/cancelled", {"requestId": gone})
    made = await said(one, "submit_work", task_type="test", task_description="look again")
    no = await said(other, "get_work", task_id=got["task_id"])
    assert (no["reason"], no["reasons"][0]["reason"]) == ("not_claimable", "finished")
    got = await said(other, "get_work", task_id=made["task_id"])
    assert got["fencing_token"] is not None
    assert (await said(other, "complete_work", task_id=made["task_id"], success=True))["success"]
    waits = other.send("tools/call", {"name": "get_work", "arguments": {"wait_seconds": 60}})
    made = await said(one, "submit_work", task_type="test", task_description="and again")
    assert (await other.answer(waits))["structuredContent"]["task_id"] == made["task_id"]
    for query, numbers in (
        ("?status=done", [1, 2]),
        ("?status=claimed&task_type=test", [3]),
        ("", [1, 2, 3]),
    ):
        told = await other.ask("resources/read", {"uri": f"work://all{query}"})
        assert [task["number"] for task in json.loads(told["contents"][0]["text"])["tasks"]] == numbers
    wrong = await other.ask("resources/read", {"uri": "work://all?status=lost"})
    assert "status: one of" in wrong["error"]["data"]["fix"]
    assert (await said(other, "complete_work", task_id=made["task_id"], success=True))["success"]
    unknown = await one.call("complete_work", task_id="no-such", success=True)
    assert unknown["isError"] and unknown["structuredContent"]["success"] is False


async def _every_tool(one: Process) -> None:
    kept = await said(one, "remember", event_type="decision", summary="use locks", lessons=["ask first"])
    assert kept["memory_id"]
    recalled = (await said(one, "recall", task_description="locks"))["result"]
    assert recalled[0]["memory_type"] == "episodic" and 0 <= recalled[0]["relevance"] <= 1
    posted = await said(one, "post_message", body="hello from MCP")
    assert posted["success"]
    assert "hello from MCP" in json.dumps(await said(one, "read_room"))
    assert (await said(one, "declare_intent", paths=["src/b.py"]))["success"]
    assert (await said(one, "who"))["you"]
    assert await said(one, "help")
    await said(one, "explain", kind="lock", id="src/a.py")
    assert (await said(one, "release_lock", file_path="none"))["reason"] == "not_held"
    assert (await said(one, "renew", kind="lock", id="none"))["success"] is False
    for uri in ("room://recent", "airspace://state", "sessions://current", "locks://status/src/a.py"):
        told = await one.ask("resources/read", {"uri": uri})
        json.loads(told["contents"][0]["text"])


async def test_a_process_that_dies_and_one_that_was_given_its_session(folder: Path) -> None:
    store = await open_store(folder / ".relay/events.db", SCHEMAS)
    keys, person = Keys(store), Caller("ann", "s", person=True)
    key = await keys.create(person, "BEN")
    conversation = {"RELAY_SESSION_ID": "conversation-1", "RELAY_API_KEY": key["key"]}
    async with agent(folder, "ANN") as dies, agent(folder, "BEN", **conversation) as given:
        await asyncio.gather(dies.hello(), given.hello())
        assert (await said(dies, "acquire_lock", file_path="a"))["success"]
        assert (await said(given, "acquire_lock", file_path="b"))["success"]
        # Its heart beats: it outlives its lease of two seconds while nothing is called.
        began = rows(folder, "SELECT heartbeat_at FROM agent_sessions WHERE agent_id = 'ANN'")
        await _until(
            folder,
            "SELECT count(DISTINCT heartbeat_at) FROM agent_sessions WHERE agent_id = 'ANN' "
            f"AND heartbeat_at <> {began[0][0]!r}",
            1,
        )
        assert not (await said(given, "acquire_lock", file_path="a"))["success"]
        dies.process.kill()
        await dies.wait()
        got = await said(given, "acquire_lock", file_path="a", wait_seconds=30)
        assert got["success"], got
        # Its key is revoked: it may do nothing more, and is told so.
        await keys.revoke(person, key["id"])
        await asyncio.sleep(LOOK_S)
        refused = await given.call("check_locks")
        assert refused["isError"] and refused["structuredContent"]["reason"] == "bad_key"
        assert await given.end() == 0
    await store.close()
    async with agent(folder, "BEN", RELAY_SESSION_ID="conversation-1") as again:
        await again.hello()
        locks = (await said(again, "check_locks"))["result"]
        assert sorted(lock["file_path"] for lock in locks) == ["a", "b"]
        assert (await said(again, "acquire_lock", file_path="b"))["action"] == "refreshed"


async def _until(folder: Path, sql: str, count: int) -> None:
    async with asyncio.timeout(30):
        while rows(folder, sql) != [(count,)]:  # noqa: ASYNC110 - another process changes it
            await asyncio.sleep(0.02)


async def test_a_long_list_of_locks_fits_a_models_context(folder: Path) -> None:
    async with agent(folder, "ANN") as one, agent(folder, "BEN") as other:
        await one.hello()
        await other.hello()
        await said(one, "acquire_lock", file_paths=[f"docs/{number}.md" for number in range(120)])
        await said(one, "acquire_lock", file_path="src/b.py")
        await said(other, "acquire_lock", file_path="src/a.py")
        page = await said(other, "check_locks")
        assert [lock["file_path"] for lock in page["result"][:2]] == ["src/a.py", "src/b.py"]
        assert (len(page["result"]), page["total"]) == (100, 122) and len(json.dumps(page)) < 40_000
        rest = await said(other, "check_locks", cursor=page["next"])
        assert len(rest["result"]) == 22 and "next" not in rest
        read = (await other.ask("resources/read", {"uri": "locks://current"}))["contents"][0]
        assert len(json.loads(read["text"])) == 100 and read["_meta"]["total"] == 122
        uri = f"locks://after/{read['_meta']['next']}"
        more = (await other.ask("resources/read", {"uri": uri}))["contents"][0]
        assert len(json.loads(more["text"])) == 22
