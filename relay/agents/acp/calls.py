"""What an agent tells of its tool calls (session/update and session/request_permission), as the room shows it.

Invariant: a place is told once. Pure but for `Call.edits` and `lines_of`, which read the files that are about to
be changed.
Schema: agentclientprotocol.com, version 1 (`acp.schema` of agent-client-protocol 0.12.1).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

from acp import schema

from relay.base.files import reading
from relay.model import Location, ToolPart

#: Kinds of tools that change what they name, and those that only look at it; of others it is not known.
WRITING = frozenset({"edit", "delete", "move"})
READING = frozenset({"read", "search"})
#: Bytes of a file that is searched for the lines of an edit.
SEARCHED = 4_000_000
#: Places of one call that are told.
MOST_PLACES = 200
Told = schema.ToolCallStart | schema.ToolCallProgress | schema.ToolCallUpdate


@dataclass(slots=True)
class Call:
    """One tool call, as far as it was told. `places` in the order of their coming; `diffs` while it is not over.
    `command`: what a shell is to run, in `folder` (empty = the turn's), where the agent says so. `says`: the command
    of any tool, else the text that came with it: what a person is to see before it runs."""

    kind: str = "other"
    title: str = ""
    places: dict[Location, None] = field(default_factory=dict)
    diffs: tuple[schema.FileEditToolCallContent, ...] = ()
    command: str = ""
    folder: str = ""
    says: str = ""
    shown: bool = False
    shown_places: int = 0

    @property
    def writes(self) -> bool | None:
        if self.kind in WRITING:
            return True
        return False if self.kind in READING else None

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(place.path for place in self.places))

    def edits(self, root: Path) -> list[Location]:
        """What it is about to change, with lines where its differences tell them. Blocking."""
        exact = {
            diff.path: lines_of(root / diff.path, diff.old_text, diff.new_text)
            for diff in self.diffs
            if diff.old_text is not None
        }
        return [Location(path, exact.get(path), True) for path in self.paths]


class Calls:
    """The tool calls of a turn."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}

    def hear(self, told: Told) -> Call:
        """Take in what an update or a permission request says of a call."""
        call = self._calls.setdefault(told.tool_call_id, Call())
        call.kind = str(told.kind or call.kind)
        call.title = told.title or call.title
        diffs = tuple(item for item in told.content or () if isinstance(item, schema.FileEditToolCallContent))
        if call.kind == "execute" and isinstance(told.raw_input, dict):
            call.command = command_in(told.raw_input) or call.command
            folder = told.raw_input.get("cwd") or told.raw_input.get("workdir")
            call.folder = folder if isinstance(folder, str) else call.folder
        given = command_in(told.raw_input) if isinstance(told.raw_input, dict) else ""
        call.says = given or call.says or _text(told.content)
        over = told.status in ("completed", "failed")
        call.diffs = () if over else diffs or call.diffs  # they may hold whole files
        places = [Location(diff.path, writes=True) for diff in diffs]
        known = {place.path for place in (*places, *call.places)}
        for location in told.locations or ():
            line = location.line  # where a client is to show the file; 0 with some agents: at its beginning
            if line or location.path not in known:
                places.append(Location(location.path, (line, line) if line else None, call.writes))
        for place in places:
            if len(call.places) < MOST_PLACES:
                call.places[place] = None
        return call

    def part(self, call: Call, status: str | None) -> ToolPart | None:
        """What the room is to be shown now: the call, once it is known what it is about, and later its further
        places."""
        places = tuple(call.places)
        if not call.shown:
            if not places and status in (None, "pending"):
                return None  # its title and its places are still on their way
            call.shown, call.shown_places = True, len(places)
            title = " ".join(call.title.split())[:200]
            return ToolPart(call.kind, title, call.paths, places)
        if len(places) == call.shown_places:
            return None
        fresh, call.shown_places = places[call.shown_places :], len(places)
        return ToolPart("", "", tuple(dict.fromkeys(place.path for place in fresh)), fresh)


def command_in(given: dict[str, Any]) -> str:
    """The command of a shell in what a tool is given; the adapters send a text, or an argument list."""
    command = given.get("command")
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        return shlex.join(command)
    return command if isinstance(command, str) else ""


def _text(content: Iterable[Any] | None) -> str:
    """The text in what a call shows."""
    blocks = (item.content for item in content or () if isinstance(item, schema.ContentToolCallContent))
    return "\n".join(block.text for block in blocks if isinstance(block, schema.TextContentBlock))


def lines_of(path: Path, old: str, new: str) -> tuple[int, int] | None:
    """First and last line of the file that replacing `old` by `new` changes; None when `old` is not in it.
    Blocking."""
    try:
        with reading(path) as file:
            text = file.read(SEARCHED).decode("utf-8", "replace")
    except (OSError, ValueError):
        return None
    at = text.find(old)
    if at < 0 or not old:
        return None
    before, after = old.splitlines(), new.splitlines()
    head = _same(before, after)
    tail = _same(reversed(before[head:]), reversed(after[head:]))
    first = text.count("\n", 0, at) + 1 + head
    return first, max(first, first + len(before) - head - tail - 1)


def _same(one: Iterable[str], other: Iterable[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
