"""Qwen Code: its command line. It prints the stream of Claude Code, and reads its input once in a turn.

Seen in Qwen Code 0.24.4: a message on its stream of input waits for the next turn, so relay does not use that. Its
hooks are those of Claude Code, in a file of system defaults, which it reads whoever owns it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relay.agents.process.stream import JSON, count
from relay.agents.programs.streams.claude import ClaudeStream
from relay.agents.setup.hooks import HOOK_S, GuardHook, Surroundings, with_ours
from relay.agents.setup.mcp import NAME, McpServer, gemini_entry
from relay.agents.setup.presets import Preset, modes
from relay.model import Part, UsagePart

VARIABLE = "QWEN_CODE_SYSTEM_DEFAULTS_PATH"
#: The tools that change the file they name, and the shell.
TOOLS = "^(edit|write_file|notebook_edit|run_shell_command)$"


class QwenStream(ClaudeStream):
    """`qwen --output-format stream-json`."""

    lost = re.compile(r"No saved session found with ID", re.IGNORECASE)

    def _on_message(self, event: JSON) -> list[Part]:
        """Each request's usage: that of the result is the whole conversation's."""
        parts, usage = super()._on_message(event), event["message"].get("usage") or {}
        read = count(usage, "cache_read_input_tokens")
        given = max(0, count(usage, "input_tokens") - read)  # the whole input holds the cached ones
        used = UsagePart(given, count(usage, "output_tokens"), cache_read_tokens=read)
        if used == UsagePart():
            return parts
        self._used += used
        return [*parts, self._used]

    def _on_result(self, event: JSON) -> list[Part]:
        error, said = event.get("error"), str(event.get("result") or "")
        if isinstance(error, Mapping):
            event = {**event, "is_error": True, "result": error.get("message")}
        elif said.startswith("[API Error: "):  # it calls what its service refused a success
            event = {**event, "is_error": True}
        parts = super()._on_result(event)
        return [part for part in parts if not isinstance(part, UsagePart)]


def mcp_arguments(server: McpServer) -> list[str]:
    """The server beside the user's own."""
    return ["--mcp-config", json.dumps({"mcpServers": {NAME: gemini_entry(server)}})]


async def environment(around: Surroundings) -> tuple[dict[str, str], str]:
    """The environment of one turn, with the hooks where it may edit."""
    if around.hook is None:
        return around.env, ""
    try:
        path = await asyncio.to_thread(defaults, around.hook, around.agent, around.env)
    except OSError as error:
        return around.env, f"edits are not guarded: {error}"
    if path is None:
        return around.env, "edits are not guarded: Qwen Code's file of system defaults is not plain JSON"
    return {**around.env, VARIABLE: str(path)}, ""


def defaults(hook: GuardHook, agent: str, env: Mapping[str, str]) -> Path | None:
    """Our file of system defaults; None when the machine's own cannot be read. Blocking. Raises OSError."""
    own = env.get("QWEN_CODE_SYSTEM_SETTINGS_PATH")
    machine = Path(own).parent if own else Path("/etc/qwen-code")
    before = Path(env.get(VARIABLE) or machine / "system-defaults.json")
    run = {"type": "command", "command": hook.line("claude"), "timeout": HOOK_S}
    told = {**run, "command": hook.told("claude")}
    hooks: dict[str, dict[str, Any]] = {
        "PreToolUse": {"matcher": TOOLS, "hooks": [run]},
        "PostToolBatch": {"hooks": [told]},
    }
    return with_ours(before, hook.folder / f"qwen-{agent}.json", hooks)


PROGRAM = Preset(
    title="Qwen Code",
    program="qwen",
    seen="0.24.4",
    install="npm install -g @qwen-code/qwen-code",
    sign_in="qwen",
    about="a coding agent (Qwen Code): reads and changes code, reviews, explains",
    env_prefixes=("QWEN_", "OPENAI_", "DASHSCOPE_", "BAILIAN_"),
    words=("--output-format", "stream-json"),
    # Without a terminal, `default` refuses what would need a person's consent.
    modes=modes("--approval-mode default", "--approval-mode auto-edit", "--approval-mode yolo"),
    environment=environment,
    guarded=True,
    mcp=mcp_arguments,
    options=("--model", "{model}", "--resume", "{session}"),
    stream=QwenStream,
    deaf="Qwen Code reads its input once. A turn that may edit is told by a hook after each tool.",
)
