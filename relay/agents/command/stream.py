"""What agent programs print, read into parts.

Invariant: a parser never raises on anything a program prints: a line that is not JSON, or not of a known
shape, is a line of the log or nothing. One parser reads one run; afterwards it says the answer, the session
and the error that the stream named. The shapes were recorded from the versions named in `docs/agents.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from relay.agents.process.failure import StreamError
from relay.agents.process.helpers import CLAUDE_TOOLS, GEMINI_TOOL, Helpers, text_of
from relay.model import FailureClass, Location, LogPart, Part, SessionPart, TextPart, ToolPart, UsagePart

JSON = Mapping[str, Any]
PATH_KEYS = (
    *("file_path", "notebook_path", "path", "absolute_path", "dir_path"),
    *("TargetFile", "AbsolutePath", "DirectoryPath"),  # agy's
)
#: Tools of the programs that change the file they name, and tools that read it.
WRITERS = frozenset(
    {"Edit", "MultiEdit", "Write", "NotebookEdit", "write_file", "replace"}
    | {"write_to_file", "replace_file_content", "multi_replace_file_content"}
)
READERS = frozenset({"Read", "read_file", "NotebookRead", "view_file"})
SUMMARY_KEYS = (
    *PATH_KEYS,
    "command",
    "cmd",
    "CommandLine",
    "pattern",
    "query",
    "url",
    "description",
    "prompt",
)


class Stream:
    """Base of the parsers; by itself it reads plain text.

    `answer`: the final answer, None while it is not known (the pieces then are the answer). `completed`: the
    program said that its turn is done. `error`: what the stream says went wrong. `hopeless`: the program
    goes on trying what cannot succeed, so it may be ended now.
    `stuck`: it cannot reach its service; a check of the sign-in may say why.
    """

    #: How this program says that the conversation to resume does not exist (any more).
    lost = re.compile(r"(?!)")
    is_json = False

    def __init__(self) -> None:
        self.answer: str | None = None
        self.error: StreamError | None = None
        self.session: str | None = None
        self.completed = False
        self.hopeless = False
        self.stuck = False
        self._texts = 0
        self._helpers = Helpers()

    def read(self, line: str) -> list[Part]:
        """The parts that one line of output (without its line end) gives."""
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            return [LogPart(line[:2000])] if line.strip() else []
        if not isinstance(event, dict):
            return []
        try:
            return self.event(event)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            return [LogPart(f"unknown {event.get('type')!r} event: {line[:500]}")]

    def event(self, event: JSON) -> list[Part]:
        return []

    def has_lost_session(self, stderr: str) -> bool:
        text = stderr if self.error is None else f"{self.error.text}\n{stderr}"
        return self.lost.search(text) is not None

    def _begin(self, session: Any) -> list[Part]:
        if not isinstance(session, str) or session == self.session:
            return []
        self.session = session
        return [SessionPart(session)]

    def _block(self, text: str) -> list[Part]:
        """A whole piece of text, apart from the ones before it."""
        if not text:
            return []
        self._texts += 1
        return [TextPart(text if self._texts == 1 else f"\n\n{text}")]


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
            self.error = StreamError(_texts(message), failure, self._retry_at)
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
            return [ToolPart("file_change", _line(", ".join(paths)), paths, places)]
        # What takes time is shown when it starts, and once.
        if kind == "command_execution" and not completed:
            return [ToolPart("shell", _line(item["command"]))]
        if kind == "mcp_tool_call" and not completed:
            return [tool(f"{item['server']}.{item['tool']}", item.get("arguments") or {})]
        if kind == "collab_tool_call":
            if completed:
                return self._helpers.codex_calls(item)
            return [ToolPart(item["tool"], _line(item["prompt"]))] if item.get("prompt") else []
        if kind == "web_search" and completed:
            return [ToolPart("web_search", _line(item.get("query") or ""))]
        return []


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
                _count(usage, "input_tokens"),
                _count(usage, "output_tokens"),
                cache_read_tokens=_count(usage, "cache_read_tokens"),
            )
        ]


STREAMS: dict[str, Callable[[], Stream]] = {
    "text": Stream,
    "claude": ClaudeStream,
    "codex": CodexStream,
    "gemini": GeminiStream,
    "agy": AgyStream,
}


def tool(name: str, arguments: JSON) -> ToolPart:
    """One line and the paths, from the arguments of a tool call."""
    paths = tuple(value for key in PATH_KEYS if isinstance(value := arguments.get(key), str) and value)
    places: tuple[Location, ...] = ()
    if name in WRITERS or name in READERS:
        places = tuple(Location(path, writes=name in WRITERS) for path in paths)
    for key in SUMMARY_KEYS:
        value = arguments.get(key)
        if isinstance(value, list):
            value = " ".join(map(str, value))
        if isinstance(value, str) and value.strip():
            return ToolPart(name, _line(value), paths, places)
    return ToolPart(name, "", paths, places)


def _line(text: str, limit: int = 200) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _texts(message: JSON) -> str:
    return "\n".join(block["text"] for block in message["content"] if block["type"] == "text")


def _claude_usage(usage: JSON) -> UsagePart:
    """The kinds are apart already."""
    return UsagePart(
        _count(usage, "input_tokens"),
        _count(usage, "output_tokens"),
        cache_write_tokens=_count(usage, "cache_creation_input_tokens"),
        cache_read_tokens=_count(usage, "cache_read_input_tokens"),
    )


def codex_usage(usage: JSON) -> UsagePart:
    """`input_tokens` is the whole input, with what was read from the cache and what was written into it."""
    read, write = _count(usage, "cached_input_tokens"), _count(usage, "cache_write_input_tokens")
    return UsagePart(
        max(0, _count(usage, "input_tokens") - read - write),
        _count(usage, "output_tokens"),
        cache_write_tokens=write,
        cache_read_tokens=read,
    )


def _gemini_usage(stats: JSON) -> UsagePart:
    """`input_tokens` is the whole input, with `cached`; `output_tokens` lacks the thoughts, which the total has."""
    whole, read = _count(stats, "input_tokens"), _count(stats, "cached")
    output = max(_count(stats, "output_tokens"), _count(stats, "total_tokens") - whole)
    return UsagePart(max(0, whole - read), output, cache_read_tokens=read)


def _count(usage: JSON, key: str) -> int:
    return int(usage.get(key) or 0)
