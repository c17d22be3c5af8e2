"""The database's files are removed or replaced under a running room: the room says so at every interface and takes
nothing that it could not keep; what it had is put back."""

from __future__ import annotations

import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.git.repository import commit, git, repository
from tests.outside import Outside, agent, eventually, room, settings

pytestmark = pytest.mark.faults

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
MCP = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}


def _remove(runtime: Path, *parts: str) -> None:
    for part in parts:
        (runtime / f"events.db{part}").unlink()


def _replace(runtime: Path) -> None:
    """As who restores a backup beside a running daemon does."""
    copy = runtime / "backup"
    with sqlite3.connect(copy) as made:
        made.execute("CREATE TABLE other (x)")
    copy.replace(runtime / "events.db")


DONE = {
    "all": lambda runtime: _remove(runtime, "", "-wal", "-shm"),
    "wal": lambda runtime: _remove(runtime, "-wal"),
    "shm": lambda runtime: _remove(runtime, "-shm"),
    "replaced": _replace,
}


async def _health(one: Outside, key: bool = True) -> tuple[int, dict[str, Any]]:
    headers = {"X-API-Key": one.token} if key else {}
    async with one.session.get(f"{one.url}/health", headers=headers) as answer:
        return answer.status, await answer.json()


@pytest.mark.parametrize("how", DONE)
async def test_nothing_is_taken_into_files_that_are_gone_and_all_is_put_back(
    tmp_path: Path, how: str
) -> None:
    async with room(tmp_path / "room", settings(agent("ECHO"), locks={"ttl": 3})) as one:
        await one.start()
        posted = await one.post("@ECHO before")
        await one.reply_to(posted["id"], "ECHO")
        status, made = await one.ask("POST", "/api/tasks", json={"title": "keep me"})
        assert status == 201

        DONE[how](one.runtime)
        refused = [
            await one.ask("POST", "/api/messages", json={"body": "lost?", "name": "ann"}),
            await one.ask("POST", "/api/tasks", json={"title": "lost?"}),
            await one.ask("POST", "/locks/acquire", json={"file_path": "src/lost.py"}),
        ]
        for status, told in refused:
            assert status == 503, told
            assert "events.db" in told["error"]["message"]
            assert "stop.sh" in told["error"]["fix"]
        async with one.session.post(
            f"{one.url}/mcp",
            headers={**MCP, "X-API-Key": one.token},
            json={**CALL, "params": {"name": "acquire_lock", "arguments": {"file_path": "src/lost.py"}}},
        ) as answer:
            said = await answer.text()
        assert "events.db" in said and "isError" in said, said
        one.echo("[bob] from the file, meanwhile")

        async def unwell() -> bool:
            return (await _health(one))[0] == 503

        await eventually(unwell, "the health to say it")
        assert await _health(one, key=False) == (503, {"ok": False})

        async def saved() -> bool:
            return (one.runtime / "events.db.saved").exists()

        await eventually(saved, "a copy of what was there")
        assert "events.db" in (await _health(one))[1]["trouble"]
        looked = await one.script("healthcheck.sh", "--json")
        checks = {check["name"]: check for check in json.loads(looked.out)["checks"]}
        assert looked.code == 1
        assert checks["daemon"]["status"] == checks["database"]["status"] == "failed"
        assert "events.db" in checks["daemon"]["detail"] and "saved" in checks["database"]["detail"]
        # Reading goes on, and shows nothing that was refused.
        assert not [entry for entry in await one.entries() if "lost?" in entry["body"]]

        assert (await one.script("stop.sh")).code == 0
        refused_start = await one.relay("run", "--foreground")
        assert refused_start.code == 1 and "events.db.saved" in refused_start.all
        mended = await one.script("healthcheck.sh", "--repair", "--json")
        database = {check["name"]: check for check in json.loads(mended.out)["checks"]}["database"]
        assert database["repaired"] and "put back" in database["mended"][0]

        await one.start()
        bodies = [entry["body"] for entry in await one.entries()]
        assert bodies.count("@ECHO before") == 1
        assert [task["id"] for task in (await one.get("/api/tasks"))["tasks"]] == [made["task"]["id"]]
        await one.until_said("^from the file, meanwhile$")
        assert (await one.ask("POST", "/api/messages", json={"body": "again", "name": "ann"}))[0] == 201
        assert (await one.relay("verify")).code == 0


async def test_files_that_come_back_are_written_again(tmp_path: Path) -> None:
    async with room(tmp_path / "room", settings(locks={"ttl": 3})) as one:
        await one.start()
        await one.post("before")
        away = one.runtime / "away"
        away.mkdir()
        names = [path.name for path in one.runtime.glob("events.db*")]
        for name in names:
            (one.runtime / name).rename(away / name)

        async def unwell() -> bool:
            return (await _health(one))[0] == 503 and (one.runtime / "events.db.saved").exists()

        await eventually(unwell, "the health to say it")
        for name in names:
            (away / name).rename(one.runtime / name)

        async def well() -> bool:
            return (await _health(one))[0] == 200

        await eventually(well, "the room to be well again")
        assert not (one.runtime / "events.db.saved").exists()
        await one.post("after")
        said = [entry["body"] for entry in await one.entries() if entry["speaker"] == "ann"]
        assert said == ["before", "after"]


async def test_an_agents_own_process_writes_nothing_into_files_that_are_gone(tmp_path: Path) -> None:
    async with room(tmp_path / "room", settings()) as one:
        await one.start()
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "relay.cli", "mcp", "--config", str(one.path)],
            env=one.environ({"RELAY_AGENT_ID": "OUTSIDER"}),
            cwd=one.folder,
        )
        async with stdio_client(server) as (reading, writing), ClientSession(reading, writing) as client:
            await client.initialize()
            done = await client.call_tool("acquire_lock", {"file_path": "a.py"})
            assert not done.is_error, done
            one.kill()
            for path in one.runtime.glob("events.db*"):
                path.unlink()
            done = await client.call_tool("acquire_lock", {"file_path": "b.py"})
            assert done.is_error
            assert "events.db was removed" in str(done.content)
            assert not (one.runtime / "events.db").exists(), "made an empty one in its place"


async def test_no_worktree_is_changed_while_nobody_could_keep_a_record_of_it(tmp_path: Path) -> None:
    async with room(tmp_path / "room", settings(agent("ECHO"), locks={"ttl": 3})) as one:
        repository(one.folder)
        await one.start()
        mine = one.runtime / "worktrees" / "echo"

        async def ready() -> bool:
            return bool((await one.get("/api/worktrees"))["worktrees"])

        await eventually(ready, "a worktree")
        commit(mine, {"c.py": "kept\n"})
        status, told = await one.ask("POST", "/api/worktrees/ECHO/discard", json={"name": "ann"})
        assert (status, told["success"]) == (200, True), told
        commit(mine, {"d.py": "new\n"})
        before = git(one.folder, "for-each-ref")
        _remove(one.runtime, "", "-wal", "-shm")
        for action in ("merge", "discard", "restore", "abort", "remove"):
            status, told = await one.ask("POST", f"/api/worktrees/ECHO/{action}", json={"name": "ann"})
            assert status == 503, (action, told)
            assert "events.db" in told["error"]["message"] and "stop.sh" in told["error"]["fix"], told
            done = await one.relay("worktrees", action, "ECHO", "--name", "ann")
            assert done.code == 1 and "events.db" in done.all, done
        assert (await one.ask("GET", "/api/worktrees/ECHO/merge"))[0] == 503
        status, told = await one.ask("POST", "/api/messages", json={"body": "/update @ECHO", "name": "ann"})
        assert status == 503, told
        assert git(one.folder, "for-each-ref") == before and (mine / "d.py").exists()

        assert (await one.script("stop.sh")).code == 0
        assert (await one.script("healthcheck.sh", "--repair")).code in (0, 1)
        await one.start()
        await eventually(ready, "the worktree again")
        status, told = await one.ask("POST", "/api/worktrees/ECHO/merge", json={"name": "ann"})
        assert (status, told["success"]) == (200, True), told
        await one.until_said(r"ann merged \S+/echo of ECHO into main", speaker="RELAY")
        await one.until_said(r"ann discarded the work on \S+/echo", speaker="RELAY")
