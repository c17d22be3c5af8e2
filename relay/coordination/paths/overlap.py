"""Whether two locks are about something in common, and whether one pattern lies in another.

Invariants:
- a pattern stands for the paths that it matches and everything below them (`stands_for`);
- two overlap when there is a path that both stand for. A name with an extension (`app.py`, `*.md`) is a folder only
  if the other goes on below it and says so: by that very name or by one with an extension. Else `**/*.md` would
  overlap every path, which might be a folder;
- this is decided exactly, by walking the product of the two automata: name by name and, where a name has wildcards,
  character by character;
- so a pattern that stands for a file always overlaps the file's path: what the guard refuses, nobody else acquires;
- where one `contains` another, that is certain. A no may be wrong where only several alternatives together, or a look
  ahead, would show it; then a lease that is over stays on record, and its holder is told once more than it had to be.

Pure. (docs/coordination.md, "Locks".)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeVar

from relay.coordination.paths.patterns import ANY, FOLDERS, STAR, Name, alternatives_of

S = TypeVar("S")
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
    others = alternatives_of(b_kind, b_key)
    return any(_meet(a, b) for a in alternatives_of(a_kind, a_key) for b in others)


#: How a shape says any characters and one character; no path has them.
_SHAPED = {STAR: "\x01", ANY: "\x02"}


@lru_cache(maxsize=4096)
def shape(kind: str, key: str) -> str:
    """What `overlaps` compares, as JSON, for a database that compares by itself: each alternative with its `names`,
    in which U+0001 stands for any characters and U+0002 for one, and whether it is a `file`."""
    if kind == "key":
        return "[]"

    def shaped(name: Name) -> str:
        return "".join(_SHAPED[char] if isinstance(char, int) else char for char in name)

    alternatives = alternatives_of(kind, key)
    return json.dumps(
        [{"names": list(map(shaped, names)), "file": is_file(names[-1])} for names in alternatives]
    )


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
    return any(_leads_to(pattern, names) for pattern in alternatives_of("glob", key))


def _each_once(states: list[S]) -> Iterator[S]:
    """Each state of a walk, with those that are appended meanwhile."""
    seen: set[S] = set()
    while states:
        state = states.pop()
        if state not in seen:
            seen.add(state)
            yield state


def _leads_to(pattern: Sequence[Name], names: Sequence[str]) -> bool:
    waiting = [(0, 0)]
    for i, j in _each_once(waiting):
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
    waiting = [(0, 0)]
    for i, j in _each_once(waiting):
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
    waiting = [(0, 0, _NOTHING)]
    for i, j, read in _each_once(waiting):
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
        # Where both take any character, it is enough to try one that is no dot.
        now = min(read + 1, _NAME) if char == "." and read < _NAME else _NAME
        waiting.append((i if x == STAR else i + 1, j if y == STAR else j + 1, now))
    return False


@lru_cache(maxsize=4096)
def contains(whole: str, part: str) -> bool:
    """Does the one pattern certainly stand for every file that the other one stands for?"""
    wide = alternatives_of("glob", whole)
    return all(any(_holds(a, b) for a in wide) for b in alternatives_of("glob", part))


def _holds(a: Sequence[Name], b: Sequence[Name]) -> bool:
    """From the ends on: does what is left of `a` hold what is left of `b`? `below`: the answers for one more of `a`,
    by how much of `b` was read. At its end `a` stands for everything below; `b` at its own for itself, too."""
    below = [True] * (len(b) + 1)
    for name in reversed(a):
        here = [name == FOLDERS and below[len(b)]] * (len(b) + 1)
        for j in range(len(b) - 1, -1, -1):
            if name == FOLDERS:
                here[j] = below[j] or here[j + 1]
            elif b[j] == FOLDERS:  # no folder, or any one and as many again
                here[j] = here[j + 1] and _name_holds(name, (STAR,)) and below[j]
            else:
                here[j] = _name_holds(name, b[j]) and below[j + 1]
        below = here
    return below[0]


def _name_holds(x: Name, y: Name) -> bool:
    """Is each name that `y` can be one that `x` can be? The same, a character a step."""
    if isinstance(x, str) and isinstance(y, str):
        return x == y
    below = [False] * len(y) + [True]
    for char in reversed(x):
        here = [char == STAR and below[len(y)]] * (len(y) + 1)
        for j in range(len(y) - 1, -1, -1):
            if char == STAR:
                here[j] = below[j] or here[j + 1]
            else:
                here[j] = y[j] != STAR and (char in (ANY, y[j])) and below[j + 1]
        below = here
    return below[0]
