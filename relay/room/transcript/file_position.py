"""Where a reader stands in a file that others write, and how it reads on.

Invariants:
- `read` gives whole lines only, in order, each byte once; it never guesses. A digest of the first and of the last
  bytes before the offset tells a continuation from a file that was replaced, truncated or rewritten;
- a digest is of the bytes as they are once what is to be blank is, so it holds before, while and after they are
  overwritten, wherever a process is killed;
- bytes are overwritten in place, in the file that the place is in. It is never cut, so what others append stays.

Blocking; call it in a thread.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path

from relay.base.files import open_regular, reading
from relay.model import Kind
from relay.room.parsing import line_format
from relay.room.transcript.standing import Ranges, blanked, masked

#: Bytes at the head of the file, and before the offset, whose digest is kept.
WINDOW = 4096
#: Bytes read at once, and so the most that one transaction admits; a longer line is read on.
CHUNK = 128 << 10
#: Lines that are read at once. They become one transaction, for which all other writers wait.
MOST_LINES = 2000
_EMPTY = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True)
class Place:
    """`offset`: bytes of the file that were read. Lines that start before `history_until` are history. `upto`,
    `ahead`, `blank`: which entries stand in the file, and which bytes are to go (standing.py)."""

    offset: int = 0
    head_len: int = 0
    head_sha: str = _EMPTY
    last_len: int = 0
    last_sha: str = _EMPTY
    history_until: int = 0
    upto: int = 0
    ahead: Ranges = ()
    blank: Ranges = ()

    def standing_at(self, offset: int, head: bytes, last: bytes, blank: Ranges) -> Place:
        """This place moved to `offset`. `head`, `last`: the first bytes of the file up to there, and the last."""
        head_sha = _sha(masked(head, 0, blank))
        last_sha = _sha(masked(last, offset - len(last), blank))
        return replace(
            self,
            offset=offset,
            head_len=len(head),
            head_sha=head_sha,
            last_len=len(last),
            last_sha=last_sha,
            blank=blank,
        )


@dataclass(frozen=True, slots=True)
class Line:
    """`start`: its offset in the file. `text` is None for a line that was larger than allowed (`size`)."""

    start: int
    size: int
    text: bytes | None


@dataclass(frozen=True, slots=True)
class Chunk:
    """What a read found. `replaced`: the file is not the one that was read before; nothing was read then.
    `size`: of the file, to tell whether there is more. `head`, `last`: the first and the last bytes before `offset`,
    which is where the lines end."""

    lines: tuple[Line, ...]
    size: int
    offset: int = 0
    head: bytes = b""
    last: bytes = b""
    replaced: bool = False


def read(path: Path, place: Place, largest: int) -> Chunk:
    """The whole lines behind `place`, up to about 128 KiB of them. A missing file reads as an empty one.
    Raises OSError, for what is no regular file too.

    A line of more than `largest` bytes is passed over once its end is there.
    """
    try:
        file = reading(path)
    except FileNotFoundError:
        return Chunk((), 0, replaced=place.offset > 0)
    with file:
        fd = file.fileno()
        size = os.fstat(fd).st_size
        if size < place.offset or not _continues(fd, place):
            return Chunk((), size, replaced=True)
        if size == place.offset:
            return Chunk((), size)
        lines, offset = _lines(fd, place.offset, largest)
        return Chunk(tuple(lines), size, offset, *_windows(fd, offset))


def _lines(fd: int, offset: int, largest: int) -> tuple[list[Line], int]:
    data = os.pread(fd, CHUNK, offset)
    end = data.rfind(b"\n")
    if end < 0:
        return _long_line(fd, offset, data, largest)
    lines: list[Line] = []
    start = 0
    while start <= end and len(lines) < MOST_LINES:
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
    def digest(start: int, length: int) -> str:
        return _sha(masked(os.pread(fd, length, start) if length else b"", start, place.blank))

    return (
        digest(0, place.head_len) == place.head_sha
        and digest(place.offset - place.last_len, place.last_len) == place.last_sha
    )


def stand_at(path: Path, offset: int, here: Place, blank: Ranges = ()) -> Place:
    """The place `here` moved to `offset` of the file at `path`, where these bytes are to be blank."""
    with reading(path) as file:
        return here.standing_at(offset, *_windows(file.fileno(), offset), blank)


def _windows(fd: int, offset: int) -> tuple[bytes, bytes]:
    length = min(offset, WINDOW)
    return os.pread(fd, length, 0), os.pread(fd, length, offset - length)


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


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
    """Overwrite what is to be blank and append, under the append lock, when the tail stands at the end of the file.

    The new place, on disk; None when there is something unread (read it, then come again), or when others wrote
    around our lines without the lock (the tail then reads ours like any other).
    """
    with line_format.holding(lock):
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            size = 0
        if size < here.offset or (size != here.offset and not _only_unfinished(path, here.offset)):
            return None
        if not overwrite_held(path, here):
            return None
        if not lines:
            return replace(here, blank=())
        end = line_format.append_held(path, lines)
        if end - len(lines) != here.offset or not continues(path, replace(here, blank=())):
            return None
        return stand_at(path, end, here)


def overwrite_held(path: Path, here: Place) -> bool:
    """Overwrite what is to be blank, under the append lock. False when the file is not the one that `here` is in, and
    then it is as it was."""
    if not here.blank:
        return True
    # Not for appending: then Linux would write at the end, whatever offset is given.
    fd = open_regular(path, os.O_RDWR)
    try:
        if not _continues(fd, here):
            return False
        for first, behind in here.blank:
            for at in range(first, behind, CHUNK):
                data = os.pread(fd, min(CHUNK, behind - at), at)
                if data != blanked(data):
                    os.pwrite(fd, blanked(data), at)
        os.fsync(fd)
    finally:
        os.close(fd)
    return True


def _only_unfinished(path: Path, offset: int) -> bool:
    """Is all that is unread one line without an end? Then waiting for it would keep everybody waiting."""
    with reading(path) as file:
        file.seek(offset)
        while data := file.read(1 << 20):
            if b"\n" in data:
                return False
    return True
