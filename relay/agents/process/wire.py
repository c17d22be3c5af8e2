"""The messages of an agent's protocol (JSON-RPC, one a line), over the pipes of its process.

Invariant: what is held of the agent's output is bounded: a line up to `LINE_LIMIT`, a reader that waits while
`MOST_WAITING` parts have not been taken. A line that is no message is told to the log and otherwise ignored; it
never ends a turn. Diagnostics keep their order with the messages.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any

from relay.agents.process.lines import LINE_LIMIT, STDERR_LINE_LIMIT, STDERR_TAIL, Lines
from relay.agents.process.output_limit import OutputLimit
from relay.base.child_process import STDOUT, ChildProcess
from relay.base.terminal_text import safe, safe_line
from relay.model import LogPart, Part, TextPart

#: Parts that wait to be taken before no more of the agent's output is read.
MOST_WAITING = 512


class Outbox:
    """The parts of a turn on their way to the room, with bounds on text and diagnostics."""

    def __init__(self, max_output_bytes: int) -> None:
        self.output_limit = OutputLimit(max_output_bytes)
        self._parts: deque[Part] = deque()
        self.changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    def put(self, part: Part) -> None:
        match part:
            case TextPart(text):
                text = self.output_limit.cut(text)
                if text:
                    self._append(TextPart(text))
            case LogPart(line):
                if line.strip() and (line := self.output_limit.cut_log(line)):
                    self._append(LogPart(line))
            case _:
                self._append(part)

    def _append(self, part: Part) -> None:
        self._parts.append(part)
        if len(self._parts) >= MOST_WAITING:
            self._room.clear()
        self.changed.set()

    def take(self) -> list[Part]:
        """All that waits."""
        taken = list(self._parts)
        self._parts.clear()
        self._room.set()
        self.changed.clear()
        return taken

    async def has_room(self) -> None:
        await self._room.wait()


class Wire:
    """Moves JSON-RPC messages, one a line: what `acp.Connection` calls a transport."""

    def __init__(self, process: ChildProcess, outbox: Outbox) -> None:
        self._process, self._outbox = process, outbox
        self._output: AsyncGenerator[tuple[int, bytes], None] = process.output()
        self._lines, self._errors = Lines(LINE_LIMIT), Lines(STDERR_LINE_LIMIT)
        self._dropped = 0
        self._messages: deque[dict[str, Any]] = deque()
        self.stderr = ""

    async def send(self, message: dict[str, Any]) -> None:
        data = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        try:
            await self._process.send(data + b"\n")
        except ConnectionError:
            if "method" in message:
                raise
            # The agent that asked has gone; the end of its output says so too.

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None when the agent has gone."""
        while not self._messages:
            await self._outbox.has_room()
            try:
                fd, data = await anext(self._output)
            except StopAsyncIteration:
                self._diagnose(self._errors.end())
                return None
            if fd == STDOUT:
                self._read(self._lines.feed(data))
            else:
                self._diagnose(self._errors.feed(data))
        # Let what the last message began take its first step, so that they are handled in their order and do
        # not pile up.
        await asyncio.sleep(0)
        return self._messages.popleft()

    async def close(self) -> None:
        """Nothing: the pipes are the process's, which ends after this."""

    async def released(self) -> None:
        """Once nobody receives any more."""
        await self._output.aclose()

    def _read(self, lines: list[str]) -> None:
        for line in lines:
            if not line.strip():
                continue
            message = _message(line)
            if message is None:
                self._outbox.put(LogPart(f"not a message: {safe_line(line, 200)}"))
            else:
                self._messages.append(message)
        if self._lines.dropped > self._dropped:
            self._dropped = self._lines.dropped
            self._outbox.output_limit.truncated = True
            self._outbox.put(LogPart(f"a message longer than {LINE_LIMIT} bytes was dropped"))

    def _diagnose(self, lines: list[str]) -> None:
        for line in lines:
            clean = safe(line).replace("\n", " ")
            self.stderr = f"{self.stderr}{clean}\n"[-STDERR_TAIL:]
            self._outbox.put(LogPart(clean))


def _message(line: str) -> dict[str, Any] | None:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or not ("method" in message or "id" in message):
        return None
    if not isinstance(message.get("id", 0), int | str | None) or not isinstance(
        message.get("method", ""), str
    ):
        return None
    return message
