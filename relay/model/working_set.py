"""What an agent has in hand: the state of an agent in code-space (000, section 1, equation 1).

Invariant: paths are relative to the repository, with `/`; line ranges are in the coordinates of the base (the
text before the agent's change), so that two working sets can be compared. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

#: Half-life of an edit's weight in seconds, and the floor it decays to (issue "The airspace": w = 0.15 + 0.85 x
#: 0.5^(age / half-life); the document, 000 section 1, only asks that older edits decay toward a floor).
HALF_LIFE_S = 1800.0
FLOOR = 0.15
#: Steps of a half-life in which weights fade, 1.1 % at most in each. Chosen.
STEPS = 60


class Change(StrEnum):
    """What was done to a file, with git's letters."""

    ADDED = "A"
    MODIFIED = "M"
    DELETED = "D"
    RENAMED = "R"


#: Two agents by name, in order.
Pair = tuple[str, str]


def pair_of(a: str, b: str) -> Pair:
    return (a, b) if a < b else (b, a)


@dataclass(frozen=True, slots=True)
class Span:
    """Lines `start`..`end` of the base, 1-based and inclusive; `end == start - 1` is an insertion before `start`.

    `new_count`: lines it became, None = unknown. `checksum` of the new content: equal content has equal
    checksums, None = unknown. `unit`: first line of the definition around it, 0 = none, None = unknown.
    """

    start: int
    end: int
    new_count: int | None = None
    checksum: int | None = None
    unit: int | None = None


@dataclass(frozen=True, slots=True)
class FileTouch:
    """One file of a working set. `lines` empty: the whole file, as far as anybody knows.

    `path` is the base's (the old one of a rename), `new_path` the new one of a rename. `weight` in (0, 1].
    `churn`: commits among the mainline's last 100 that touched the path. `length`: lines in the base. `locked`: it is
    meant because the agent holds a lock on it.
    """

    path: str
    change: Change = Change.MODIFIED
    lines: tuple[Span, ...] = ()
    weight: float = 1.0
    new_path: str | None = None
    binary: bool = False
    churn: int | None = None
    length: int | None = None
    locked: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        """Both sides of a rename, else the one path."""
        return (self.path,) if self.new_path is None else (self.path, self.new_path)


@dataclass(frozen=True, slots=True)
class WorkingSet:
    """W_a of one agent or person.

    `files`: what was changed; `intent`: what it says it is about to touch (look-ahead: a traffic advisory at
    most). `started_at`: Unix seconds, 0 = unknown. `committed`: the work that counts for right-of-way (live:
    files in commits since the merge base; in a scenario: the sum of the weights).
    """

    agent: str
    files: tuple[FileTouch, ...] = ()
    intent: tuple[FileTouch, ...] = ()
    started_at: float = 0.0
    committed: float = 0.0


def recency(age_s: float, half_life_s: float = HALF_LIFE_S) -> float:
    """The weight w in (0, 1] of an edit that is `age_s` seconds old."""
    return FLOOR + (1.0 - FLOOR) * math.exp2(-max(0.0, age_s) / half_life_s)


def moment(now: float, half_life_s: float = HALF_LIFE_S) -> float:
    """The time (Unix seconds) that weights are of at `now`: that of the last step. All weights fade at once. Between
    two steps the sets of work that stands still are equal, so nothing is measured anew."""
    return now - now % (half_life_s / STEPS)


def all_paths(files: Iterable[FileTouch]) -> frozenset[str]:
    """Every path that these touch, both sides of renames."""
    return frozenset(path for file in files for path in file.paths)


def could_collide(
    touched: Mapping[str, Collection[str]], moved: Collection[str] = ()
) -> list[tuple[str, str]]:
    """The pairs that touch one path, or of which the one touches a path inside what is a file of the other's; and of
    those that renamed something (`moved`) all: it may be a folder. No other pair can conflict."""
    by_path: dict[str, set[str]] = {}
    for name, paths in touched.items():
        for path in paths:
            by_path.setdefault(path, set()).add(name)
    pairs: set[tuple[str, str]] = set()
    for path, names in by_path.items():
        above = [path[:at] for at, char in enumerate(path) if char == "/"]
        near = names.union(*(by_path[folder] for folder in above if folder in by_path))
        pairs |= {(a, b) for a in near for b in near if a < b}
    pairs |= {(min(a, b), max(a, b)) for a in moved for b, paths in touched.items() if a != b and paths}
    return sorted(pairs)


def joined(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Ranges of lines (first, last) as disjoint ones in order; what overlaps or follows on becomes one."""
    spans: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if spans and start <= spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    return tuple(spans)
