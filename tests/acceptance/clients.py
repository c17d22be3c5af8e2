"""Coordination as a program outside has it: JSON-RPC lines to a process, and HTTP with a key.

Nothing of relay is imported, and no library speaks for us: what stands on the wire is what is tested.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.outside import PATIENCE_S, Outside

#: The newest version of the protocol that this client speaks.
PROTOCOL = "2025-06-18"

#: Where each operation is on HTTP.
PLACES: Mapping[str, tuple[str, str]] = {
    "acquire_lock": ("POST", "/locks/acquire"),
    "release_lock": ("POST", "/locks/release"),
    "check_locks": ("POST", "/locks/check"),
    "get_work": ("POST", "/work/claim"),
    "complete_work": ("POST", "/work/complete"),
    "submit_work": ("POST", "/work/submit"),
    "release_work": ("POST", "/work/release"),
    "remember": ("POST", "/memory/remember"),
    "recall": ("POST", "/memory/recall"),
    "feedback": ("POST", "/memory/feedback"),
    "working_memory": ("POST", "/memory/working"),
    "skill": ("POST", "/memory/skills"),
    "knowledge": ("POST", "/knowledge"),
    "declare_intent": ("POST", "/intents"),
    "post_message": ("POST", "/room/messages"),
    "renew": ("POST", "/renew"),
    "explain": ("POST", "/explain"),
    "read_room": ("GET", "/room/messages"),
    "who": ("GET", "/who"),
    "resolve": ("POST", "/conflicts/answer"),
    "check_merge": ("POST", "/merge/check"),
    "land": ("POST", "/land"),
    "verification": ("GET", "/verification"),
    "timeline": ("POST", "/timeline"),
    "help": ("GET", "/help"),
}


class AgentClient(Protocol):
    """An agent, by the interface that it uses."""

    agent: str

    async def call(self, operation: str, **arguments: Any) -> Any:
        """What the operation answers, an object or a list; a refusal too."""
        ...


@dataclass
class McpClient:
    """`relay mcp` as a child process, spoken to line by line."""

    agent: str
    process: asyncio.subprocess.Process
    number: int = 0
    #: Every line that the process wrote to its standard output.
    lines: list[str] = field(default_factory=list)

    @classmethod
    async def open(cls, room: Outside, agent: str, **env: str) -> McpClient:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "relay.cli",
            "mcp",
            "--config",
            str(room.path),
            cwd=room.folder,
            env=room.environ({"RELAY_AGENT_ID": agent, "RELAY_AGENT_TYPE": "claude_code", **env}),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=8 * 1024 * 1024,
        )
        client = cls(agent, process)
        info = {"name": "acceptance", "version": "1"}
        await client.request(
            "initialize", {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": info}
        )
        await client._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return client

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """The result of a request. AssertionError with the error of the protocol."""
        self.number += 1
        number = self.number
        await self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": dict(params or {})})
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            while True:
                line = (await self.process.stdout.readline()).decode()
                assert line, f"the process ended with {await self.process.wait()}"
                self.lines.append(line)
                said = json.loads(line)
                assert said["jsonrpc"] == "2.0", line
                if said.get("id") == number and "method" not in said:
                    assert "error" not in said, said
                    return said["result"]

    async def call(self, operation: str, **arguments: Any) -> Any:
        result = await self.request("tools/call", {"name": operation, "arguments": arguments})
        told = result["structuredContent"]
        assert json.loads(result["content"][0]["text"]) in (told, told.get("result"))
        return told["result"] if list(told) == ["result"] else told

    async def resource(self, uri: str) -> Any:
        read = await self.request("resources/read", {"uri": uri})
        assert read["contents"][0]["mimeType"] == "application/json"
        return json.loads(read["contents"][0]["text"])

    async def _send(self, said: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(said).encode() + b"\n")
        await self.process.stdin.drain()

    async def close(self) -> int:
        """End of input, as a client ends a server; its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        async with asyncio.timeout(PATIENCE_S):
            return await self.process.wait()


@dataclass
class HttpClient:
    """A key, and the room's address."""

    agent: str
    room: Outside
    key: str

    @classmethod
    async def open(cls, room: Outside, agent: str) -> HttpClient:
        # By the room's own token: a command for each of dozens of keys would take longer than all that is tested.
        status, made = await room.ask("POST", "/keys", json={"identity": agent})
        assert status in (200, 201), made
        return cls(agent, room, made["key"])

    async def ask(self, method: str, path: str, *, key: str | None = None, **more: Any) -> tuple[int, Any]:
        """Status and JSON of an answer, with this client's key or another one ("" = none)."""
        sent = self.key if key is None else key
        headers = {"X-API-Key": sent} if sent else {}
        async with self.room.session.request(
            method, f"{self.room.url}{path}", headers=headers, **more
        ) as answer:
            return answer.status, await answer.json()

    async def call(self, operation: str, **arguments: Any) -> Any:
        method, path = PLACES[operation]
        status, told = await self.ask(method, path, json=arguments)
        assert status in (200, 201), (operation, status, told)
        return told
