"""Two working sets laid over each other: what the calibrated profile and its fit read of a pair.

Invariant: what is here is there for both orders of the sides, with a's side first; only base paths that both
change are compared. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from relay.airspace.profiles.features import Sketch, sketch
from relay.airspace.profiles.path_conflicts import PathClash, path_clashes
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
    """Both sketches with all that they share; the fit reads the same one."""

    a: Sketch
    b: Sketch
    shared: tuple[Shared, ...]
    paths: tuple[PathClash, ...]

    @classmethod
    def of(cls, a: WorkingSet, b: WorkingSet) -> Together:
        one, other = sketch(a), sketch(b)
        common = one.files.keys() & other.files.keys()
        shared = tuple([_shared(path, one, other) for path in sorted(common)])
        return cls(one, other, shared, path_clashes(one, other))

    @property
    def clashes(self) -> bool:
        return bool(self.paths) or any(one.met.clash is not None for one in self.shared)


def _shared(path: str, one: Sketch, other: Sketch) -> Shared:
    a, b = one.files[path], other.files[path]
    return Shared(path, a, b, meeting(a, b))
