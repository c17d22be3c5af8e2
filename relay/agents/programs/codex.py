"""Codex: the command line of `codex exec`, and what it prints; `relay/agents/app_server` runs its app-server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from relay.agents.process.failure import StreamError
from relay.agents.process.stream import JSON, Stream, count, short, tool
from relay.agents.setup import hooks, mcp
from relay.agents.setup.presets import NO_WORDS, AcpPreset, Preset, asking, modes
from relay.model import Location, LogPart, Part, ToolPart, UsagePart


class CodexStream(Stream):
    """`codex exec --json`."""

    lost = re.compile(r"no rollout found|thread/resume failed|session not found", re.IGNORECASE)
    is_json = True

    def event(self, event: JSON) -> list[Part]:
        match event["type"]:
            case "thread.started":
                return self._begin(event["thread_id"])
            case "item.started" | "item.completed":
                return self._on_item(event["item"], event["type"] == "item.completed")
            case "turn.completed":
                self.error = None
                self.completed = True
                return [codex_usage(event["usage"])]
            case "turn.failed":
                self.error = StreamError(event["error"]["message"])
            case "error":
                self.error = StreamError(event["message"])
                self.stuck = self.stuck or event["message"].startswith("Reconnecting")
                return [LogPart(event["message"][:500])]
        return []

    def _on_item(self, item: JSON, completed: bool) -> list[Part]:
        kind = item["type"]
        if kind == "agent_message" and completed:
            self.answer = item["text"] or self.answer
            return self._block(item["text"])
        if kind == "error" and completed:
            return [LogPart(item["message"][:500])]
        if kind == "file_change" and completed:
            paths = tuple(change["path"] for change in item["changes"])
            places = tuple(Location(path, writes=True) for path in paths)
            return [ToolPart("file_change", short(", ".join(paths)), paths, places)]
        # What takes time is shown when it starts, and once.
        if kind == "command_execution" and not completed:
            return [ToolPart("shell", short(item["command"]))]
        if kind == "mcp_tool_call" and not completed:
            return [tool(f"{item['server']}.{item['tool']}", item.get("arguments") or {})]
        if kind == "collab_tool_call":
            if completed:
                return self._helpers.codex_calls(item)
            return [ToolPart(item["tool"], short(item["prompt"]))] if item.get("prompt") else []
        if kind == "web_search" and completed:
            return [ToolPart("web_search", short(item.get("query") or ""))]
        return []


def codex_usage(usage: JSON) -> UsagePart:
    """`input_tokens` is the whole input, with what was read from the cache and what was written into it."""
    read, write = count(usage, "cached_input_tokens"), count(usage, "cache_write_input_tokens")
    return UsagePart(
        max(0, count(usage, "input_tokens") - read - write),
        count(usage, "output_tokens"),
        cache_write_tokens=write,
        cache_read_tokens=read,
    )


def server_entry(server: dict[str, Any]) -> dict[str, Any]:
    """Of its own environment it hands on a fixed few variables, and those that are named. It waits `start` seconds
    for the server: about 1 s it takes, and more on a loaded machine."""
    handed_on = [name for name in mcp.IDENTITY if name not in server["env"]]
    start = 20
    return {
        **server,
        "env_vars": handed_on,
        "startup_timeout_sec": start,
        "tool_timeout_sec": mcp.TOOL_S,
    }


ENV_PREFIXES = ("OPENAI_", "CODEX_")
SIGN_IN = "codex login"

PROGRAM = Preset(
    title="Codex",
    program="codex",
    seen="0.169.0",
    install="npm install -g @openai/codex",
    sign_in=SIGN_IN,
    about="a coding agent (Codex): implements, tests and debugs code",
    env_prefixes=ENV_PREFIXES,
    words=("exec", "--json", "--skip-git-repo-check", "--color", "never"),
    modes=modes(
        "--sandbox read-only",
        "--sandbox workspace-write",
        "--dangerously-bypass-approvals-and-sandbox",
    ),
    guard=hooks.codex_arguments,
    guarded=True,
    mcp=mcp.codex_arguments,
    servers=mcp.ServersFile(
        project=".codex/config.toml",
        user=lambda env, home: Path(env.get("CODEX_HOME") or home / ".codex") / "config.toml",
        entry=server_entry,
        hint="AGENTS.md",
        form="toml",
        scope="user",
        notes={
            "project": "Codex reads it only in folders that it trusts.",
            "user": "It is yours, and names this one room for all of your projects.",
        },
    ),
    options=("--model", "{model}", "--config", 'model_reasoning_effort="{effort}"'),
    # `resume` knows no --sandbox of its own: options stand before it. `-` reads the prompt from stdin.
    resume=("resume", "{session}"),
    last=("-",),
    keys=("CODEX_API_KEY", "OPENAI_API_KEY"),
    check=("login", "status"),
    cumulative=True,
    stream=CodexStream,
    app_server=True,
    deaf="`codex exec` reads its input once.",
    # Seen with codex-acp 2.6.0, which has moved from `@zed-industries/codex-acp`.
    acp=AcpPreset(
        Preset(
            title="Codex",
            program="codex-acp",
            install="npm install -g @agentclientprotocol/codex-acp",
            sign_in=SIGN_IN,
            env_prefixes=ENV_PREFIXES,
            modes=NO_WORDS,
        ),
        # Its mode `read-only` asks before each edit, and makes it once it is allowed; the others do not ask.
        modes=asking("read-only", "agent-full-access"),
    ),
)
