"""Three texts merged definition by definition, members inside classes, moved ones followed.

Invariant: a definition is merged with the one of its qualified name, wherever it stands; what cannot be merged in one
is a conflict of that one alone.
"""

from __future__ import annotations

from dataclasses import replace

from relay.merge.text.hunks import Sources, by_lines
from relay.merge.text.pieces import Piece, Spans, conflicts_of, stamped
from relay.merge.text.syntax import Unit
from relay.merge.text.unit_order import Versions, merged_units

#: Containers in containers that are looked into.
DEEPEST = 4


def by_entities(sources: Sources, spans: Spans, entity: str = "", depth: int = 0) -> list[Piece] | None:
    """Merge the units of three spans; None where these are not whole units or stand in no common order."""

    def inner(versions: Versions) -> list[Piece]:
        return _both_changed(sources, versions, entity, depth)

    return merged_units(sources, spans, inner)


def _both_changed(sources: Sources, versions: Versions, entity: str, depth: int) -> list[Piece]:
    """A unit that both sides changed, each in its own way."""
    o, a, b = versions
    there = a or b or o
    assert there is not None
    name = there.key if not entity else f"{entity}/{there.key}"
    spans = _spans(versions)
    if o is None or a is None or b is None:
        why = "both added it, differently" if o is None else "one side changed it, the other removed it"
        return [Piece(spans=spans, entity=name, why=why)]
    if depth < DEEPEST:
        pieces = _container(sources, (o, a, b), name, depth)
        if pieces is not None:
            return pieces
    return [
        piece if piece.why else replace(piece, step="entity")
        for piece in stamped(by_lines(sources, spans, name), name)
    ]


def _container(sources: Sources, units: tuple[Unit, Unit, Unit], name: str, depth: int) -> list[Piece] | None:
    members = []
    for source, unit in zip(sources, units, strict=True):
        found = source.members(unit)
        if found is None:
            return None
        members.append(found)
    heads = _three([found[0] for found in members])
    inside = _three([found[1] for found in members])
    ends = _three([(found[1][1], unit.rows[1]) for unit, found in zip(units, members, strict=True)])
    middle = by_entities(sources, inside, name, depth + 1)
    if middle is None:
        return None
    made: list[Piece] = []
    for spans in (heads, None, ends):
        made += middle if spans is None else by_lines(sources, spans, name)
    if conflicts_of(made):
        flat = by_lines(sources, _three([unit.rows for unit in units]), name)
        if len(conflicts_of(flat)) < len(conflicts_of(made)):
            made = flat
    return [piece if piece.why else replace(piece, step="entity") for piece in stamped(made, name)]


def _spans(versions: Versions) -> Spans:
    return _three([unit.rows if unit is not None else (0, 0) for unit in versions])


def _three(spans: list[tuple[int, int]]) -> Spans:
    return spans[0], spans[1], spans[2]
