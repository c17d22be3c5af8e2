"""Three texts merged line by line: edits that touch, imports, what both added at one place, edits within a line.

Invariant: each answer for a region breaks none of the guard's rules for lines in that region; what has no answer is a
conflict of that region alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from relay.merge.text import imports, tokens
from relay.merge.text.guard import line_faults, similar
from relay.merge.text.lines import indent_of, normal, three_way
from relay.merge.text.matching import Change, Region, Span, depth_of, keys_of, match, regions
from relay.merge.text.pieces import Piece, Spans
from relay.merge.text.syntax import Source
from relay.merge.text.unit_order import joined_units

Sources = tuple[Source, Source, Source]
#: A heading of TOML, below which lines stand as deep as it does.
_TABLE = re.compile(r"\s*+\[\[?[\w.\-\"' ]++\]\]?\s*+$")
#: How a line begins that belongs to the one below it.
_ABOVE = ("#", "//", "/*", "*", "@")


def cut(sources: Sources, spans: Spans) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
    """The lines of three spans."""
    o, a, b = (source.rows[span[0] : span[1]] for source, span in zip(sources, spans, strict=True))
    return o, a, b


def by_lines(sources: Sources, spans: Spans, entity: str = "") -> list[Piece]:
    """Merge the lines of three spans. What is not merged is a conflict with its lines."""
    texts = cut(sources, spans)
    if spans == whole(sources) and all(source.like is sources[0] for source in sources[1:]):
        keys = [source.keys for source in sources]
        pairs = [source.matched for source in sources[1:]]
    else:
        keys = [keys_of(rows) for rows in texts]
        pairs = [match(keys[0], keys[at]) for at in (1, 2)]
    found = _attached(sources, regions(texts, keys, pairs), texts, spans)
    pieces: list[Piece] = []
    for at, region in enumerate(found):
        place = _moved(region, spans)
        if region.hanging:
            why = "one side writes above or below what the other changed"
            pieces.append(Piece(spans=place, entity=entity, why=why))
            continue
        if region.change is Change.BOTH:
            rows, step = settle(sources, place)
            if rows is None:
                pieces.append(Piece(spans=place, entity=entity, why="both changed it differently"))
            else:
                pieces.append(Piece(tuple(rows), step, place))
            continue
        rows = _one_sided(sources, place, region.change, _beside(sources, found, at, spans))
        if rows is None:
            pieces.append(Piece(spans=place, entity=entity, why="both changed how deep it stands"))
        else:
            pieces.append(Piece(tuple(rows), "adjacent" if region.touching else "", place))
    return pieces


def _attached(
    sources: Sources, found: Sequence[Region], texts: tuple[Sequence[str], ...], spans: Spans
) -> list[Region]:
    """The regions, where a comment or decorator that one side put above what the other changed is one region with
    it, and so are lines that one side added to a block that the other took away."""
    result: list[Region] = []
    for region in found:
        last = result[-1] if result else None
        if last is None or not region.touching:
            result.append(region)
        elif _hangs(last, region, texts) or _orphaned(sources, last, region, texts, spans):
            both = [
                (one[0], other[1])
                for one, other in zip(
                    (last.base, last.ours, last.theirs),
                    (region.base, region.ours, region.theirs),
                    strict=True,
                )
            ]
            result[-1] = Region(both[0], both[1], both[2], Change.BOTH, last.touching, True)
        else:
            result.append(region)
    return result


def _hangs(last: Region, region: Region, texts: tuple[Sequence[str], ...]) -> bool:
    if last.change not in (Change.OURS, Change.THEIRS) or region.change is Change.NOBODY:
        return False
    rows = texts[last.change.value][slice(*(last.ours if last.change is Change.OURS else last.theirs))]
    return bool(rows) and _is_above(rows[-1]) and _notes(rows) > _notes(texts[0][slice(*last.base)])


def _orphaned(
    sources: Sources, last: Region, region: Region, texts: tuple[Sequence[str], ...], spans: Spans
) -> bool:
    """Does a side add lines to a block whose head the other side took away, right above?"""
    if (
        region.change not in (Change.OURS, Change.THEIRS)
        or last.change not in (Change.OURS, Change.THEIRS)
        or last.change is region.change
    ):
        return False
    side, other = last.change.value, region.change.value
    new = [row for row in texts[other][slice(*(region.ours if other == 1 else region.theirs))] if row.strip()]
    kept = [row for row in texts[side][slice(*(last.ours if side == 1 else last.theirs))] if row.strip()]
    gone = [row for row in texts[0][slice(*last.base)] if row.strip()]
    old = [row for row in texts[0][slice(*region.base)] if row.strip()]
    if not new or (old and depth_of(old[0]) >= depth_of(new[0])):
        return False
    heads = [row for row in gone if _TABLE.match(row) or depth_of(row) < depth_of(new[0])]
    if not heads or _TABLE.match(new[0]):
        return False
    if _takes_away(sources, _moved(last, spans), side):
        return True
    return len(kept) < len(gone) and (not kept or not similar("\n".join(gone), "\n".join(kept)))


def _takes_away(sources: Sources, spans: Spans, side: int) -> bool:
    """Has a side no longer a function or a class of some lines of the base?"""
    names = [
        {
            name
            for name in sources[at].definitions(*spans[at])
            if not name.rpartition("/")[2].startswith("value ")
        }
        for at in (0, side)
    ]
    return bool(names[0] - names[1])


def _is_above(row: str) -> bool:
    return row.lstrip().startswith(_ABOVE)


def _notes(rows: Sequence[str]) -> int:
    return sum(map(_is_above, rows))


def _notes_on(base: Sequence[str], side: Sequence[str], other: Sequence[str]) -> bool:
    """Does a side write a new comment or decorator above a line that the other side no longer has?"""
    gone = {normal(row) for row in base} - {normal(row) for row in other}
    known = {normal(row) for row in base}
    above = False
    for row in side:
        if _is_above(row):
            above = above or normal(row) not in known
        else:
            if above and normal(row) in gone:
                return True
            above = False
    return False


def _moved(region: Region, spans: Spans) -> Spans:
    moved = [
        (span[0] + start[0], span[1] + start[0])
        for span, start in zip((region.base, region.ours, region.theirs), spans, strict=True)
    ]
    return moved[0], moved[1], moved[2]


def _beside(sources: Sources, found: Sequence[Region], at: int, spans: Spans) -> Spans | None:
    """The last unchanged lines above a region."""
    for region in reversed(found[:at]):
        if region.change is Change.NOBODY:
            return _moved(region, spans)
    return None


def _one_sided(sources: Sources, spans: Spans, change: Change, beside: Spans | None) -> list[str] | None:
    """The lines of a region that one side changed at most: its own, as deep as the other moved them."""
    o, a, b = cut(sources, spans)
    if change is Change.NOBODY:
        if a == o:
            return list(b)
        if b == o:
            return list(a)
        return _each(o, a, b)
    kept, mine = (b, a) if change is Change.OURS else (a, b)
    if not o and beside is not None:
        o, kept_a, kept_b = cut(sources, beside)
        kept = kept_b if change is Change.OURS else kept_a
        o, kept = o[-1:], kept[-1:]
    if list(kept) == list(o):
        return list(mine)
    shifts = {(indent_of(row), indent_of(other)) for row, other in zip(o, kept, strict=False) if row.strip()}
    shifts = {shift for shift in shifts if shift[0] != shift[1]}
    if not shifts:
        return list(mine)
    grown = {(len(new) - len(old)) for old, new in shifts}
    if len(grown) > 1 or not all(new.endswith(old) or old.endswith(new) for old, new in shifts):
        return None
    return [_shifted(row, grown.copy().pop(), shifts) for row in mine]


def _shifted(row: str, by: int, shifts: set[tuple[str, str]]) -> str:
    if not row.strip():
        return row
    if by < 0:
        return row[-by:] if not row[:-by].strip() else row.lstrip()
    old, new = next(iter(sorted(shifts)))
    return new[: len(new) - len(old)] + row


def _each(o: Sequence[str], a: Sequence[str], b: Sequence[str]) -> list[str] | None:
    """Lines of equal normal forms: each as the side has it that changed its white space or its comma."""
    rows = []
    for base, ours, theirs in zip(o, a, b, strict=True):
        row = three_way(base, ours, theirs)
        if row is None:
            indent = three_way(indent_of(base), indent_of(ours), indent_of(theirs))
            end = three_way(*(_end_of(each) for each in (base, ours, theirs)))
            if indent is None or end is None:
                return None
            row = indent + normal(base) + end
        rows.append(row)
    return rows


def _end_of(row: str) -> str:
    bare = row.strip()
    return bare[len(normal(row)) :]


def settle(sources: Sources, spans: Spans) -> tuple[list[str] | None, str]:
    """A region that both sides changed: its lines, and the step that found them."""
    o, a, b = cut(sources, spans)
    language = sources[0].language
    for step, rows in _candidates(sources, spans, o, a, b, language):
        if rows is not None and not line_faults(o, a, b, rows):
            return rows, step
    return None, ""


def _candidates(
    sources: Sources, spans: Spans, o: Sequence[str], a: Sequence[str], b: Sequence[str], language: str | None
) -> Iterator[tuple[str, list[str] | None]]:
    yield "adjacent", _alike(a, b)
    if language is not None:
        blocks = [imports.read(rows, language) for rows in (o, a, b)]
        if blocks[0] is not None and blocks[1] is not None and blocks[2] is not None:
            yield "imports", imports.joined(blocks[0], blocks[1], blocks[2], language)
    yield "added", joined_units(sources, spans)
    away = len(o) > 1 and any(_takes_away(sources, spans, side) for side in (1, 2))
    if not away and not _notes_on(o, a, b) and not _notes_on(o, b, a):
        yield "arguments", tokens.joined(o, a, b)


def _alike(a: Sequence[str], b: Sequence[str]) -> list[str] | None:
    """What both sides changed alike but for white space."""
    if [row.split() for row in a if row.strip()] != [row.split() for row in b if row.strip()]:
        return None
    if [indent_of(row) for row in a if row.strip()] != [indent_of(row) for row in b if row.strip()]:
        return None
    return list(a) if (len(a), list(a)) > (len(b), list(b)) else list(b)


def whole(sources: Sources) -> Spans:
    """The spans of three whole texts."""
    spans: list[Span] = [(0, len(source.rows)) for source in sources]
    return spans[0], spans[1], spans[2]
