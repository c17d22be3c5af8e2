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
class Common:
    """What both have in common, whatever its weights. `met`: the base paths that both change, with how git sees them
    meet; `folders`: the directories in which both work, in an order that is the same for both sides and at every run;
    `paths`: the clashes that are about paths and not about lines."""

    met: tuple[tuple[str, Meeting], ...]
    folders: tuple[str, ...]
    paths: tuple[Evidence, ...]

    @classmethod
    def of(cls, a: Sketch, b: Sketch) -> Common:
        paths = sorted(a.files.keys() & b.files.keys())
        met = [(path, meeting(a.files[path], b.files[path])) for path in paths]
        folders = sorted(a.exposed_in.keys() & b.exposed_in.keys())
        return cls(tuple(met), tuple(folders), path_clashes(a, b))

    @property
    def clashes(self) -> bool:
        return bool(self.paths) or any([met.clash is not None for _, met in self.met])


@dataclass(frozen=True, slots=True)
class Together:
    """Both sketches with all that they share."""

    a: Sketch
    b: Sketch
    shared: tuple[Shared, ...]
    common: Common

    @classmethod
    def of(cls, a: WorkingSet, b: WorkingSet) -> Together:
        mine, theirs = sketch(a), sketch(b)
        common = Common.of(mine, theirs)
        shared = [Shared(path, mine.files[path], theirs.files[path], met) for path, met in common.met]
        return cls(mine, theirs, tuple(shared), common)
