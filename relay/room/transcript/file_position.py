"""Where a reader stands in a file that others write, and how it reads on.

Invariant: `read` gives whole lines only, in order, each byte once; it never guesses. A digest of the first and
of the last bytes before the offset tells a continuation from a file that was replaced, truncated or rewritten.

Blocking; call it in a thread.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from relay.base.files import reading
from relay.model import Kind
from relay.room.parsing import line_format

#: Bytes at the head of the file, and before the offset, whose digest is kept.
WINDOW = 4096
#: Bytes read at once, and so the most that one transaction admits; a longer line is read on.
CHUNK = 128 << 10
_EMPTY = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True)
class Place:
    """`offset`: bytes of the file that were read. Lines that start before `history_until` are history."""

    offset: int = 0
    head_len: int = 0
    head_sha: str = _EMPTY
    last_len: int = 0
    last_sha: str = _EMPTY
    history_until: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """`start`: its offset in the file. `text` is None for a line that was larger than allowed (`size`)."""

    start: int
    size: int
    text: bytes | None


@dataclass(frozen=True, slots=True)
class Chunk:
    """What a read found. `replaced`: the file is not the one that was read before; nothing was read then.
    `size`: of the file, to tell whether there is more."""

    lines: tuple[Line, ...]
    place: Place
    size: int
    replaced: bool = False


def read(path: Path, place: Place, largest: int) -> Chunk:
    """The whole lines behind `place`, up to about 128 KiB of them. A missing file reads as an empty one.
    Raises OSError, for what is no regular file too.

    A line of more than `largest` bytes is passed over once its end is there.
    """
    try:
        file = reading(path)
    except FileNotFoundError:
        return Chunk((), place, 0, replaced=place.offset > 0)
    with file:
        fd = file.fileno()
        size = os.fstat(fd).st_size
        if size < place.offset or not _continues(fd, place):
            return Chunk((), place, size, replaced=True)
        if size == place.offset:
            return Chunk((), place, size)
        lines, offset = _lines(fd, place.offset, largest)
        return Chunk(tuple(lines), stand(fd, offset, place.history_until), size)


def _lines(fd: int, offset: int, largest: int) -> tuple[list[Line], int]:
    data = os.pread(fd, CHUNK, offset)
    end = data.rfind(b"\n")
    if end < 0:
        return _long_line(fd, offset, data, largest)
    lines, start = [], 0
    while start <= end:
        stop = data.index(b"\n", start)
        size = stop - start
        text = data[start:stop] if size <= largest else None
        lines.append(Line(offset + start, size, text))
        start = stop + 1
    return lines, offset + start


def _long_line(fd: int, offset: int, data: bytes, largest: int) -> tuple[list[Line], int]:
    """A line longer than a chunk: kept while it may still be small enough, then only its end is looked for."""
    text, at = bytearray(data), offset + len(data)
    while data:
        data = os.pread(fd, CHUNK, at)
        stop = data.find(b"\n")
        if len(text) <= largest:
            text += data if stop < 0 else data[:stop]
        if stop >= 0:
            size = at + stop - offset
            return [Line(offset, size, bytes(text) if size <= largest else None)], at + stop + 1
        at += len(data)
    return [], offset


def continues(path: Path, place: Place) -> bool:
    """Is the file at `path` the one in which `place` is? A missing one is not."""
    try:
        with reading(path) as file:
            size = os.fstat(file.fileno()).st_size
            return size >= place.offset and _continues(file.fileno(), place)
    except FileNotFoundError:
        return False


def _continues(fd: int, place: Place) -> bool:
    return (
        _digest(fd, 0, place.head_len) == place.head_sha
        and _digest(fd, place.offset - place.last_len, place.last_len) == place.last_sha
    )


def stand(fd: int, offset: int, history_until: int) -> Place:
    """The place at `offset` of an open file."""
    head, last = min(offset, WINDOW), min(offset, WINDOW)
    return Place(offset, head, _digest(fd, 0, head), last, _digest(fd, offset - last, last), history_until)


def stand_at(path: Path, offset: int, history_until: int) -> Place:
    """The place at `offset` of the file at `path`."""
    with reading(path) as file:
        return stand(file.fileno(), offset, history_until)


def _digest(fd: int, start: int, length: int) -> str:
    return hashlib.sha256(os.pread(fd, length, start)).hexdigest() if length else _EMPTY


def _is_answer(line: bytes) -> bool:
    """Has the room or an agent written this line? A person's line that only talks of kinds is none."""
    if b'"kind": "' not in line:
        return False
    entry = line_format.decode(line)
    return isinstance(entry, line_format.Entry) and entry.kind is not Kind.HUMAN


def answered_until(path: Path, most: int = 64 << 20) -> int:
    """Where, in a transcript that this room has never read, the last line ends that a room has written.

    What stands behind it nobody has answered; all before is history. Looks at the last `most` bytes.
    """
    try:
        with reading(path) as file:
            size = file.seek(0, os.SEEK_END)
            base = max(0, size - most)
            file.seek(base)
            data = file.read()
    except FileNotFoundError:
        return 0
    end = len(data)
    while end > 0:
        start = data.rfind(b"\n", 0, end - 1) + 1
        if _is_answer(data[start:end]):
            return base + end
        end = start
    return base


def append_at_end(path: Path, lock: Path, here: Place, lines: bytes) -> Place | None:
    """Append when the tail stands at the end of the file, under the append lock.

    The new place; None when there is something unread (read it, then come again), or when others wrote around
    our lines without the lock (the tail then reads ours like any other).
    """
    with line_format.holding(lock):
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            size = 0
        if size != here.offset and not _only_unfinished(path, here.offset):
            return None
        end = line_format.append_held(path, lines)
        if end - len(lines) != here.offset:
            return None
        return stand_at(path, end, here.history_until)


def _only_unfinished(path: Path, offset: int) -> bool:
    """Is all that is unread one line without an end? Then waiting for it would keep everybody waiting."""
    with reading(path) as file:
        file.seek(offset)
        while data := file.read(1 << 20):
            if b"\n" in data:
                return False
    return True
