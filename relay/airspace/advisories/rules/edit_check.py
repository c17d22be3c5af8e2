"""Would this edit collide, and whose file is it? Asked before it is made (the guard of an agent's turn).

Invariant: an edit is refused only where git would see no unchanged line between it and another agent's change, and
only to the agent that would have to steer anyway (000, section 3). The other one holds, so of two that ask, one may
always go on. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from relay.airspace.advisories.rules.right_of_way import in_order
from relay.airspace.readings import Evidence
from relay.git.hunks import touches
from relay.git.merge_state import line_ranges
from relay.model.working_set import Change, FileTouch, Span, WorkingSet

#: (agent, other, path): at an edit of the file, the agent was told of the other.
EditNotice = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class EditCollision:
    """What an edit would run into: the agent that holds, and what it has there."""

    agent: str
    evidence: Evidence


def check_edit(
    mine: WorkingSet, others: Iterable[WorkingSet], path: str, lines: tuple[int, int]
) -> EditCollision | None:
    """The first of `others`, by right-of-way, whose standing change an edit of `lines` (first and last, as the
    file is now in `mine`) would touch, when that one holds against `mine`; None when the edit may go on."""
    touched = _touch_of(mine, path)
    place = to_base(touched, lines)
    if place is None:
        return None
    base_path = touched.path if touched else path
    for other in in_order([mine, *(work for work in others if work.agent != mine.agent)]):
        if other is mine:
            break  # who comes after it gives way
        theirs = _touch_of(other, base_path)
        if theirs is not None and (met := [span for span in theirs.lines if touches(span, place)]):
            return EditCollision(other.agent, _evidence(other.agent, theirs, met))
    return None


def agents_changing(works: Iterable[WorkingSet], path: str) -> Mapping[str, FileTouch]:
    """Who has changed this file, and how, by agent."""
    return {work.agent: touch for work in works if (touch := _touch_of(work, path)) is not None}


def current_notices(
    notices: Iterable[EditNotice], sets: Mapping[str, WorkingSet], forecasts: Collection[tuple[str, str]]
) -> frozenset[EditNotice]:
    """What was told and is not over: the other has the file in hand, or a look-ahead of the two stands."""
    return frozenset(
        (agent, other, path)
        for agent, other, path in notices
        if (min(agent, other), max(agent, other)) in forecasts
        or ((work := sets.get(other)) is not None and _touch_of(work, path) is not None)
    )


def to_base(touch: FileTouch | None, lines: tuple[int, int]) -> Span | None:
    """`lines` of the file as it is now, in the coordinates of the base; None when that cannot be known.

    A line within a hunk stands for the whole of it: that is what git would see changed.
    """
    if touch is None:
        return Span(*lines)
    if touch.change is Change.ADDED or touch.binary or any(span.new_count is None for span in touch.lines):
        return None
    first, last = (_base_of(touch.lines, line) for line in lines)
    return Span(min(first.start, last.start), max(first.end, last.end))


def _base_of(hunks: Iterable[Span], line: int) -> Span:
    grown = 0
    for span in sorted(hunks, key=lambda span: (span.start, span.end)):
        now, count = span.start + grown, span.new_count or 0
        if line < now:
            break
        if line < now + count:
            return span
        grown += count - (span.end - span.start + 1)
    return Span(line - grown, line - grown)


def _touch_of(work: WorkingSet, path: str) -> FileTouch | None:
    return next((touch for touch in work.files if path in touch.paths), None)


def _evidence(agent: str, touch: FileTouch, met: list[Span]) -> Evidence:
    first, last = min(span.start for span in met), max(max(span.end, span.start) for span in met)
    return Evidence(
        f"{agent} has changed {line_ranges([(first, last)])} of {touch.path}",
        touch.path,
        lines=((first, last),),
    )
