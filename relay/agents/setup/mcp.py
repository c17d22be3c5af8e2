"""How each program that relay knows is told, for one turn, of the room's MCP server.

Invariant: what the user has set up for a program stays as it is, on disk and in effect: the server is handed over
with the turn, beside whatever servers the user has. Nothing secret is in a command line: who speaks is in the
environment that the server inherits, or is handed by name.

Seen in Claude Code 2.1.330, Codex 0.169.0 and Gemini CLI 0.61.0; `tests/agents/test_real_mcp.py` sees it again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: The variables that say who speaks in which room (INTERFACES, "Configuration").
IDENTITY = ("RELAY_CONFIG", "RELAY_AGENT_ID", "RELAY_AGENT_TYPE", "RELAY_SESSION_ID", "RELAY_API_KEY")
#: What the programs call the server.
NAME = "relay"
#: Seconds that a program waits for a tool: the longest wait for a lock is 300 s (docs/coordination.md, "Locks").
TOOL_S = 330
#: Seconds that Codex waits for the start: about 1 s it takes, and many times that when the machine is loaded.
START_S = 60

#: What the programs call a tool of ours when they ask over ACP whether it may be used: claude, codex and gemini.
#: None of it can be a path, nor a command that does anything.
_ASKED = re.compile(
    rf"mcp__{NAME}__[a-z_]{{1,64}}|mcp\.{NAME}\.[a-z_]{{1,64}}|[a-z_]{{1,64}} \({NAME} MCP Server\)"
)


@dataclass(frozen=True, slots=True)
class McpServer:
    """`command`: its argument list, the same for every agent."""

    command: tuple[str, ...]

    def entry(self) -> dict[str, Any]:
        """As Claude Code and Gemini CLI write a server that they start."""
        return {"command": self.command[0], "args": list(self.command[1:]), "timeout": TOOL_S * 1000}


@dataclass(frozen=True, slots=True)
class ServersFile:
    """The file in which a program keeps its MCP servers, for `relay mcp install`.

    `project`, `user`: where it is, of a project (relative to its folder) and of a person (by the environment and the
    home folder); `scope`: which of the two is meant where nobody says. `form`: json | toml. `entry`: the server
    (`command`, `args`, `env`) as the program wants it. `hint`: the file of a project that its agents read first.
    `notes`: by scope, what else it wants before it reads the file.
    """

    project: str
    user: Callable[[Mapping[str, str], Path], Path]
    entry: Callable[[dict[str, Any]], dict[str, Any]]
    hint: str
    form: str = "json"
    scope: str = "project"
    notes: Mapping[str, str] = field(default_factory=dict)


def claude_arguments(server: McpServer) -> list[str]:
    """The server beside the user's own, and the leave to use its tools: nobody sits there to be asked."""
    config = {"mcpServers": {NAME: {"type": "stdio", **server.entry()}}}
    return ["--mcp-config", json.dumps(config), "--allowedTools", f"mcp__{NAME}"]


def codex_arguments(server: McpServer) -> list[str]:
    """Codex gives a server none of its variables but those that are named."""
    settings = {
        "command": server.command[0],
        "args": list(server.command[1:]),
        "env_vars": list(IDENTITY),
        "startup_timeout_sec": START_S,
        "tool_timeout_sec": TOOL_S,
        "default_tools_approval_mode": "approve",
        # Else Codex asks its model before the server has said what it offers; the start takes about a second.
        "required": True,
    }
    # A list of texts is the same in JSON and TOML.
    return [
        word
        for key, value in settings.items()
        for word in ("--config", f"mcp_servers.{NAME}.{key}={json.dumps(value, ensure_ascii=False)}")
    ]


def gemini_entry(server: McpServer) -> dict[str, Any]:
    """The server in a file of settings. `trust`: nobody sits there to be asked whether a tool may be used."""
    return {**server.entry(), "trust": True}


def is_ours(title: str) -> bool:
    """Is this the title of a call of one of the room's tools? They check themselves what their caller may."""
    return _ASKED.fullmatch(title) is not None


def acp_servers(server: McpServer | None, env: Mapping[str, str]) -> list[dict[str, Any]]:
    """`mcpServers` of session/new (Agent Client Protocol 1, "Session Setup"); `env` is the agent's own environment.

    The identity goes along, since the protocol leaves open what a server inherits; it travels over the agent's pipe.
    """
    if server is None:
        return []
    handed = [{"name": name, "value": env[name]} for name in IDENTITY if name in env]
    return [{"name": NAME, "command": server.command[0], "args": list(server.command[1:]), "env": handed}]
