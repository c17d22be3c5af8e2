"""Gemini CLI: its command line, and what it prints."""

from __future__ import annotations

import re
from typing import Any

from relay.agents.process.failure import StreamError
from relay.agents.process.helpers import GEMINI_TOOL, text_of
from relay.agents.process.stream import JSON, Stream, count, tool
from relay.agents.setup import hooks, mcp
from relay.agents.setup.presets import NO_WORDS, AcpPreset, Preset, asking, modes
from relay.model import LogPart, Part, TextPart, UsagePart


class GeminiStream(Stream):
    """`gemini --output-format stream-json`."""

    lost = re.compile(
        r"Error resuming session|Invalid session identifier|No previous sessions found", re.IGNORECASE
    )
    is_json = True

    def __init__(self) -> None:
        super().__init__()
        self._said = ""
        self._after_tool = ""

    def event(self, event: JSON) -> list[Part]:
        match event["type"]:
            case "init":
                return self._begin(event["session_id"])
            case "message" if event["role"] == "assistant":
                return self._on_text(event["content"])
            case "tool_use":
                self._said, self._after_tool = self._said + self._after_tool, ""
                return self._on_tool(event["tool_name"], event["parameters"], event.get("tool_id"))
            case "tool_result":
                failed = event.get("status") != "success"
                return self._helpers.debrief(event["tool_id"], text_of(event.get("output")), failed=failed)
            case "error":
                return [LogPart(f"{event.get('severity', 'error')}: {event['message']}"[:500])]
            case "result":
                return self._on_result(event)
        return []

    def _on_tool(self, name: str, given: JSON, call: Any) -> list[Part]:
        parts: list[Part] = [tool(name, given)]
        if name == GEMINI_TOOL and isinstance(call, str):
            parts += self._helpers.brief(
                call, str(given.get("prompt") or ""), str(given.get("agent_name") or "")
            )
        return parts

    def _on_text(self, text: str) -> list[Part]:
        apart = bool(self._said.strip()) and not self._after_tool
        self._after_tool += text
        return [TextPart(f"\n\n{text}" if apart else text)] if text else []

    def _on_result(self, event: JSON) -> list[Part]:
        if event["status"] == "error":
            error = event.get("error") or {}
            self.error = StreamError(error.get("message") or str(error.get("type")))
        else:
            self.completed = True
            # What stands before the last tool is a report of work; the answer is what stands after it.
            self.answer = self._after_tool.strip() or self._said.strip() or None
        return [_gemini_usage(event.get("stats") or {})]


def _gemini_usage(stats: JSON) -> UsagePart:
    """`input_tokens` is the whole input, with `cached`; `output_tokens` lacks the thoughts, which the total has."""
    whole, read = count(stats, "input_tokens"), count(stats, "cached")
    output = max(count(stats, "output_tokens"), count(stats, "total_tokens") - whole)
    return UsagePart(max(0, whole - read), output, cache_read_tokens=read)


INSTALL = "npm install -g @google/gemini-cli"
ENV_PREFIXES = ("GEMINI_", "GOOGLE_")

PROGRAM = Preset(
    title="Gemini CLI",
    program="gemini",
    seen="0.61.0",
    install=INSTALL,
    sign_in="gemini",
    about="a coding agent (Gemini): large contexts, research, reviews and documents",
    env_prefixes=ENV_PREFIXES,
    # An untrusted folder would end a run without a terminal; the approval mode still holds.
    words=("--output-format", "stream-json", "--skip-trust"),
    # Without a terminal, `default` takes away every tool that would need a person's consent. `plan` is read-only
    # too, but makes the model write a plan instead of an answer.
    modes=modes("--approval-mode default", "--approval-mode auto_edit", "--approval-mode yolo"),
    options=("--model", "{model}", "--resume", "{session}"),
    # It takes our hook and the room's tools from a file, and only where that is root's: not guarded for sure.
    environment=hooks.gemini_environment,
    servers=mcp.ServersFile(
        project=".gemini/settings.json",
        user=lambda _, home: home / ".gemini" / "settings.json",
        entry=lambda server: {**server, "timeout": mcp.TOOL_S * 1000},
        hint="GEMINI.md",
        notes=dict.fromkeys(("project", "user"), "Gemini CLI connects to it only in a trusted folder."),
    ),
    sign_in_codes=frozenset({41}),
    stream=GeminiStream,
    deaf="Gemini CLI reads its input once. Where relay runs as root, a turn that may edit is told by a hook.",
    acp=AcpPreset(
        Preset(
            title="Gemini CLI",
            program="gemini",
            install=INSTALL,
            sign_in="gemini",
            env_prefixes=ENV_PREFIXES,
            modes=NO_WORDS,
            words=("--acp", "--skip-trust"),
            options=("--model", "{model}"),
        ),
        modes=asking("default", "yolo"),
        # 0.61.0 takes our "Resource not found" for a failure of the disk, and then creates no new file.
        fs_read=False,
        chosen=(),
    ),
)
