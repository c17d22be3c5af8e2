"""Two windows of one agent's program in one repository are two holders: over MCP, before an edit and at a commit."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from relay import guard_cli
from tests import postgres
from tests.e2e.conftest import Open
from tests.e2e.test_worktrees import in_git
from tests.outside import Json, Outside

#: An agent's program, as far as relay sees it: it starts the server that it was told of, and opens shells.
CLIENT = """
import json, os, subprocess, sys
words = json.loads(sys.argv[1])
wire = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) if words else None
def ask(method, **params):
    print(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}), file=wire.stdin, flush=True)
    return json.loads(wire.stdout.readline())["result"]
if wire:
    info = {"name": "claude-code", "version": "1"}
    ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=info)
for line in sys.stdin:
    what, given = json.loads(line)
    if what == "shell":
        words, said, env = given
        done = subprocess.run(words, input=said, env={**os.environ, **env}, capture_output=True, text=True)
        answer = [done.returncode, done.stdout, done.stderr]
    else:
        answer = ask("tools/call", name=what, arguments=given)["structuredContent"]
    print(json.dumps(answer), flush=True)
if wire:
    wire.stdin.close()
    wire.wait()
"""


class Window:
    """One window: a real process, whose children are `relay mcp` and the shells of its commands."""

    def __init__(self, room: Outside, process: asyncio.subprocess.Process) -> None:
        self._room, self.process = room, process

    async def ask(self, what: str, given: Any) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([what, given]).encode() + b"\n")
        async with asyncio.timeout(60):
            line = await self.process.stdout.readline()
        assert line, "the window is gone"
        return json.loads(line)

    async def call(self, tool: str, **arguments: Any) -> Json:
        told: Json = await self.ask(tool, arguments)
        return told

    async def shell(self, *words: str, said: str = "", **env: str) -> tuple[int, str, str]:
        code, out, err = await self.ask("shell", [words, said, env])
        return code, out, err

    async def commit(self, name: str, **env: str) -> tuple[int, str]:
        """Change a file and commit it."""
        with (self._room.folder / name).open("a") as file:
            file.write("more\n")
        await self.shell("git", "add", name)
        words = ("git", "-c", "user.name=x", "-c", "user.email=x@y", "commit", "-m", "x", "--", name)
        code, _, err = await self.shell(*words, **env)
        await self.shell("git", "checkout", "-q", "HEAD", "--", name)
        return code, err

    async def edit(self, name: str, session: str, **env: str) -> str:
        """What Claude Code's hook is answered, by the input that 2.1.330 gives it: empty = go on."""
        folder = str(self._room.folder)
        given = {
            "session_id": session,
            "transcript_path": f"{folder}/x.jsonl",
            "cwd": folder,
            "permission_mode": "acceptEdits",
            "hook_event_name": "PreToolUse",
            "tool_name": "Edit",
            "tool_input": {"file_path": f"{folder}/{name}", "old_string": "one", "new_string": "two"},
            "tool_use_id": "toolu_01",
        }
        hook = (sys.executable, "-I", "-S", guard_cli.__file__, "hook", "--format", "claude")
        words = (*hook, "--agent", "claude", "--config", str(self._room.path))
        code, out, err = await self.shell(*words, said=json.dumps(given), **env)
        assert code == 0, err
        return out


@asynccontextmanager
async def window(
    room: Outside, *, server: bool = True, wrapped: bool = False, env: Mapping[str, str]
) -> AsyncIterator[Window]:
    """`wrapped`: a shell starts the program, and another one the server, as uv and npx do."""
    shell = ["sh", "-c", '"$@"; exit', "sh"] if wrapped else []
    words = [
        *shell,
        sys.executable,
        "-m",
        "relay.app.mcp.command",
        "--agent",
        "claude",
        "--config",
        str(room.path),
    ]
    process = await asyncio.create_subprocess_exec(
        *(*shell, sys.executable, "-c", CLIENT, json.dumps(words if server else [])),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=room.folder,
        env=room.environ(env),
    )
    try:
        yield Window(room, process)
    finally:
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()


async def opened(open_room: Open, storage: str, up: bool) -> tuple[Outside, dict[str, str]]:
    """A room, and the environment by which its database is found."""
    env = {}
    if storage == "postgres":
        server = postgres.server()
        env["RELAY_POSTGRES_DSN"] = server.dsn(server.new_database())
    one = await open_room(start=False, storage=storage)
    in_git(one.folder)
    (one.folder / "free.md").write_text("one\n")
    words = (sys.executable, "-m", "relay.cli", "guard", "install", "--config", str(one.path))
    done = await one.run(*words, env=env)
    assert done.code == 0, done.all
    if up:
        await one.start(env=env)
    return one, env


@pytest.mark.parametrize(
    ("storage", "up"), [("sqlite", False), ("sqlite", True), ("postgres", True), ("postgres", False)]
)
async def test_two_windows_are_two_holders_wherever_they_write(
    open_room: Open, storage: str, up: bool
) -> None:
    room, env = await opened(open_room, storage, up)
    asked_at_edits = (
        up or storage == "sqlite"
    )  # else nobody can tell, and the commit is refused (docs/guard.md)
    async with AsyncExitStack() as stack:
        wrapped = up == (storage == "postgres")
        first = await stack.enter_async_context(window(room, wrapped=wrapped, env=env))
        second = await stack.enter_async_context(window(room, wrapped=wrapped, env=env))
        shell = await stack.enter_async_context(window(room, server=False, env=env))
        granted = await first.call("acquire_lock", file_path="notes.md")
        assert granted["success"], granted
        assert (await second.call("acquire_lock", file_path="notes.md"))["reason"] == "locked"

        code, said = await second.commit("notes.md")
        assert code == 1 and "notes.md is locked by claude" in said and "OVERRIDE" not in said, said
        code, said = await second.commit("notes.md", RELAY_GUARD_OVERRIDE="it is mine")
        assert code == 1, "an override is a person's"
        if asked_at_edits:
            assert '"deny"' in await second.edit("notes.md", "session-2")
            assert await first.edit("notes.md", "session-1") == ""
        assert await second.commit("free.md") == (0, "")
        assert await first.commit("notes.md") == (0, "")

        # A name alone, with two sessions that live: which one writes is not known, so what depends on it is refused.
        named = {"RELAY_AGENT_ID": "claude"}
        code, said = await shell.commit("notes.md", **named)
        assert code == 1 and "2 living sessions" in said and "RELAY_SESSION_ID" in said, said
        assert (await first.call("who"))["you"]["session_id"] not in said, "whose it is, nobody is told"
        if asked_at_edits:
            assert "2 living sessions" in await shell.edit("notes.md", "session-3", **named)
        assert await shell.commit("free.md", **named) == (0, "")
        mine = {"RELAY_SESSION_ID": (await first.call("who"))["you"]["session_id"]}
        assert await shell.commit("notes.md", **named, **mine) == (0, "")
        code, said = await shell.commit("notes.md")
        assert code == 1 and "OVERRIDE" in said, "a person in a shell of their own"

        # A holder that slept past its lease finds out at the commit.
        assert (await first.call("release_lock", file_path="notes.md"))["success"]
        assert (await first.call("acquire_lock", file_path="notes.md", ttl_minutes=0.0167))["success"]
        await asyncio.sleep(1.5)
        code, said = await first.commit("notes.md")
        assert code == 1 and "stale_token" in said, said
        if asked_at_edits:
            assert "ran out" in await first.edit("notes.md", "session-1")
        assert await second.commit("notes.md") == (0, "")
        left = list((room.runtime / "mcp").iterdir())
        assert len(left) == 2
    assert list((room.runtime / "mcp").iterdir()) == [], "what ended is forgotten"
