"""How two changes of one file lie to each other, as git's merge sees it.

Invariant: two hunks touch when no unchanged line lies between them. Git cannot merge hunks that touch, unless they
are the same; all other hunks merge. Ranges are in base coordinates. Hunks that both sides have are left out first.
Pure and symmetric.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from relay.git.merge_state import Lines
from relay.model.working_set import Change, FileTouch, Span, joined

#: A gap in lines that stands for "far": what is farther away is no safer (the fitted curve is flat before that).
FAR = 1000


class Clash(StrEnum):
    """Why git cannot merge two changes of one file."""

    LINES = "lines"
    DELETED = "deleted"
    ADDED = "added"
    RENAMED = "renamed"
    BINARY = "binary"


@dataclass(frozen=True, slots=True)
class Meeting:
    """Two changes of one file. `gap`: unchanged lines between the nearest differing hunks, 0 where they touch or
    nothing is known of the lines, at most FAR; None: nothing is left to differ. `product`: differing hunks of the
    one side times those of the other, at least 1. `lines`: where they touch."""

    clash: Clash | None
    gap: int | None
    product: int = 1
    lines: tuple[tuple[int, int], ...] = ()


def lines_before(spans: Iterable[Span], places: Lines) -> Lines:
    """Where these places of a file stood before `spans` changed it; one of new lines only: where they came."""
    ordered = sorted(spans, key=lambda span: (span.start, span.end))
    return tuple(
        (first := _before(ordered, start - 1)[1] + 1, max(first, _before(ordered, end + 1)[0] - 1))
        for start, end in places
    )


def _before(spans: Sequence[Span], line: int) -> tuple[int, int]:
    """The line that this one was before, twice; of one that was changed, the lines below and above what it was."""
    moved = 0
    for span in spans:
        old = span.end - span.start + 1
        count = old if span.new_count is None else span.new_count
        if line < span.start + moved:
            break
        if line < span.start + moved + count:
            return span.end + 1, span.start - 1
        moved += count - old
    return line - moved, line - moved


def meeting(a: FileTouch, b: FileTouch) -> Meeting:
    """What git would make of these two changes of one base path."""
    # (compared by identity: hashing an Enum is slow, and this is asked for every shared file of every pair)
    if a.change is Change.DELETED or b.change is Change.DELETED:
        if a.change is b.change:
            return Meeting(None, None)
        return Meeting(Clash.DELETED, 0, _product(a.lines, b.lines), _ranges((*a.lines, *b.lines)))
    if a.change is b.change is Change.RENAMED and a.new_path != b.new_path:
        return Meeting(Clash.RENAMED, 0, _product(a.lines, b.lines))
    if not a.lines or not b.lines:
        return _without_lines(a, b)
    mine, theirs = _differing(a.lines, b.lines)
    if not mine and not theirs:
        return Meeting(None, None)
    if a.binary or b.binary:
        return Meeting(Clash.BINARY, 0)
    product = _product(mine, theirs)
    if not mine or not theirs:
        return Meeting(None, FAR, product)
    gap, lines = _nearest(mine, theirs)
    if gap > 0:
        return Meeting(None, min(gap, FAR), product)
    both_add = a.change is b.change is Change.ADDED
    return Meeting(Clash.ADDED if both_add else Clash.LINES, 0, product, lines)


def _without_lines(a: FileTouch, b: FileTouch) -> Meeting:
    if a.binary or b.binary:
        # Whether the contents are the same is not known: of 11 such files in the data, none conflicted.
        return Meeting(None, 0)
    if a.change is b.change is Change.ADDED:
        return Meeting(Clash.ADDED, 0)
    # Moved as it was: git carries the other side's edits along.
    moved = any(touch.change is Change.RENAMED and not touch.lines for touch in (a, b))
    gap = FAR if moved else 0
    return Meeting(None, gap, _product(a.lines, b.lines))


def _product(a: tuple[Span, ...], b: tuple[Span, ...]) -> int:
    return max(1, len(a)) * max(1, len(b))


def identity(span: Span) -> tuple[int, int, int | None, int] | None:
    """What makes two hunks the same; None: its content is not known, so it is like no other."""
    if span.checksum is None:
        return None
    return span.start, span.end, span.new_count, span.checksum


def _differing(a: tuple[Span, ...], b: tuple[Span, ...]) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Both sides without the hunks that both have."""
    same = {identity(span) for span in a} & {identity(span) for span in b} - {None}
    if not same:
        return a, b
    mine, theirs = (tuple(span for span in side if identity(span) not in same) for side in (a, b))
    return mine, theirs


def touches(span: Span, other: Span) -> bool:
    """Is there no unchanged line between the two? Then git cannot merge them, unless they are the same. An insertion
    stands before its `start`."""
    return span.start <= other.end + 1 and other.start <= span.end + 1


def _nearest(a: tuple[Span, ...], b: tuple[Span, ...]) -> tuple[int, tuple[tuple[int, int], ...]]:
    """The least gap, and the ranges that touch. One sweep over both sides by start: what comes before a hunk is
    nearest by its greatest end."""
    order = sorted(
        [(span.start, span.end, 0) for span in a] + [(span.start, span.end, 1) for span in b],
    )
    reach: list[tuple[int, int] | None] = [None, None]
    least, met = FAR, []
    for start, end, side in order:
        before = reach[1 - side]
        if before is not None:
            gap = start - before[1] - 1
            least = min(least, gap)
            if gap <= 0:
                # The lines that both change; where there is none, those on both sides of the seam.
                low, high = max(start, before[0]), min(end, before[1])
                met.append((min(low, high), max(low, high)))
        mine = reach[side]
        if mine is None or end >= mine[1]:
            reach[side] = (start, end)
    return max(0, least), joined(met)


def _ranges(spans: Iterable[Span]) -> tuple[tuple[int, int], ...]:
    return joined([(span.start, max(span.start, span.end)) for span in spans])
