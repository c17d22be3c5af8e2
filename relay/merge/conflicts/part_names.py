"""In which definition a place of a merge's conflict is, and how bad that is by what both sides do to the definition.

Invariant: pure. A place that stands twice in a file is in no definition that is known: nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from relay.merge.conflicts.conflict import Severity
from relay.merge.conflicts.entities import FileVersion, read_version
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

    def of(self, parts: Sequence[str]) -> tuple[str, Severity | None]:
        """The qualified name of the innermost definition around a place, given its three texts; "" = in none, or not
        known. The severity is that of level 2's conflict on it, None = there is none."""
        for version, text, part in zip(self._versions, self.texts, parts, strict=True):
            name = _around(version, text, part) if version is not None else ""
            if name:
                outer = next((one for one in self._severities if f"{name}.".startswith(f"{one}.")), None)
                inner = next((one for one in self._severities if one.startswith(f"{name}.")), None)
                known = outer or inner
                return name, self._severities[known] if known else None
        return "", None


def _around(version: FileVersion, text: bytes, part: str) -> str:
    rows, wanted = rows_with_ends(text.decode("utf-8", "surrogateescape")), rows_with_ends(part)
    places = [at for at in range(len(rows) - len(wanted) + 1) if rows[at : at + len(wanted)] == wanted]
    if not wanted or len(places) != 1:
        return ""
    first, last = places[0] + 1, places[0] + len(wanted)
    around = [one for one in version.found if one.start <= first and last <= one.end]
    if around:
        return min(around, key=lambda one: one.end - one.start).qualified
    inside = [one for one in version.found if first <= one.start and one.end <= last]
    outermost = [one for one in inside if not one.scope]
    return outermost[0].qualified if len(outermost) == 1 else ""
