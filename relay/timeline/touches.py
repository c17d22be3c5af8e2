"""What an event did to files: of each path, the content before and after it.

Invariants: a touch is about one path, so a fold over touches needs nothing else; a rename is two of them (the old
path goes, the new one comes). `Touch.of_json(touch.as_json()) == touch`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from relay.git.diff import Record
from relay.git.run import name_of
from relay.model.working_set import Change

#: The types of the events that say so.
CHANGED, READ = "files.changed", "files.read"


class Kind(StrEnum):
    """What was done to the path."""

    WRITE = "write"
    DELETE = "delete"
    RENAME = "rename"
    MODE = "mode"


class Source(StrEnum):
    """How it became known: the agent's tool said so, a guard hook, the trees before and after, or a person did it."""

    TOOL = "tool"
    HOOK = "hook"
    TREE = "tree"
    PERSON = "person"


@dataclass(frozen=True, slots=True)
class Touch:
    """`path` is relative to the top of the repository, with `/`. `before` and `after` are git's blob ids, None = the
    path was not there. A change of the mode alone has the same id in both. `origin`: the old path, on the new path
    of a rename."""

    path: str
    before: str | None
    after: str | None
    kind: Kind
    origin: str | None = None

    def as_json(self) -> dict[str, Any]:
        """`{path, before, after, kind, from?}`."""
        value = {"path": self.path, "before": self.before, "after": self.after, "kind": self.kind.value}
        return value if self.origin is None else {**value, "from": self.origin}

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> Touch:
        kind = Kind(value["kind"])
        return cls(value["path"], value["before"], value["after"], kind, value.get("from"))


def touches_of(records: Iterable[Record]) -> list[Touch]:
    """The touches of two trees' difference, by path. Submodules are commits of other repositories and left out."""
    touches: list[Touch] = []
    for record in records:
        if record.is_submodule:
            continue
        path, before, after = name_of(record.path), _blob(record.old), _blob(record.new)
        if record.change is Change.RENAMED and record.new_path is not None:
            touches.append(Touch(path, before, None, Kind.RENAME))
            touches.append(Touch(name_of(record.new_path), None, after, Kind.RENAME, origin=path))
        elif after is None:
            touches.append(Touch(path, before, None, Kind.DELETE))
        else:
            same = before == after and record.old_mode != record.new_mode
            touches.append(Touch(path, before, after, Kind.MODE if same else Kind.WRITE))
    return sorted(touches, key=lambda touch: touch.path)


def _blob(name: str) -> str | None:
    return None if not name.strip("0") else name


def paths_of(touches: Sequence[Touch]) -> list[str]:
    """Every path, once, in order."""
    return sorted({touch.path for touch in touches})
