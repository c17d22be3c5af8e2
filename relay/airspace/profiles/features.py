"""What the calibrated profile needs of one working set, made once for all its pairs.

Invariant: a sketch depends on its working set alone and is kept by the set's identity, so a scan of n agents makes
n of them, not n^2. Sums that a pair needs are here; nothing is searched twice.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from relay.airspace.identity_cache import IdentityCache
from relay.airspace.profiles import calibration
from relay.model.working_set import Change, FileTouch, WorkingSet


def folder(path: str) -> str:
    """The directory of a path; empty at the root."""
    return path.rpartition("/")[0]


def parents(path: str) -> Iterator[str]:
    """Every directory above a path, the nearest first."""
    while path := folder(path):
        yield path


@dataclass(frozen=True)
class Sketch:
    """`files` by base path; `activity`: the greatest recency weight, 1 for work of this moment."""

    files: dict[str, FileTouch]
    intent: dict[str, FileTouch]
    activity: float

    @cached_property
    def targets(self) -> dict[str, str]:
        """New path of a rename -> the old one."""
        return {
            touch.new_path: path for path, touch in self.files.items() if touch.new_path not in {None, path}
        }

    @cached_property
    def created(self) -> frozenset[str]:
        """Paths that stand where nothing stood."""
        added = (path for path, touch in self.files.items() if touch.change is Change.ADDED)
        return frozenset(added) | self.targets.keys()

    @cached_property
    def folders(self) -> frozenset[str]:
        """Directories that must be directories for this work."""
        return frozenset(up for path in self.created for up in parents(path))

    @cached_property
    def left(self) -> dict[str, str]:
        """Directories that this work renames as a whole, as far as it shows -> where to. Git takes one for renamed
        when all of its files are gone and some of them stand in another (git-merge, "directory rename")."""
        gone: dict[str, str] = {}
        for new, old in self.targets.items():
            if folder(old) and folder(old) != folder(new):
                gone.setdefault(folder(old), folder(new))
        standing = (path for path, touch in self.files.items() if touch.change is Change.MODIFIED)
        for path in (*standing, *self.created):
            for up in parents(path):
                gone.pop(up, None)
        return gone

    @cached_property
    def hunks(self) -> int:
        return sum(len(touch.lines) for touch in self.files.values())

    @cached_property
    def modified(self) -> int:
        return sum(touch.change is Change.MODIFIED for touch in self.files.values())

    @cached_property
    def commits(self) -> int:
        """Commits on all its paths, each among the mainline's last 100."""
        return sum(touch.churn or 0 for touch in self.files.values())

    # The logarithms that the hazards of its pairs depend on, log(1 + n).

    @cached_property
    def log_files(self) -> float:
        return math.log1p(len(self.files))

    @cached_property
    def log_hunks(self) -> float:
        return math.log1p(self.hunks)

    @cached_property
    def log_modified(self) -> float:
        return math.log1p(self.modified)

    @cached_property
    def log_commits(self) -> float:
        return math.log1p(self.commits)

    @cached_property
    def exposure(self) -> dict[str, float]:
        """How much each file invites the other side: weight x (1 + commits among the last 100)^power."""
        power = calibration.CHURN_COMMITS
        return {
            path: touch.weight * (1.0 + (touch.churn or 0)) ** power for path, touch in self.files.items()
        }

    @cached_property
    def exposed(self) -> float:
        return sum(self.exposure.values())

    @cached_property
    def exposed_in(self) -> dict[str, float]:
        """The sum of exposures by directory."""
        sums: defaultdict[str, float] = defaultdict(float)
        for path, amount in self.exposure.items():
            sums[folder(path)] += amount
        return sums


_sketches: IdentityCache[WorkingSet, Sketch] = IdentityCache(4096)


def sketch(working: WorkingSet) -> Sketch:
    """The sketch of a working set. A path that comes twice has the lines of both, and the greater weight."""
    return _sketches.get(working, _made)


def _made(working: WorkingSet) -> Sketch:
    activity = max((touch.weight for touch in working.files), default=0.0)
    return Sketch(_by_path(working.files), _by_path(working.intent), activity)


def _by_path(touches: tuple[FileTouch, ...]) -> dict[str, FileTouch]:
    by_path: dict[str, FileTouch] = {}
    for touch in touches:
        before = by_path.get(touch.path)
        by_path[touch.path] = touch if before is None else _both(before, touch)
    return by_path


def _both(touch: FileTouch, other: FileTouch) -> FileTouch:
    """One file from two sources: what git says of it (anything but M) stands before what a tool says."""
    main, more = (other, touch) if touch.change is Change.MODIFIED else (touch, other)
    lines = main.lines + more.lines if main.lines and more.lines else main.lines or more.lines
    return replace(main, lines=tuple(dict.fromkeys(lines)), weight=max(touch.weight, other.weight))
