"""Whether two locks are about something in common: two paths, patterns or keys.

Invariants:
- a pattern stands for the paths that it matches and everything below them (`stands_for`);
- two overlap when there is a path that both stand for. A name with an extension (`app.py`, `*.md`) is a folder only
  if the other goes on below it and says so: by that very name or by one with an extension. Else `**/*.md` would
  overlap every path, which might be a folder;
- this is decided exactly, by walking the product of the two automata: name by name and, where a name has wildcards,
  character by character;
- so a pattern that stands for a file always overlaps the file's path: what the guard refuses, nobody else acquires.

Pure. (docs/coordination.md, "Locks".)
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache

from relay.coordination.paths.patterns import ANY, FOLDERS, STAR, Name, alternatives_of

#: What an extension looks like, and those that folders have: of Debian's conventions, and of Apple's bundles.
EXTENSION = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,9}")
FOLDER_EXTENSIONS = frozenset(
    {"d", "git", "app", "bundle", "framework", "lproj", "xcassets", "xcodeproj", "xcworkspace"}
)


def overlaps(a_kind: str, a_key: str, b_kind: str, b_key: str) -> bool:
    """Is there anything that both locks are about? A `key` is about itself only."""
    # Of two locks either may be asked about first: one comparison says it of both.
    if (b_kind, b_key) < (a_kind, a_key):
        a_kind, a_key, b_kind, b_key = b_kind, b_key, a_kind, a_key
    return _overlaps(a_kind, a_key, b_kind, b_key)


@lru_cache(maxsize=65536)
def _overlaps(a_kind: str, a_key: str, b_kind: str, b_key: str) -> bool:
    if a_kind == "key" or b_kind == "key":
        return (a_kind, a_key) == (b_kind, b_key)
    one, other = alternatives_of(a_kind, a_key), alternatives_of(b_kind, b_key)
    return any(_meet(a, b) for a in one for b in other)


#: How a shape says any characters and one character; no path has them.
_SHAPED = {STAR: "\x01", ANY: "\x02"}


@lru_cache(maxsize=4096)
def shape(kind: str, key: str) -> str:
    """What `overlaps` compares, as JSON, for a database that compares by itself: each alternative with its `names`,
    in which U+0001 stands for any characters and U+0002 for one, and whether it is a `file`."""
    if kind == "key":
        return "[]"
    told = [
        {
            "names": [
                "".join(_SHAPED[char] if isinstance(char, int) else char for char in name) for name in names
            ],
            "file": is_file(names[-1]),
        }
        for names in alternatives_of(kind, key)
    ]
    return json.dumps(told)


def is_file(name: Name) -> bool:
    """Has the name an extension, so that it is a file where nobody says that it is a folder?"""
    dot = max((at for at, char in enumerate(name) if char == "."), default=0)
    tail = [char for char in name[dot + 1 :] if isinstance(char, str)]
    extension = "".join(tail)
    return (
        dot > 0
        and len(tail) == len(name) - dot - 1
        and EXTENSION.fullmatch(extension) is not None
        and extension.lower() not in FOLDER_EXTENSIONS
    )


@lru_cache(maxsize=16384)
def stands_for(key: str, file: str) -> bool:
    """Does the pattern stand for this file: does it match it, or a folder that it is in? Other than for `overlaps`,
    the path is no folder: `**/*.py` stands for no `README`, though a folder of that name may hold some."""
    names = file.split("/")
    return any(_leads_to(one, names) for one in alternatives_of("glob", key))


def _leads_to(pattern: Sequence[Name], names: Sequence[str]) -> bool:
    seen: set[tuple[int, int]] = set()
    waiting = [(0, 0)]
    while waiting:
        at = waiting.pop()
        if at in seen:
            continue
        seen.add(at)
        i, j = at
        if i == len(pattern):
            return True
        if pattern[i] == FOLDERS:
            waiting += [(i + 1, j), (i, j + 1)] if j < len(names) else [(i + 1, j)]
        elif j < len(names) and _names_meet(pattern[i], names[j]):
            waiting.append((i + 1, j + 1))
    return False


def _meet(a: Sequence[Name], b: Sequence[Name]) -> bool:
    """Walks both automata at once, a name a step. Where one is at its end, it stands for everything below, and what
    is left of the other can always be some path there; if it ends as a file, only where the other names a folder."""
    files = is_file(a[-1]), is_file(b[-1])
    seen: set[tuple[int, int]] = set()
    waiting = [(0, 0)]
    while waiting:
        at = waiting.pop()
        if at in seen:
            continue
        seen.add(at)
        i, j = at
        if i == len(a) or j == len(b):
            ended, left = (files[0], b[j:]) if i == len(a) else (files[1], a[i:])
            if not ended or all(name == FOLDERS for name in left):
                return True
        elif a[i] == FOLDERS or b[j] == FOLDERS:
            waiting += [(i, j + 1), (i + 1, j)]
        elif _names_meet(a[i], b[j]):
            if (i + 1 == len(a) and _is_named(b[j])) or (j + 1 == len(b) and _is_named(a[i])):
                return True
            waiting.append((i + 1, j + 1))
    return False


def _is_named(name: Name) -> bool:
    """Where more follows: does it say of a name with an extension that it is a folder?"""
    return isinstance(name, str) or is_file(name)


#: How much of a name was read, as far as it matters for `.` and `..`, which are no names: nothing, a dot, two dots,
#: anything else.
_NOTHING, _DOT, _DOTS, _NAME = range(4)


def _names_meet(a: Name, b: Name) -> bool:
    """Is there a name that both can be? The same walk, a character a step."""
    if isinstance(a, str) and isinstance(b, str):
        return a == b
    seen: set[tuple[int, int, int]] = set()
    waiting = [(0, 0, _NOTHING)]
    while waiting:
        at = waiting.pop()
        if at in seen:
            continue
        seen.add(at)
        i, j, read = at
        x, y = a[i] if i < len(a) else None, b[j] if j < len(b) else None
        if x is None and y is None and read == _NAME:
            return True
        if x == STAR:
            waiting.append((i + 1, j, read))
        if y == STAR:
            waiting.append((i, j + 1, read))
        if x is None or y is None or (isinstance(x, str) and isinstance(y, str) and x != y):
            continue
        char = x if isinstance(x, str) else y
        # Where both take any character, one that is no dot loses nothing.
        now = min(read + 1, _NAME) if char == "." and read < _NAME else _NAME
        waiting.append((i if x == STAR else i + 1, j if y == STAR else j + 1, now))
    return False
