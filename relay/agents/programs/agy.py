"""Antigravity CLI (`agy`), of 1.2: its command line, what it prints, and what it reads.

No registry has it, so it was not run: docs/agents.md says where its flags and its stream come from.
"""

from __future__ import annotations

import json
import re
from typing import Any

from relay.agents.process.failure import StreamError
from relay.agents.process.stream import JSON, Stream, count, tool
from relay.agents.setup.presets import Preset, modes
from relay.model import Part, TextPart, UsagePart


class AgyStream(Stream):
    """`agy --output-format stream-json`, as its change log and published streams have it (docs/agents.md)."""

    lost = re.compile(
        r"conversation\b.{0,80}\b(?:not found|does not exist)|no such conversation", re.IGNORECASE
    )
    is_json = True

    def __init__(self) -> None:
        super().__init__()
        self._shown: set[Any] = set()
        self._used_tool = False

    def begin(self, prompt: str) -> bytes:
        """One line of its stream of input; the end of the input ends the conversation's process."""
        content = [{"type": "text", "text": prompt}]
        line = json.dumps({"event": "user", "message": {"role": "user", "content": content}})
        return f"{line}\n".encode("utf-8", "replace")

    def event(self, event: JSON) -> list[Part]:
        payload = event.get(event["event"]) or {}
        parts = self._begin(event.get("conversation_id") or payload.get("conversation_id"))
        match event["event"]:
            case "step_update" if payload.get("step_type") == "agent_response":
                parts += self._on_answer(payload)
            case "step_update" if payload.get("step_type") == "tool":
                parts += self._on_tool(payload)
            case "result":
                parts += self._on_result(payload)
        return parts

    def _on_answer(self, step: JSON) -> list[Part]:
        if step.get("state") == "ERROR":
            error = step.get("error")
            message = error.get("message") if isinstance(error, dict) else error
            self.error = StreamError(str(message or "its answer ended in an error"))
        text = step.get("text_delta") or ""
        apart = text and self._texts and self._used_tool
        self._used_tool = self._used_tool and not text
        self._texts += bool(text)
        return [TextPart(f"\n\n{text}" if apart else text)] if text else []

    def _on_tool(self, step: JSON) -> list[Part]:
        self._used_tool = True
        info, at = step.get("tool_info") or {}, step.get("step_index")
        if at in self._shown:  # told when it begins, and again when it has ended
            return []
        self._shown.add(at)
        return [tool(info.get("name") or step.get("tool_name") or "tool", info.get("parameters") or {})]

    def _on_result(self, result: JSON) -> list[Part]:
        usage, answer = result.get("usage") or {}, (result.get("response") or "").strip()
        if result.get("status") != "SUCCESS":
            self.error = StreamError(str(result.get("error") or f"status {result.get('status')!r}"))
        elif not answer and result.get("denied_actions"):
            denied = result["denied_actions"]
            names = [str(action.get("display_name") or action.get("action")) for action in denied]
            self.error = StreamError(f"It was not allowed to use {', '.join(names)}, and gave no answer.")
        elif self.error is None:
            self.completed = True
            self.answer = answer or None
        # Input without what was read from the cache; the thoughts are in the output.
        return [
            UsagePart(
                count(usage, "input_tokens"),
                count(usage, "output_tokens"),
                cache_read_tokens=count(usage, "cache_read_tokens"),
            )
        ]


PROGRAM = Preset(
    title="Antigravity CLI",
    program="agy",
    install="curl -fsSL https://antigravity.google/cli/install.sh | bash",
    sign_in="agy",
    about="a coding agent (Antigravity, with Gemini models): large contexts, research, reviews and documents",
    env_prefixes=("ANTIGRAVITY_", "AGY_", "GEMINI_", "GOOGLE_"),
    # No `-p`, which takes the prompt as its argument: `--input-format` reads it from standard input. It would end a
    # turn after 5 minutes, as if it were done; and work in a folder of its own.
    words=(
        *("--input-format", "stream-json", "--output-format", "stream-json"),
        *("--print-timeout", "24h", "--add-dir", "."),
    ),
    # Its own default is what the user's settings say; what would need a person's consent is refused.
    modes=modes("--mode plan", "--mode accept-edits", "--dangerously-skip-permissions"),
    options=("--model", "{model}", "--effort", "{effort}", "--conversation", "{session}"),
    stream=AgyStream,
    deaf="Whether Antigravity CLI hears anything while it works was not seen.",
)
