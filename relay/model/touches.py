"""What was done to files: of each path, the content before and after it.

Invariants: a touch is about one path, so a fold over touches needs nothing else; a rename is two of them (the old
path goes, the new one comes). `Touch.of_json(touch.as_json()) == touch`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


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


def paths_of(touches: Iterable[Touch]) -> list[str]:
    """Every path, once, in order."""
    return sorted({touch.path for touch in touches})
