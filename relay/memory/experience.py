"""An experience: what happened, how it came out, and what it taught; and how two tellings of one are joined.

Invariant: joining loses nothing. Lessons, tags and details keep every distinct value in the order in which they came;
an outcome that a later one replaces stays among the details.

Pure: no clock, no I/O. (004, "Episodic Memory": merge "rather than create duplicates".)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

#: Characters of an experience that are found by words; what is longer is kept, but found by its beginning.
MOST_INDEXED = 65_536
#: Characters of a name that is parted at its humps; what is longer is no name that anybody wrote.
MOST_NAME = 64
_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[^\W_A-Z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][^\W\d_A-Z])")


@dataclass(frozen=True, slots=True)
class Experience:
    """What `remember` was given. `details` are JSON values, each once."""

    event_type: str
    summary: str
    details: tuple[Any, ...] = ()
    outcome: str | None = None
    lessons: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    def joined(self, later: Experience) -> Experience:
        """This one with what a later telling adds."""
        outcome = self.outcome if later.outcome is None else later.outcome
        replaced = [{"outcome": self.outcome}] if self.outcome not in (None, outcome) else []
        return replace(
            self,
            details=distinct([*self.details, *replaced, *later.details]),
            outcome=outcome,
            lessons=tuple(dict.fromkeys([*self.lessons, *later.lessons])),
            tags=tuple(dict.fromkeys([*self.tags, *later.tags])),
        )

    def content(self) -> str:
        """The experience as a text to read."""
        lines = [self.summary]
        if self.outcome is not None:
            lines.append(f"Outcome: {self.outcome}")
        lines += [f"Lesson: {lesson}" for lesson in self.lessons]
        if self.details:
            lines.append(f"Details: {'; '.join(_shown(value) for value in self.details)}")
        return "\n".join(lines)

    def words(self) -> str:
        """The text by which it is found; `getUser` is found as `get user` too."""
        text = "\n".join([self.event_type, self.content(), *self.tags])[:MOST_INDEXED]
        humps = dict.fromkeys(humped(word) for word in _WORD.findall(text) if is_humped(word))
        return "\n".join([text, *humps])

    def columns(self) -> dict[str, Any]:
        """The values of the table's columns."""
        lists = {"details": self.details, "lessons": self.lessons, "tags": self.tags}
        encoded = {name: json.dumps(value, ensure_ascii=False) for name, value in lists.items()}
        return encoded | {"event_type": self.event_type, "summary": self.summary, "outcome": self.outcome}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Experience:
        details, lessons, tags = (tuple(json.loads(row[name])) for name in ("details", "lessons", "tags"))
        return cls(row["event_type"], row["summary"], details, row["outcome"], lessons, tags)


def distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    """Each JSON value once, the first of equal ones; 1, 1.0 and true are three."""
    values_by_json: dict[str, Any] = {}
    for value in values:
        values_by_json.setdefault(json.dumps(value, sort_keys=True), value)
    return tuple(values_by_json.values())


def humped(word: str) -> str:
    """`getUserName` as `get User Name`."""
    return _HUMP.sub(" ", word)


def is_humped(word: str) -> bool:
    return len(word) <= MOST_NAME and _HUMP.search(word) is not None


def as_details(value: Any) -> Sequence[Any]:
    """What `details` says, as a list of values: nothing is none, and a list each of its entries."""
    if value is None:
        return ()
    return value if isinstance(value, list) else [value]


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
