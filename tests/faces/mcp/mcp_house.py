"""A process of `relay mcp` under test: lines of JSON-RPC in, lines out, each looked at as it comes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test-client", "version": "1"},
}
_ROOT = Path(__file__).parents[3]


def environment(**more: str) -> dict[str, str]:
    """An environment that says nothing of a room but what is given."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RELAY_")}
    return {**kept, "PYTHONPATH": str(_ROOT), **more}


class Process:
    """`async with Process(...) as one`: ended with it, whatever happens."""

    def __init__(
        self, folder: Path, *words: str, module: str = "relay.app.mcp.command", env: Mapping[str, str]
    ) -> None:
        self._words = (sys.executable, "-m", module, *words)
        self._folder, self._env = folder, environment(**env)
        self.lines: list[dict[str, Any]] = []
        self._answers: dict[Any, dict[str, Any]] = {}
        self._next = 0

    async def __aenter__(self) -> Self:
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(
            *self._words, stdin=pipe, stdout=pipe, stderr=pipe, cwd=self._folder, env=self._env, limit=2**26
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()

    def write(self, line: bytes | str | dict[str, Any]) -> None:
        text = json.dumps(line) if isinstance(line, dict) else line
        assert self.process.stdin is not None
        self.process.stdin.write((text.encode() if isinstance(text, str) else text) + b"\n")

    def send(self, method: str, params: dict[str, Any] | None = None) -> int:
        """A request; its id."""
        self._next += 1
        self.write({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params or {}})
        return self._next

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        self.write({"jsonrpc": "2.0", "method": method, "params": params or {}})

    async def line(self) -> dict[str, Any]:
        """The next line; it must be JSON-RPC."""
        assert self.process.stdout is not None
        async with asyncio.timeout(60):
            text = await self.process.stdout.readline()
        assert text, "the process ended: " + await self.errors()
        told: dict[str, Any] = json.loads(text)
        assert told["jsonrpc"] == "2.0", told
        self.lines.append(told)
        return told

    async def answer(self, id: Any) -> dict[str, Any]:
        """The answer to a request: its result, or `{"error": ...}`."""
        while id not in self._answers:
            told = await self.line()
            if "method" not in told:
                self._answers[told["id"]] = told
        told = self._answers.pop(id)
        return told.get("result", told)

    async def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        return await self.answer(self.send(method, params))

    async def hello(self) -> dict[str, Any]:
        told = await self.ask("initialize", HELLO)
        self.notify("notifications/initialized")
        return told

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a tool answers; checks that its text says the same as its structure."""
        told = await self.ask("tools/call", {"name": tool, "arguments": arguments})
        assert "content" in told, told
        assert json.loads(told["content"][0]["text"]) == told["structuredContent"]
        return told

    async def end(self) -> int:
        """Close its input and wait for its end; the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return await self.wait()

    async def wait(self) -> int:
        async with asyncio.timeout(60):
            return await self.process.wait()

    async def errors(self) -> str:
        assert self.process.stderr is not None
        async with asyncio.timeout(60):
            return (await self.process.stderr.read()).decode()
