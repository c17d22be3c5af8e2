"""Events as they travel: a line of JSON each, many lines to a compressed pack.

Invariants:
- a line has every column that the event's id is the hash of, as it is stored where it was recorded, so who reads it
  can check it without asking anybody. `read_line` gives only what was checked;
- a payload that stays at home travels as its digest, which is what the hash is made of;
- a bad line or a bad pack is told apart from the good ones, by name.

Pure; call it off the event loop for more than a few lines.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from relay.log.encoding import dumps, loads
from relay.log.event_hash import Withheld, digest_of, event_id
from relay.log.events import BODY_VERSION
from relay.log.imported import PREFIX

#: The columns that are hashed: texts, those of them that must be there, and numbers.
_TEXTS = (
    *(
        "id",
        "session",
        "lane",
        "type",
        "prev",
        "parents",
        "causal_deps",
        "clock",
        "role",
        "branch",
        "snapshot",
    ),
    *("file_touches", "inputs", "outputs", "source_key", "at"),
)
_REQUIRED = frozenset({"id", "session", "lane", "type", "parents", "causal_deps", "clock", "at"})
_NUMBERS = ("v", "seq")
_PAYLOADS = ("inputs", "outputs")
_DIGEST = "_digest"
_KEYS = frozenset({*_TEXTS, *_NUMBERS, *(f"{name}{_DIGEST}" for name in _PAYLOADS), "short"})
_ID = re.compile(r"[0-9a-f]{64}")
#: Bytes of the lines of one pack: a larger one is refused before it fills the memory.
MOST_BYTES = 256 * 1_048_576


class BadPack(Exception):
    """These bytes are no pack."""


class BadLine(Exception):
    """A line that is no event, or not the event that it says. `id`: of the event, as far as it can be read."""

    def __init__(self, id: str, reason: str) -> None:
        super().__init__(reason)
        self.id, self.reason = id, reason


@dataclass(frozen=True, slots=True)
class PackedEvent:
    """An event whose id is the hash of its content. `row`: its columns as they were recorded, a payload that stayed
    at home as `Withheld`. `causes`: parents and causal dependencies. `short`: its lane enters no clock; this alone is
    not hashed."""

    id: str
    session: str
    lane: str
    seq: int
    prev: str | None
    parents: tuple[str, ...]
    causes: tuple[str, ...]
    clock: Mapping[str, int]
    short: bool
    row: Mapping[str, Any] = field(repr=False)

    @property
    def needs(self) -> tuple[str, ...]:
        """The events that come before it."""
        return self.causes if self.prev is None else (*self.causes, self.prev)

    @property
    def lamport(self) -> int:
        """The sum of its clock."""
        return sum(self.clock.values())


@dataclass(frozen=True, slots=True)
class Stub:
    """A cause that stays at home: where it stands, and nothing of what it says."""

    id: str
    session: str
    lane: str
    seq: int
    parents: tuple[str, ...]


def of_body(row: Mapping[str, Any], *, short: bool) -> PackedEvent:
    """The event of a body as it was recorded: of this log, so its hash is not asked about."""
    parents, deps = tuple(loads(row["parents"])), tuple(loads(row["causal_deps"]))
    return PackedEvent(
        row["id"],
        row["session"],
        row["lane"],
        row["seq"],
        row["prev"],
        parents,
        (*parents, *deps),
        loads(row["clock"]),
        short,
        row,
    )


def event_line(row: Mapping[str, Any], *, short: bool, withhold: Iterable[str] = ()) -> str:
    """The line of an event. `row`: its columns as they were recorded; `withhold`: payloads that stay at home."""
    line: dict[str, Any] = {name: row[name] for name in (*_TEXTS, *_NUMBERS) if row[name] is not None}
    for name in _PAYLOADS:
        if isinstance(line.get(name), Withheld):
            line[f"{name}{_DIGEST}"] = str(line.pop(name))
    for name in withhold:
        if name in line:
            line[f"{name}{_DIGEST}"] = str(digest_of(line.pop(name)))
    if short:
        line["short"] = True
    return dumps(line)


def stub_line(stub: Stub) -> str:
    """The line of a cause that stays at home."""
    value = {"session": stub.session, "lane": stub.lane, "seq": stub.seq, "parents": list(stub.parents)}
    return dumps({"stub": stub.id, **value})


def read_line(text: str) -> PackedEvent | Stub:
    """What a line says, checked. Raises BadLine."""
    try:
        line = loads(text)
    except (ValueError, RecursionError) as error:
        raise BadLine("?", f"it cannot be read: {error}") from None
    if not isinstance(line, dict):
        raise BadLine("?", "it is no object")
    id = line.get("stub", line.get("id"))
    if not isinstance(id, str) or not _ID.fullmatch(id):
        raise BadLine("?", f"it has no id of an event: {str(id)[:80]!r}")
    try:
        return _stub(id, line) if "stub" in line else _event(id, line)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise BadLine(id, f"it cannot be read: {type(error).__name__}: {str(error)[:200]}") from None


def _stub(id: str, line: dict[str, Any]) -> Stub:
    session, lane, seq, parents = line["session"], line["lane"], line["seq"], line["parents"]
    if type(seq) is not int or seq < 0 or not isinstance(lane, str) or not _is_session(session):
        raise BadLine(id, "its lane cannot be read")
    return Stub(id, session, lane, seq, _ids(parents))


def _event(id: str, line: dict[str, Any]) -> PackedEvent:
    if unknown := line.keys() - _KEYS:
        raise BadLine(id, f"it has a field that no event has: {min(unknown)[:40]!r}")
    row: dict[str, Any] = {name: line.get(name) for name in (*_TEXTS, *_NUMBERS)}
    for name in _TEXTS:
        if not isinstance(row[name], str) and (row[name] is not None or name in _REQUIRED):
            raise BadLine(id, f"its {name} is no text")
        if row[name] is not None and "\0" in row[name]:
            raise BadLine(id, f"its {name} has a character that no database keeps")
    if row["v"] != BODY_VERSION or type(row["seq"]) is not int or not 1 <= row["seq"] < 2**62:
        raise BadLine(id, f"it is of version {row['v']!r} at {row['seq']!r}; this relay reads {BODY_VERSION}")
    for name in _PAYLOADS:
        if (digest := line.get(f"{name}{_DIGEST}")) is not None:
            if row[name] is not None or not _ID.fullmatch(digest):
                raise BadLine(id, f"its {name} is not a payload or a digest")
            row[name] = Withheld(digest)
        elif row[name] is not None:
            loads(row[name])
    if event_id(row) != id:
        raise BadLine(id, "its content is not what was hashed")
    # What comes now is as its author wrote it: whether that is an event is another question.
    parents, deps, clock = (_canonical(id, row, name) for name in ("parents", "causal_deps", "clock"))
    if row["file_touches"] is not None:
        paths = _canonical(id, row, "file_touches")
        if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
            raise BadLine(id, "its files are no paths")
    if not _is_session(row["session"]) or row["type"].startswith(PREFIX):
        raise BadLine(id, "its session or its type is none that a room records")
    key = f"{row['session']}/{row['lane']}"
    if not isinstance(clock, dict) or any(type(count) is not int for count in clock.values()):
        raise BadLine(id, "its clock is none")
    if clock.get(key) != row["seq"]:
        raise BadLine(id, "its clock does not count it")
    prev = row["prev"]
    if prev is not None and not _ID.fullmatch(prev):
        raise BadLine(id, "what came before it on its lane is no event")
    _ids(parents), _ids(deps)
    return of_body(row, short=line.get("short") is True)


def _is_session(value: object) -> bool:
    return isinstance(value, str) and value != "" and "/" not in value


def _canonical(id: str, row: Mapping[str, Any], name: str) -> Any:
    value = loads(row[name])
    if dumps(value) != row[name]:
        raise BadLine(id, f"its {name} are not in the canonical form")
    return value


def _ids(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(id, str) and _ID.fullmatch(id) for id in value):
        raise ValueError("a cause is no event's id")
    return tuple(value)


def pack(lines: Iterable[str]) -> bytes:
    """The lines, compressed (zlib)."""
    return zlib.compress("".join(f"{line}\n" for line in lines).encode(), 6)


def unpack(data: bytes) -> list[str]:
    """The lines of a pack. Raises BadPack."""
    reader = zlib.decompressobj()
    try:
        text = reader.decompress(data, MOST_BYTES)
        if not reader.eof:
            raise BadPack("it is cut off, or too large")
        return text.decode().split("\n")[:-1]
    except (zlib.error, UnicodeDecodeError) as error:
        raise BadPack(str(error)) from None
