"""What a lock can be about: a path, a pattern, or a logical key, each in one spelling.

Invariants:
- two spellings of one path have the same `kind` and `key`: NFC, `./a`, `a//b`, `x/../a`, and its letters' case
  where the file system folds it;
- nothing leads out of the root of the repository, nothing is empty, nothing holds a control character, nor one that
  turns the reading order around, by which a path would be shown as another (joiners, which scripts need, are none);
- `path`, given again, is the same target.

A *logical key* is `word:rest`: a letter, then letters, digits, `_`, `+`, `.` or `-` (two characters at least, so that
`C:` is a drive and refused), a colon, and something behind it that is not empty; with a `/` or a wildcard before the
colon it is a path (`./api:x`, `src/a:b.py`). A key is compared as it is, by case and by accents too.

Pure. (docs/coordination.md, "Locks".)
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from relay.coordination.paths import patterns
from relay.coordination.paths.overlap import overlaps
from relay.coordination.paths.patterns import MAGIC, BadPattern
from relay.model import Fault, Refusal

Kind = Literal["path", "glob", "key"]
#: PATH_MAX of macOS, in bytes; and less than the 2,704 that an entry of an index of PostgreSQL can hold.
MAX_BYTES = 1024
#: NAME_MAX of Linux and macOS, in bytes.
MAX_NAME_BYTES = 255
#: Targets of one request.
MAX_TARGETS = 256

#: The characters with Bidi_Control (Unicode, PropList.txt; UAX 9): a name with one is shown as another, so it is
#: next to always an attack ("Trojan Source", CVE-2021-42574).
TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_+.-]+:.+", re.DOTALL)
_DRIVE = re.compile(r"[A-Za-z]:")


@dataclass(frozen=True, slots=True)
class Target:
    """Something that can be locked. `path` as it is shown, `key` as it is compared; `base`: of a glob the folder
    before its first wildcard ('' = the root), None of others."""

    kind: Kind
    key: str
    path: str
    base: str | None = None

    @property
    def ids(self) -> dict[str, str]:
        """What tells it from others, as statements name it."""
        return {"kind": self.kind, "key": self.key}

    def meets(self, kind: str, key: str) -> bool:
        """Is there anything that both are about?"""
        return overlaps(self.kind, self.key, kind, key)


@lru_cache(maxsize=4096)
def target(text: str, fold: bool = False) -> Target:
    """What an agent means by `text`. `fold`: the file system folds case. Raises Refusal (malformed)."""
    _check_text(text)
    if is_key(text):
        return Target("key", text, text)
    return _path(text, unicodedata.normalize("NFC", text), fold)


def is_key(text: str) -> bool:
    """Is it a logical key, and no path?"""
    return _KEY.fullmatch(text) is not None


def file(text: str, fold: bool = False) -> Target:
    """The file of that name, as git or a tool names it: no character of it is a wildcard, and it is no key."""
    _check_text(text)
    return _path(text, escaped(unicodedata.normalize("NFC", text)), fold)


def targets(texts: Iterable[str], fold: bool = False) -> tuple[Target, ...]:
    """Several, each once, in the order given. Raises Refusal (malformed)."""
    once: dict[tuple[str, str], Target] = {}
    weight = 0
    for text in _checked(texts):
        meant = target(text, fold)
        if once.setdefault((meant.kind, meant.key), meant) is meant:
            weight += patterns.weight_of(meant.kind, meant.key)
        if weight > patterns.MAX_REQUEST_WEIGHT:
            most = f"{patterns.MAX_REQUEST_WEIGHT:,} names and wildcard characters"
            message = f"The patterns of this request are too large together: the limit is {most} in all."
            fix = "Name folders, or wider patterns, or ask in several requests."
            raise Refusal(message, fix, Fault.MALFORMED, "bad_path")
    if not once:
        raise Refusal("No path was given.", "Give at least one path.", Fault.MALFORMED, "bad_path")
    if len(once) > MAX_TARGETS:
        message = f"{len(once)} paths were given; the limit is {MAX_TARGETS} at once."
        raise Refusal(message, "Name a folder or a pattern.", Fault.MALFORMED, "bad_path")
    return tuple(once.values())


def _checked(texts: Iterable[str]) -> Iterable[str]:
    if isinstance(texts, str):
        raise malformed(texts, "expected a list of paths", "Give a list.")
    for text in texts:
        if not isinstance(text, str):
            raise malformed(repr(text), "it is not text", "Give paths as text.")
        yield text


def named(refused: Refusal, root: Path | None) -> Refusal:
    """The refusal of an absolute path that lies in the repository, with the path to give; else as it was."""
    path = str(refused.details.get("file_path", ""))
    inside = path.removeprefix(f"{root}/").strip("/") if root and path.startswith(f"{root}/") else ""
    if not inside:
        return refused
    fix = f'Give "{inside}".'
    return Refusal(str(refused.message), fix, refused.fault, refused.code, details=refused.details)


def above(path: str) -> list[str]:
    """The path and the folders that it is in, without the root."""
    names = path.split("/") if path else []
    return ["/".join(names[:count]) for count in range(1, len(names) + 1)]


def unfit(char: str) -> bool:
    """A character that no lock's path has: a control character, or one that turns the reading order around."""
    return char in TURNING or unicodedata.category(char) == "Cc"


def escaped(path: str) -> str:
    """The text that means this very path."""
    return re.sub(r"([*?{}\\])", r"\\\1", path)


def folded(text: str) -> str:
    """The text as a file system compares it that folds case: character by character, so `?` stays one."""
    return "".join(_fold(char) for char in text)


def _fold(char: str) -> str:
    whole = char.casefold()
    return whole if len(whole) == 1 else char


def _check_text(text: str) -> None:
    if not isinstance(text, str):
        raise malformed(repr(text), "it is not text", "Give the path as text.")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise malformed(ascii(text), "it is not valid Unicode", "Give the path as UTF-8 text.") from None
    if size > MAX_BYTES:
        raise malformed(text, f"it has {size} bytes; the limit is {MAX_BYTES}", "Lock a folder above it.")
    bad = next((char for char in text if unfit(char)), None)
    if bad in TURNING:
        why = f"it has U+{ord(bad):04X} ({unicodedata.name(bad)}), which makes it look like another path"
        raise malformed(text, why, "Give the path without it, and rename a file that has it.")
    if bad is not None:
        raise malformed(text, f"it has a control character, U+{ord(bad):04X}", "Give the path without it.")


def _path(text: str, pattern: str, fold: bool) -> Target:
    if not pattern.strip():
        raise malformed(text, "it is empty", "Give a path relative to the root of the repository.")
    if pattern.startswith("/"):
        raise malformed(text, "it is absolute", "Give it relative to the root of the repository.")
    if _DRIVE.match(pattern):
        raise malformed(text, "it begins with a drive", "Give it relative to the root of the repository.")
    try:
        shown = patterns.parse(pattern)
        compared = patterns.parse(folded(pattern)) if fold else shown
    except BadPattern as bad:
        raise malformed(text, str(bad), bad.fix) from None
    names = (name for names in shown.alternatives for name in names if isinstance(name, str))
    if any(len(name.encode()) > MAX_NAME_BYTES for name in names):
        why = f"a name in it has more than {MAX_NAME_BYTES} bytes"
        raise malformed(text, why, "No file has such a name.")
    path = shown.literal
    key = compared.literal
    if path is None or key is None:
        return Target("glob", compared.text, shown.text, compared.base)
    return Target("path", key, _shown(path))


def _shown(path: str) -> str:
    """The path in its shortest spelling that means this path."""
    if _KEY.fullmatch(path) or _DRIVE.match(path):
        return f"./{escaped(path)}"
    if not MAGIC.intersection(path):
        return path
    try:
        plain = patterns.parse(path).literal == path
    except BadPattern:
        plain = False
    return path if plain else escaped(path)


def malformed(text: str, why: str, fix: str) -> Refusal:
    """The refusal of a text that no lock can be about."""
    shown = text if len(text) <= 100 else text[:99] + "\u2026"
    message = f"{shown!r} cannot be locked: {why[:1].lower()}{why[1:].rstrip('.')}."
    return Refusal(message, fix, Fault.MALFORMED, "bad_path", details={"file_path": text[:MAX_BYTES]})
