"""Whether one pattern lies in another: what a lease that is over is covered by when its holder takes more.

Invariant: a yes is certain. A no may be wrong where only several alternatives together, or a look ahead, would show
it; then what is over stays on record, and its holder is told that it is stale once more than it had to be.

Pure. (docs/coordination.md, "Locks".)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from relay.coordination.paths.patterns import ANY, FOLDERS, STAR, Name, alternatives_of


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
