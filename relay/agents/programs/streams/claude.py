"""What `claude -p --output-format stream-json` prints, read into parts."""

from __future__ import annotations

import re
from dataclasses import replace

from relay.agents.process.failure import StreamError
from relay.agents.process.helpers import CLAUDE_TOOLS, text_of
from relay.agents.process.stream import JSON, Stream, count, texts, tool
from relay.model import FailureClass, Part, TextPart, UsagePart


class ClaudeStream(Stream):
    """`claude -p --output-format stream-json --verbose [--include-partial-messages]`."""

    lost = re.compile(r"No conversation found with session ID", re.IGNORECASE)
    is_json = True
    #: A refreshed token may mend the first refusals; the program itself would try ten times, for minutes.
    refusals = 3

    def __init__(self) -> None:
        super().__init__()
        self._streamed: set[str] = set()
        self._message = ""
        self._used = self._message_used = self._resulted = UsagePart()
        self._retry_at: float | None = None

    def event(self, event: JSON) -> list[Part]:
        parts = self._begin(event.get("session_id")) if event["type"] == "system" else []
        match event["type"]:
            case "system" if event.get("subtype") == "api_retry":
                self._on_retry(event)
            case "system":
                parts += self._helpers.claude_tells(event)
            case "user":
                parts += self._on_results(event)
            case "stream_event" if event.get("parent_tool_use_id") is None:
                parts += self._on_piece(event["event"])
            case "assistant":
                parts += self._on_message(event)
            case "rate_limit_event":
                info = event["rate_limit_info"]
                if info.get("status") == "rejected" and info.get("resetsAt"):
                    self._retry_at = float(info["resetsAt"])
            case "result":
                parts += self._on_result(event)
        return parts

    def _on_retry(self, event: JSON) -> None:
        if event.get("error") == "authentication_failed" and event["attempt"] >= self.refusals:
            self.error = StreamError(
                f"The service refused the sign-in (HTTP {event.get('error_status')}).",
                FailureClass.NOT_SIGNED_IN,
            )
            self.hopeless = True

    def _on_piece(self, piece: JSON) -> list[Part]:
        match piece["type"]:
            case "message_start":
                self._message = piece["message"]["id"]
                self._used += self._message_used
                # What it says of its output so far is counted when the message ends.
                self._message_used = replace(_claude_usage(piece["message"]["usage"]), output_tokens=0)
            case "content_block_start" if piece["content_block"]["type"] == "text":
                self._streamed.add(self._message)
                self._texts += 1
                return [TextPart("\n\n")] if self._texts > 1 else []
            case "content_block_delta" if piece["delta"]["type"] == "text_delta":
                return [TextPart(piece["delta"]["text"])]
            case "message_delta" if piece.get("usage"):
                output = int(piece["usage"].get("output_tokens") or 0)
                self._message_used = replace(self._message_used, output_tokens=output)
                return [self._used + self._message_used]
        return []

    def _on_message(self, event: JSON) -> list[Part]:
        message = event["message"]
        if event.get("is_api_error_message") or event.get("error"):
            failure = {
                "authentication_failed": FailureClass.NOT_SIGNED_IN,
                "oauth_org_not_allowed": FailureClass.NOT_SIGNED_IN,
                "rate_limit": FailureClass.RATE_LIMIT,
                "overloaded": FailureClass.RATE_LIMIT,
            }.get(str(event.get("error")))
            self.error = StreamError(texts(message), failure, self._retry_at)
            return []
        parts: list[Part] = []
        by = event.get("parent_tool_use_id")
        for block in message["content"]:
            if block["type"] == "tool_use":
                parts.append(replace(tool(block["name"], block["input"]), helper=self._helpers.known(by)))
                if block["name"] in CLAUDE_TOOLS:
                    parts += self._helpers.claude_uses(block["id"], block["input"], by)
            elif block["type"] == "text" and by is None and message["id"] not in self._streamed:
                parts += self._block(block["text"])
        return parts

    def _on_results(self, event: JSON) -> list[Part]:
        parts: list[Part] = []
        for block in event["message"]["content"]:
            if isinstance(block, dict) and block.get("type") == "tool_result":
                call, text = block["tool_use_id"], text_of(block.get("content"))
                failed, response = bool(block.get("is_error")), event.get("tool_use_result")
                # A helper's own lines have results of its tools.
                if call != event.get("parent_tool_use_id"):
                    parts += self._helpers.claude_answers(call, response, text, failed=failed)
        return parts

    def _on_result(self, event: JSON) -> list[Part]:
        parts = self._begin(event.get("session_id")) if not event.get("is_error") else []
        # A helper of the background that ends later makes it go on, with a result of its own.
        self._resulted += _claude_usage(event.get("usage") or {})
        parts.append(replace(self._resulted, cost_usd=float(event.get("total_cost_usd") or 0.0)))
        if event.get("is_error"):
            message = event.get("result") or "\n".join(event.get("errors") or ()) or str(event.get("subtype"))
            known = self.error.failure if self.error is not None else None
            if known is None and event.get("api_error_status") == 429:
                known = FailureClass.RATE_LIMIT
            self.error = StreamError(message, known, self._retry_at)
        else:
            self.error = None  # an error on the way that the program got over
            self.completed = True
            self.answer = event.get("result") or None
        return parts


def _claude_usage(usage: JSON) -> UsagePart:
    """The kinds are apart already."""
    return UsagePart(
        count(usage, "input_tokens"),
        count(usage, "output_tokens"),
        cache_write_tokens=count(usage, "cache_creation_input_tokens"),
        cache_read_tokens=count(usage, "cache_read_input_tokens"),
    )
