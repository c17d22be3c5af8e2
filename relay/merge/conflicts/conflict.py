"""A conflict between two changes of one codebase, as a value (003, sections 6.1 to 6.3).

Invariant: a conflict is what was found, never what to do about it. Its id follows from what it says: the same two
changes give the same id, whoever looks and however often, and with the sides swapped too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

#: Files (git cannot merge them), one definition, definitions across files, behaviour (tests).
LEVELS = (1, 2, 3, 4)
#: Characters of a definition that a conflict quotes; the files have the rest.
MOST_TEXT = 8_000


class Severity(StrEnum):
    """How bad it is (003, section 6.3), the mildest first."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


SEVERITIES = tuple(Severity)

Place = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Side:
    """What one of the two did. `lane` and `event`: whose work it is and its last recorded write there, None = not
    recorded. `before`, `after`: at levels 2 and 3 the text of the definition that this side changed; at level 1 the
    ids of the file's contents, at level 4 of the commits; None = it is not there."""

    before: str | None = None
    after: str | None = None
    lane: str | None = None
    event: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {"lane": self.lane, "event": self.event, "before": self.before, "after": self.after}

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> Side:
        return cls(value["before"], value["after"], value["lane"], value["event"])


@dataclass(frozen=True, slots=True)
class Conflict:
    """`kind`: a word for what happened (`both_changed`). `path`, `entity`: of the definition that is changed; None =
    the file, or all. `base`: the commit that both sides started from, None = only texts were compared.
    `evidence`: sentences for a person. `state`: open or resolved."""

    level: int
    kind: str
    severity: Severity
    path: str | None
    entity: str | None
    a: Side
    b: Side
    evidence: tuple[str, ...] = ()
    base: str | None = None
    state: str = "open"
    #: Level 3: the path, first and last line of the definition that is changed, then of the one that relies on it.
    places: tuple[Place, ...] = ()

    @property
    def id(self) -> str:
        """16 hexadecimal digits of a hash of level, kind, place and both sides' texts."""
        sides = sorted([side.before or "", side.after or ""] for side in (self.a, self.b))
        said = json.dumps([self.level, self.kind, self.path, self.entity, sides])
        return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "level": self.level,
            "kind": self.kind,
            "severity": str(self.severity),
            "path": self.path,
            "entity": self.entity,
            "a": self.a.as_json(),
            "b": self.b.as_json(),
            "base": self.base,
            "evidence": list(self.evidence),
            "state": self.state,
        }

    @classmethod
    def of_json(cls, value: Mapping[str, Any], places: Iterable[Sequence[Any]] = ()) -> Conflict:
        """From the form of `as_json`, which has no `places`."""
        return cls(
            value["level"],
            value["kind"],
            Severity(value["severity"]),
            value["path"],
            value["entity"],
            Side.of_json(value["a"]),
            Side.of_json(value["b"]),
            tuple(value["evidence"]),
            value["base"],
            value["state"],
            tuple((str(path), int(first), int(last)) for path, first, last in places),
        )

    def named(self, a: str, b: str) -> Conflict:
        """With these names in place of A and B, with which each sentence of the evidence begins."""
        names = {"A": a, "B": b}
        said = (line.partition(" ") for line in self.evidence)
        evidence = (f"{names.get(first, first)}{gap}{rest}" for first, gap, rest in said)
        return replace(self, evidence=tuple(evidence))

    def swapped(self) -> Conflict:
        """As if the sides had been named the other way round."""
        return replace(self, a=self.b, b=self.a)


def worst_first(conflicts: Iterable[Conflict]) -> tuple[Conflict, ...]:
    """By severity, then level, file and name: what a person should read first."""
    return tuple(
        sorted(
            conflicts,
            key=lambda one: (
                -SEVERITIES.index(one.severity),
                one.level,
                one.path or "",
                one.entity or "",
                one.kind,
            ),
        )
    )


def quoted(text: str | None) -> str | None:
    """A definition's text as a conflict keeps it: its beginning, when it is long."""
    if text is None or len(text) <= MOST_TEXT:
        return text
    return text[:MOST_TEXT] + "..."
