"""Two working sets laid over each other: what the calibrated profile and its fit read of a pair.

Invariant: what is here is there for both orders of the sides, with a's side first; only base paths that both
change are compared. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from relay.airspace.profiles.features import Sketch, sketch
from relay.airspace.profiles.path_conflicts import path_clashes
from relay.airspace.readings import Evidence
from relay.git.hunks import Meeting, meeting
from relay.model.working_set import FileTouch, WorkingSet


@dataclass(frozen=True, slots=True)
class Shared:
    """A base path that both sides change."""

    path: str
    a: FileTouch
    b: FileTouch
    met: Meeting


@dataclass(frozen=True, slots=True)
class Together:
    """Both sketches with all that they share; `paths`: the clashes that are about paths and not about lines."""

    a: Sketch
    b: Sketch
    shared: tuple[Shared, ...]
    paths: tuple[Evidence, ...]

    @classmethod
    def of(cls, a: WorkingSet, b: WorkingSet) -> Together:
        mine, theirs = sketch(a), sketch(b)
        shared = []
        for path in sorted(mine.files.keys() & theirs.files.keys()):
            touch, other = mine.files[path], theirs.files[path]
            shared.append(Shared(path, touch, other, meeting(touch, other)))
        return cls(mine, theirs, tuple(shared), path_clashes(mine, theirs))

    @property
    def clashes(self) -> bool:
        return bool(self.paths) or any(file.met.clash is not None for file in self.shared)
