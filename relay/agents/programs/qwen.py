"""Qwen Code: its command line. It prints the stream of Claude Code, and reads its input once in a turn.

A message on its stream of input waits for the next turn (0.15.10), so relay does not use that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from relay.agents.process.stream import JSON
from relay.agents.programs.streams.claude import ClaudeStream
from relay.agents.setup.mcp import NAME, McpServer
from relay.agents.setup.presets import Preset, modes
from relay.model import Part


class QwenStream(ClaudeStream):
    """`qwen --output-format stream-json`."""

    lost = re.compile(r"No saved session found with ID", re.IGNORECASE)

    def _on_result(self, event: JSON) -> list[Part]:
        error, said = event.get("error"), str(event.get("result") or "")
        if isinstance(error, Mapping):
            event = {**event, "is_error": True, "result": error.get("message")}
        elif said.startswith("[API Error: "):  # it calls what its service refused a success
            event = {**event, "is_error": True}
        return super()._on_result(event)


def mcp_arguments(server: McpServer) -> list[str]:
    """The server beside the user's own. `trust`: nobody sits there to be asked whether a tool may be used."""
    return ["--mcp-config", json.dumps({"mcpServers": {NAME: {**server.entry(), "trust": True}}})]


PROGRAM = Preset(
    title="Qwen Code",
    program="qwen",
    seen="0.15.10",
    install="npm install -g @qwen-code/qwen-code",
    sign_in="qwen",
    about="a coding agent (Qwen Code): reads and changes code, reviews, explains",
    env_prefixes=("QWEN_", "OPENAI_", "DASHSCOPE_", "BAILIAN_"),
    words=("--output-format", "stream-json"),
    # Without a terminal, `default` refuses what would need a person's consent.
    modes=modes("--approval-mode default", "--approval-mode auto-edit", "--approval-mode yolo"),
    mcp=mcp_arguments,
    options=("--model", "{model}", "--resume", "{session}"),
    stream=QwenStream,
    deaf="Qwen Code keeps what it is told in a turn for its next one.",
)
