"""Which lines of two texts are the same, and how three texts divide into regions.

Invariants:
- matched lines are in order on both sides, and their normal forms are equal (`lines.normal`);
- the regions of three texts lie end to end and cover all three; in a region that one side left alone, that side has
  the lines of the base.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import Enum

from relay.merge.text.lines import normal, telling

Span = tuple[int, int]
Pair = tuple[int, int]
#: Cells of a table of common lines that are filled in one go.
MOST_CELLS = 40_000
#: Beyond, two windows without a line that stands once in each are taken as having nothing in common.
MOST_COMPARED = 1_000_000
#: How often a line may stand by which large windows are divided.
MOST_TIMES = 8
#: What a matched line without a letter or digit weighs, against one that has some.
SLIGHT, FULL = 1, 8


class Change(Enum):
    """Who changed a region. BOTH_INSERT: both added lines at one place, and the base has none there."""

    NOBODY = 0
    OURS = 1
    THEIRS = 2
    BOTH = 3


@dataclass(frozen=True, slots=True)
class Region:
    """A stretch of three texts, each as first line and the one after the last. `touching`: it has no unchanged line
    between itself and the region before it, which the other side changed; `hanging`: one side put a comment or
    decorator above what the other changed."""

    base: Span
    ours: Span
    theirs: Span
    change: Change
    touching: bool = False
    hanging: bool = False


def keys_of(rows: Sequence[str]) -> list[str]:
    """What lines are matched by."""
    return [normal(row) for row in rows]


def match(first: Sequence[str], second: Sequence[str]) -> list[Pair]:
    """The matched lines of two texts, given as keys."""
    pairs: list[Pair] = []
    stack = [(0, len(first), 0, len(second))]
    while stack:
        low, high, left, right = stack.pop()
        while low < high and left < right and first[low] == second[left]:
            pairs.append((low, left))
            low, left = low + 1, left + 1
        while low < high and left < right and first[high - 1] == second[right - 1]:
            high, right = high - 1, right - 1
            pairs.append((high, right))
        if low == high or left == right:
            continue
        anchors = _anchors(first, second, low, high, left, right)
        if not anchors:
            pairs += _common(first, second, low, high, left, right)
            continue
        for at, other in (*anchors, (high, right)):
            if low < at and left < other:
                stack.append((low, at, left, other))
            if at < high:
                pairs.append((at, other))
            low, left = at + 1, other + 1
    pairs.sort()
    return pairs


def _anchors(
    first: Sequence[str], second: Sequence[str], low: int, high: int, left: int, right: int
) -> list[Pair]:
    """Lines that stand once in each window, as many as are in one order."""
    places: dict[str, int] = {}
    for at in range(low, high):
        places[first[at]] = -1 if first[at] in places else at
    once: dict[str, int] = {}
    for at in range(left, right):
        if places.get(second[at], -1) >= 0:
            once[second[at]] = -1 if second[at] in once else at
    pairs = sorted((places[key], at) for key, at in once.items() if at >= 0 and telling(key))
    if not pairs and (high - low) * (right - left) > MOST_CELLS:
        pairs = _as_often(first, second, low, high, left, right)
    return longest_order(pairs)


def _as_often(
    first: Sequence[str], second: Sequence[str], low: int, high: int, left: int, right: int
) -> list[Pair]:
    """Lines that stand a few times, as often in each window: the first with the first, and so on."""
    places: dict[str, list[int]] = {}
    others: dict[str, list[int]] = {}
    for at in range(low, high):
        places.setdefault(first[at], []).append(at)
    for at in range(left, right):
        others.setdefault(second[at], []).append(at)
    return sorted(
        pair
        for key, here in places.items()
        if len(here) == len(others.get(key, ())) <= MOST_TIMES and telling(key)
        for pair in zip(here, others[key], strict=True)
    )


def longest_order(pairs: Sequence[Pair]) -> list[Pair]:
    """The longest part of the pairs, sorted by the first, in which the second rises too."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for index, (_, value) in enumerate(pairs):
        at = bisect_left(tails, value)
        before.append(ends[at - 1] if at else -1)
        if at == len(tails):
            tails.append(value)
            ends.append(index)
        else:
            tails[at], ends[at] = value, index
    found = []
    index = ends[-1] if ends else -1
    while index >= 0:
        found.append(pairs[index])
        index = before[index]
    return found[::-1]


def _common(
    first: Sequence[str], second: Sequence[str], low: int, high: int, left: int, right: int
) -> list[Pair]:
    """The heaviest common lines of two windows, where no line stands once in both."""
    many, wide = high - low, right - left
    if many * wide > MOST_CELLS:
        if many * wide > MOST_COMPARED:
            return []
        found = SequenceMatcher(None, first[low:high], second[left:right], autojunk=False)
        return [
            (low + block.a + at, left + block.b + at)
            for block in found.get_matching_blocks()
            for at in range(block.size)
        ]
    weights = [FULL if telling(first[at]) else SLIGHT for at in range(low, high)]
    table = [[0] * (wide + 1)]
    for at in range(many):
        above, key, weight = table[-1], first[low + at], weights[at]
        row = [0]
        for other in range(wide):
            best = above[other + 1] if above[other + 1] >= row[other] else row[other]
            if second[left + other] == key and above[other] + weight > best:
                best = above[other] + weight
            row.append(best)
        table.append(row)
    pairs = []
    at, other = many, wide
    while at and other:
        value = table[at][other]
        if value == table[at][other - 1]:
            other -= 1
        elif value == table[at - 1][other]:
            at -= 1
        else:
            at, other = at - 1, other - 1
            pairs.append((low + at, left + other))
    return pairs


@dataclass(slots=True)
class _Edit:
    """Lines of the base that one side replaced by lines of its own; either may be none."""

    base: Span
    side: Span
    who: Change


def edits_of(pairs: Sequence[Pair], many: int, other: int, who: Change) -> list[_Edit]:
    """What lies between matched lines."""
    edits = []
    low = left = 0
    for at, to in (*pairs, (many, other)):
        if low < at or left < to:
            edits.append(_Edit((low, at), (left, to), who))
        low, left = at + 1, to + 1
    return edits


def slid(pairs: list[Pair], base: Sequence[str], side: Sequence[str], rows: Sequence[str]) -> list[Pair]:
    """The matches with each insertion moved to where a definition would start: by what is least indented at its
    beginning and behind it. `base` and `side` as keys; `rows`: the lines of the side."""
    edits = edits_of(pairs, len(base), len(side), Change.OURS)
    if not any(edit.base[0] == edit.base[1] for edit in edits):
        return pairs
    to = dict(pairs)
    for edit in edits:
        at = edit.base[0]
        start, end = edit.side
        if edit.base[1] != at or end == start:
            continue
        places = [(start, end, at)]
        low, first, last = at, start, end
        while low and to.get(low - 1) == first - 1 and side[first - 1] == side[last - 1] and len(places) < 60:
            low, first, last = low - 1, first - 1, last - 1
            places.append((first, last, low))
        low, first, last = at, start, end
        while low < len(base) and to.get(low) == last and side[first] == side[last] and len(places) < 120:
            low, first, last = low + 1, first + 1, last + 1
            places.append((first, last, low))
        if len(places) == 1:
            continue
        best = min(places, key=lambda place: (*_split(rows, place[0], place[1]), -place[2]))
        first, last, low = best
        for line in range(low, at):  # slid up: lines of the base are matched behind the insertion
            to[line] = last + (line - low)
        for line in range(at, low):
            to[line] = start + (line - at)
    return sorted(to.items())


def _split(rows: Sequence[str], first: int, last: int) -> tuple[int, int]:
    """How deep the text is at both ends of lines; and is the line before the end blank? Smaller is better."""
    ends = []
    for at in (first, last):
        line = at
        while line < len(rows) and not rows[line].strip():
            line += 1
        ends.append(depth_of(rows[line]) if line < len(rows) else 0)
    closes = 0 if last == len(rows) or not rows[last - 1].strip() or not rows[last].strip() else 1
    return sum(ends), closes


def depth_of(row: str) -> int:
    """The width of a line's indentation (a tab is 8)."""
    flat = row.expandtabs(8)
    return len(flat) - len(flat.lstrip())


def regions(
    texts: Sequence[Sequence[str]], keys: Sequence[Sequence[str]], pairs: Sequence[list[Pair]]
) -> list[Region]:
    """Divide three texts, as lines and as keys, with the matched lines of the base with ours and with theirs."""
    sides = [slid(pairs[at - 1], keys[0], keys[at], texts[at]) for at in (1, 2)]
    return divided(sides[0], sides[1], (len(texts[0]), len(texts[1]), len(texts[2])))


def divided(ours: list[Pair], theirs: list[Pair], many: tuple[int, int, int]) -> list[Region]:
    """The regions by the matched lines of the base with ours and with theirs. Two edits are one region where they
    share a line of the base, where both insert at one place, and where one inserts at the end of what the other
    replaced by another number of lines."""
    edits = edits_of(ours, many[0], many[1], Change.OURS) + edits_of(theirs, many[0], many[2], Change.THEIRS)
    edits.sort(key=lambda edit: (edit.base, edit.who.value))
    groups: list[list[_Edit]] = []
    reach = 0
    for edit in edits:
        if groups and (edit.base[0] < reach or _meet(groups[-1], edit)):
            groups[-1].append(edit)
        else:
            groups.append([edit])
        reach = max(reach, edit.base[1])
    found: list[Region] = []
    at = [0, 0, 0]
    for group in groups:
        low, high = min(edit.base[0] for edit in group), max(edit.base[1] for edit in group)
        touching = low == at[0] and bool(found) and found[-1].change is not Change.NOBODY
        if low > at[0]:
            step = low - at[0]
            spans = [(place, place + step) for place in at]
            found.append(Region(spans[0], spans[1], spans[2], Change.NOBODY))
            at = [place + step for place in at]
        grown = [high - low, high - low]
        for edit in group:
            grown[edit.who.value - 1] += (edit.side[1] - edit.side[0]) - (edit.base[1] - edit.base[0])
        who = {edit.who for edit in group}
        spans = [(low, high), (at[1], at[1] + grown[0]), (at[2], at[2] + grown[1])]
        change = Change.BOTH if len(who) == 2 else group[0].who
        found.append(Region(spans[0], spans[1], spans[2], change, touching))
        at = [span[1] for span in spans]
    if at[0] < many[0]:
        found.append(Region((at[0], many[0]), (at[1], many[1]), (at[2], many[2]), Change.NOBODY))
    return found


def _meet(group: list[_Edit], edit: _Edit) -> bool:
    """Does an edit belong to a group that ends where it begins?"""
    for other in group:
        if other.who is edit.who or other.base[1] != edit.base[0]:
            continue
        inserts = [one for one in (other, edit) if one.base[0] == one.base[1]]
        if len(inserts) == 2:
            return True
        if len(inserts) == 1:
            # Which of the new lines come first is not said where the other replaced lines by more.
            replaced = edit if inserts[0] is other else other
            return replaced.side[1] - replaced.side[0] > replaced.base[1] - replaced.base[0]
    return False
