"""In which definition a place of a merge's conflict is, and how bad that is by what both sides do to the definition.

Invariant: pure. A place that is in several definitions has no name: nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from relay.merge.conflicts.conflict import Severity
from relay.merge.conflicts.entities import Entity, FileVersion, read_version
from relay.merge.conflicts.same_entity import same_entity
from relay.merge.text.lines import rows_with_ends


@dataclass
class PartNames:
    """Of one file in three versions: base, ours, theirs."""

    path: str
    texts: tuple[bytes, bytes, bytes]
    _versions: list[FileVersion | None] = field(init=False)
    _severities: dict[str, Severity] = field(init=False)

    def __post_init__(self) -> None:
        self._versions = [read_version(self.path, text) if text else None for text in self.texts]
        base, ours, theirs = (text or None for text in self.texts)
        found = same_entity(self.path, base, ours, theirs)
        self._severities = {one.entity: one.severity for one in found if one.entity}

    def of(self, places: Sequence[Sequence[int] | None]) -> tuple[str, Severity | None]:
        """The qualified name of the definition that a place is in, given its first and last line (from 1) in the
        three files: no line where the last is before the first, None = not known. The innermost around it; else the
        only one that it touches; else the only one of these that both sides change. "" = in none, or in several. The
        severity is that of level 2's conflict on it, None = there is none."""
        found = [
            _named(version, text, place)
            for version, text, place in zip(self._versions, self.texts, places, strict=True)
            if version is not None and place is not None
        ]
        named = next((name for name, _ in found if name), "")
        if not named:
            both = {one.qualified for _, touched in found for one in touched} & {*self._severities}
            named = next(iter(both)) if len(both) == 1 else ""
        if not named:
            return "", None
        outer = next((one for one in self._severities if f"{named}.".startswith(f"{one}.")), None)
        inner = next((one for one in self._severities if one.startswith(f"{named}.")), None)
        known = outer or inner
        return named, self._severities[known] if known else None


def _named(version: FileVersion, text: bytes, place: Sequence[int]) -> tuple[str, Sequence[Entity]]:
    """The definition that these lines of a version are in, "" = in none or in several, and all that they touch. Blank
    lines at the ends do not count."""
    first, last = place
    if last < first:
        touched = [one for one in version.found if one.start < first <= one.end]
    else:
        rows = rows_with_ends(text.decode("utf-8", "surrogateescape"))
        while first < last and not rows[first - 1].strip():
            first += 1
        while first < last and not rows[last - 1].strip():
            last -= 1
        touched = [one for one in version.found if one.start <= last and first <= one.end]
    around = [one for one in touched if one.start <= first and last <= one.end]
    if around:
        return min(around, key=lambda one: one.end - one.start).qualified, touched
    outermost = [one for one in touched if not one.scope]
    return outermost[0].qualified if len(outermost) == 1 else "", touched
