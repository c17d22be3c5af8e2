"""The transcript's line: how an entry is written, how a line is read, how it gets into the file.

Invariant: an entry is exactly one line, `[SPEAKER] {json}`, whatever its body holds. JSON keeps the body's
newlines escaped, and the characters that some program takes for a line's end (U+0085, U+2028, U+2029), that
steer a terminal (C0, DEL, C1) or that turn the reading order around are escaped too: `grep '^\\[CODEX\\]'`
finds what CODEX said and nothing else, and a `tail -f` of the file is safe to look at. A line ends at b"\\n"
only: a reader splits on that, never with `splitlines`.

A line is read as one of three:
- `Entry`: tag and a JSON object with `id` and `body`. The tag decides who speaks; an object that names
  another speaker contradicts itself and is `Junk`, so is one with a field of the wrong type.
- `Plain`: tag and any other text, appended by hand. An object with neither `id` nor `body` is such a text.
- `Junk`: nothing that anybody said; the reason says why. A torn entry is here, never among the plain ones.

Reading never raises. `append` is the one writer: under a lock file that is never unlinked (who unlinks a lock
lets two hold it), one write, on a line of its own, on disk when it returns.
"""

from __future__ import annotations

import errno
import json
import os
import random
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn

from relay.base.files import open_regular, sync_folder
from relay.base.terminal_text import json_line
from relay.model import Kind, Message

#: The longest name, in characters.
MAX_SPEAKER = 64
#: Seconds that an append waits for the lock: its holders have it for milliseconds, but may be stopped.
LOCK_S = 15.0


class Reason(StrEnum):
    """Why a line is junk. BLANK and EMPTY say nothing and deserve no notice."""

    BLANK = "blank"
    EMPTY = "empty"
    NO_TAG = "no_tag"
    BAD_TAG = "bad_tag"
    TORN = "torn"
    BAD_FIELD = "bad_field"
    OTHER_SPEAKER = "other_speaker"


@dataclass(frozen=True, slots=True)
class Entry:
    """A line that a program wrote. `ts` is "" when it gives none; `id` a UUID in lower case.

    `damaged` is true where bytes that are no UTF-8 were replaced by U+FFFD.
    """

    id: str
    speaker: str
    kind: Kind
    body: str
    ts: str = ""
    in_reply_to: str | None = None
    to: tuple[str, ...] = ()
    job: int | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    damaged: bool = False


@dataclass(frozen=True, slots=True)
class Plain:
    """A line that a person appended by hand; `body` is not empty."""

    speaker: str
    body: str
    damaged: bool = False


@dataclass(frozen=True, slots=True)
class Junk:
    """A line that is no entry; `detail` is a sentence for the room's notice, without the line's text."""

    reason: Reason
    detail: str
    damaged: bool = False


Parsed = Entry | Plain | Junk

_SPEAKER = re.compile(rf"[^\s\[\]](?:[^\[\]]{{0,{MAX_SPEAKER - 2}}}[^\s\[\]])?")
_TAG = re.compile(r"\[([^\[\]\n]*)\](.*)", re.DOTALL)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def is_speaker(name: str) -> bool:
    """Can `name` stand in a tag? 1 to 64 printable characters, no brackets, no space at either end.

    Invisible characters are not printable: a name that only looks like another's is none.
    """
    return _SPEAKER.fullmatch(name) is not None and name.isprintable()


def encode(message: Message) -> bytes:
    """The line of `message`, with its newline; fields that are empty are left out.

    Raises ValueError when the speaker cannot stand in a tag or `meta` is not JSON. Lone surrogates, which no
    file can hold, become U+FFFD.
    """
    check_speaker(message)
    fields = {
        key: value
        for key, value in message.as_json().items()
        if key == "body" or (key not in _NOT_WRITTEN and value is not None and value not in ("", [], {}))
    }
    return f"[{message.speaker}] {json_line(fields, nan=False, separators=(', ', ': '))}\n".encode()


def check_speaker(message: Message) -> None:
    """Raises ValueError when the speaker cannot stand in a tag."""
    if not is_speaker(message.speaker):
        raise ValueError(f"{message.speaker!r} cannot be a speaker: {_SPEAKER_RULE}")


def decode(line: bytes) -> Parsed:
    """What one line says. `line` is the bytes between two b"\\n", with or without the last one."""
    damaged = False
    try:
        text = line.decode()
    except UnicodeDecodeError:
        text, damaged = line.decode(errors="replace"), True
    text = text.removeprefix("\ufeff").removesuffix("\n").removesuffix("\r")
    if not text or text.isspace():
        return Junk(Reason.BLANK, "The line is blank.", damaged)
    if "\n" in text:
        return Junk(Reason.BAD_FIELD, "These are several lines, not one.", damaged)
    tagged = _TAG.fullmatch(text)
    if tagged is None:
        return Junk(Reason.NO_TAG, "The line does not start with a [NAME] tag.", damaged)
    speaker, content = tagged[1].strip(), tagged[2].strip()
    if not is_speaker(speaker):
        return Junk(Reason.BAD_TAG, f"The line's tag is not a name: {_SPEAKER_RULE}.", damaged)
    if not content:
        return Junk(Reason.EMPTY, f"{speaker} said nothing.", damaged)
    if content[0] != "{":
        return Plain(speaker, content, damaged)
    try:
        fields = _JSON.decode(content)
    except (ValueError, RecursionError):
        # What starts as our own writer starts an entry was cut off; anything else in braces is prose.
        if content.startswith('{"id":'):
            return Junk(Reason.TORN, f"An entry of {speaker} is cut off or not JSON.", damaged)
        return Plain(speaker, content, damaged)
    if not isinstance(fields, dict) or not ("id" in fields or "body" in fields):
        return Plain(speaker, content, damaged)
    if _ESCAPED_SURROGATE.search(content):
        fields = _without_surrogates(fields)
    return _entry(speaker, fields, damaged)


def _entry(speaker: str, fields: dict[str, Any], damaged: bool) -> Entry | Junk:
    """The entry in a JSON object, each field checked for its type."""
    if fields.get("speaker", speaker) != speaker:
        return Junk(
            Reason.OTHER_SPEAKER, f"The tag says {speaker}, the entry names another speaker.", damaged
        )
    for key in ("id", "body"):
        if key not in fields:
            return Junk(Reason.BAD_FIELD, f"An entry of {speaker} has no {key}.", damaged)
    for key, value in fields.items():
        if not _fits(key, value):
            return Junk(
                Reason.BAD_FIELD, f"The field {key} of an entry of {speaker} has a wrong value.", damaged
            )
    return Entry(
        id=fields["id"].lower(),
        speaker=speaker,
        kind=_KINDS[fields.get("kind")],
        body=fields["body"],
        ts=fields.get("ts") or "",
        in_reply_to=fields.get("in_reply_to"),
        to=tuple(fields.get("to") or ()),
        job=fields.get("job"),
        meta=fields.get("meta") or {},
        damaged=damaged,
    )


_SPEAKER_RULE = f"1 to {MAX_SPEAKER} printable characters without [ ], and no space at either end"
_KINDS: dict[str | None, Kind] = {None: Kind.HUMAN} | {str(kind): kind for kind in Kind}
#: What an entry in the file has not got before the room has read it.
_NOT_WRITTEN = ("number", "cursor", "thread")


def _fits(key: str, value: Any) -> bool:
    """Has this field of an entry a value of its type? An unknown field may have any."""
    match key:
        case "id":
            return isinstance(value, str) and _UUID.fullmatch(value.lower()) is not None
        case "body":
            return isinstance(value, str)
        case _ if value is None:
            return True
        case "kind":
            return isinstance(value, str) and value in _KINDS
        case "ts" | "in_reply_to":
            return isinstance(value, str) and len(value) <= 64 and value.isprintable()
        case "to":
            return isinstance(value, list) and all(
                isinstance(name, str) and is_speaker(name) for name in value
            )
        case "job":
            return type(value) is int and 0 <= value < 1 << 63
        case "meta":
            return isinstance(value, dict)
        case _:
            return True


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(number: str) -> float:
    value = float(number)
    return value if value - value == 0 else _refuse(number)


# Python's JSON takes NaN and 1e999, which nobody could pass on as JSON again.
_JSON = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)


def _without_surrogates(value: Any) -> Any:
    """JSON can escape half a character, which neither a database nor a socket takes."""
    match value:
        case str():
            return _SURROGATE.sub("\ufffd", value)
        case list():
            return [_without_surrogates(item) for item in value]
        case dict():
            return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
        case _:
            return value


def lock_path(runtime: Path, transcript: Path) -> Path:
    """Where the append lock of `transcript` is: in the runtime folder (`.relay/`)."""
    return runtime / f"{transcript.name}.lock"


@contextmanager
def holding(lock: Path) -> Iterator[None]:
    """Hold the append lock; blocks until it is free, so not on the event loop. Not re-entrant. Raises OSError, after
    `LOCK_S` seconds too."""
    import portalocker  # 70 ms that a reader of the transcript need not spend

    _make_folder(lock.parent)
    with os.fdopen(open_regular(lock, os.O_RDWR | os.O_CREAT), "rb+") as file:
        give_up = time.monotonic() + LOCK_S
        while True:
            try:
                portalocker.lock(file, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)
                break
            except portalocker.AlreadyLocked:
                if time.monotonic() > give_up:
                    why = f"{lock.name} has been held by another program for more than {LOCK_S:g} s"
                    raise TimeoutError(errno.ETIMEDOUT, why) from None
            time.sleep(random.uniform(0.0005, 0.003))
        yield  # closing the file gives the lock back


def append(path: Path, lock: Path, lines: bytes) -> int:
    """Append whole lines to the transcript and return the offset of their end, once they are on disk.

    Blocks for the lock and for the disk: call it in a thread. Makes a missing folder (0700) and file (0600).
    Raises OSError (disk full, no permission), and then takes back what it had written of the lines.
    """
    with holding(lock):
        return append_held(path, lines)


def append_held(path: Path, lines: bytes) -> int:
    """`append` for a caller that holds the lock already."""
    if not lines.endswith(b"\n"):
        raise ValueError("lines to append must end with a newline")
    _make_folder(path.parent)
    while True:
        fd, is_new = _open(path)
        try:
            end = _write(fd, lines)
            os.fsync(fd)
            if is_new:
                sync_folder(path.parent)
            # An editor that saves by replacing the file takes no lock: what went to the file it has just
            # replaced would be lost, so it is appended to the new one (an id that is seen twice counts once).
            if _is_same(fd, path):
                return end
        finally:
            os.close(fd)


def _open(path: Path) -> tuple[int, bool]:
    flags = os.O_RDWR | os.O_APPEND
    with suppress(FileNotFoundError):
        return open_regular(path, flags), False
    return open_regular(path, flags | os.O_CREAT), True


def _write(fd: int, lines: bytes) -> int:
    """Write on a line of its own; the offset after it."""
    size = os.fstat(fd).st_size
    unfinished = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
    left = memoryview(b"\n" + lines if unfinished else lines)
    written = 0
    try:
        while left:
            count = os.write(fd, left)
            written, left = written + count, left[count:]
    except OSError:
        _take_back(fd, written, keep=1 if unfinished else 0)
        raise
    # With O_APPEND this is the true end of ours, even when somebody appended without the lock meanwhile.
    return os.lseek(fd, 0, os.SEEK_CUR)


def _take_back(fd: int, written: int, keep: int) -> None:
    """Remove a half-written line, unless somebody wrote after it.

    The newline before it stays: a reader may have read the line that it ends.
    """
    end = os.lseek(fd, 0, os.SEEK_CUR)
    if written > keep and os.fstat(fd).st_size == end:
        with suppress(OSError):
            os.ftruncate(fd, end - written + keep)


def _is_same(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _make_folder(folder: Path) -> None:
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
