"""What agent programs print, read into parts.

Invariant: a parser never raises on anything a program prints: a line that is not JSON, or not of a known
shape, is a line of the log or nothing. One parser reads one run; afterwards it says the answer, the session
and the error that the stream named. The shapes were recorded from the versions named in `docs/agents.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from relay.agents.process.failure import StreamError
from relay.agents.process.helpers import Helpers
from relay.model import Location, LogPart, Part, SessionPart, TextPart, ToolPart

JSON = Mapping[str, Any]
PATH_KEYS = (
    *("file_path", "notebook_path", "path", "absolute_path", "dir_path"),
    *("TargetFile", "AbsolutePath", "DirectoryPath"),  # agy's
)
#: Tools of the programs that change the file they name, and tools that read it.
WRITERS = frozenset(
    {"Edit", "MultiEdit", "Write", "NotebookEdit", "write_file", "replace", "edit", "write"}
    | {"write_to_file", "replace_file_content", "multi_replace_file_content"}
)
READERS = frozenset({"Read", "read", "read_file", "NotebookRead", "view_file"})
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

    def begin(self, prompt: str) -> bytes:
        """What is written to the program's input to ask it."""
        return prompt.encode("utf-8", "replace")

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
            return ToolPart(name, short(value), paths, places)
    return ToolPart(name, "", paths, places)


def short(text: str, limit: int = 200) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def texts(message: JSON) -> str:
    return "\n".join(block["text"] for block in message["content"] if block["type"] == "text")


def count(usage: JSON, key: str) -> int:
    return int(usage.get(key) or 0)
