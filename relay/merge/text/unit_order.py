"""Definitions, members and items side by side, merged as the elements of one sequence.

Invariants:
- a unit that one side added, changed or removed alone is as that side has it; for one that both changed, the caller
  is asked;
- a definition that one side renamed is followed only where the other side changed it, and where nothing else is as
  much like it;
- the order is that of both sides where they agree; what both add at one place is joined only where the order of such
  units says nothing, and then stands in an order that does not depend on the side.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from relay.merge.text import kinds
from relay.merge.text.lines import normal, telling
from relay.merge.text.pieces import Piece, Spans, conflicts_of, rows_of
from relay.merge.text.syntax import Source, Unit, Units

_FROM = re.compile(r"""\bfrom\s+['"]([^'"]+)['"]|^import: from\s+(\S+)\s+import|\buse\s+([\w:]+)::\{""")
#: Share of its lines, its name left out, that a definition keeps when it is renamed; and how many at least.
ALIKE, LEAST_LINES = 0.6, 2
Versions = tuple[Unit | None, Unit | None, Unit | None]
#: What merges a unit that both sides changed.
Inner = Callable[[Versions], list[Piece]]


@dataclass(frozen=True, slots=True)
class _Kept:
    """A unit of the result. `from_`: the side whose lead it has."""

    key: str
    pieces: list[Piece]
    lead: int


def joined_units(sources: tuple[Source, Source, Source], spans: Spans) -> list[str] | None:
    """The lines, where no unit was changed by both; None where one was, or where the lines are not whole units."""
    if _hanging(sources, spans):
        return None
    pieces = merged_units(sources, spans, None)
    if pieces is None or conflicts_of(pieces):
        return None
    return rows_of(pieces)


def merged_units(
    sources: tuple[Source, Source, Source], spans: Spans, inner: Inner | None
) -> list[Piece] | None:
    """The units of three spans merged. `inner` merges what both sides changed; without one, that is None."""
    found = [source.units(span) for source, span in zip(sources, spans, strict=True)]
    o, a, b = found
    if o is None or a is None or b is None:
        return None
    parents = {(units.parent, units.depth) for units in (o, a, b) if units.parent}
    if len(parents) > 1:
        return None
    if inner is not None:
        o, a, b = _followed(sources, (o, a, b))
    parent, _ = next(iter(parents), ("", ""))
    tables = [{unit.key: unit for unit in units.units} for units in (o, a, b)]
    kept: dict[str, _Kept] = {}
    for key in dict.fromkeys([*tables[0], *tables[1], *tables[2]]):
        versions = (tables[0].get(key), tables[1].get(key), tables[2].get(key))
        made = _one(sources, key, versions, inner)
        if made is None:
            return None
        if made.pieces:
            kept[key] = made
    if _both_replaced(tables):
        return None
    order = _order((o, a, b), kept, parent)
    if order is None:
        return None
    return _written(sources, (o, a, b), [kept[key] for key in order], parent)


def _hanging(sources: tuple[Source, Source, Source], spans: Spans) -> bool:
    """Does a side end with a comment on the line below, where the other side adds more than comments on it?"""
    ends = []
    for source, span in zip(sources[1:], spans[1:], strict=True):
        found = source.units(span)
        if found is None or not found.units:
            return False
        below = span[1] < len(source.rows) and source.rows[span[1]].strip()
        ends.append(bool(below) and not found.tail and found.units[-1].kind == "comment")
        ends.append(all(unit.kind == "comment" for unit in found.units))
    return (ends[0] or ends[2]) and not all(ends)


def _both_replaced(tables: Sequence[dict[str, Unit]]) -> bool:
    """Did both sides put something else in the place of one unit that has no name?"""
    o, a, b = tables
    gone = [key for key in o if key not in a and key not in b]
    new = [[key for key in side if key not in o and key not in other] for side, other in ((a, b), (b, a))]
    return bool(gone and new[0] and new[1])


def _one(
    sources: tuple[Source, Source, Source], key: str, versions: Versions, inner: Inner | None
) -> _Kept | None:
    """One unit of three versions; None where it is not to be merged here."""
    _, a, b = versions
    texts = [
        _text(source, unit) if unit is not None else None
        for source, unit in zip(sources, versions, strict=True)
    ]
    if texts[1] == texts[2]:
        taken, source = (a, sources[1])
        if a is not None and b is not None and _raw(sources[1], a) < _raw(sources[2], b):
            taken, source = b, sources[2]
    elif texts[1] == texts[0]:
        taken, source = b, sources[2]
    elif texts[2] == texts[0]:
        taken, source = a, sources[1]
    else:
        if inner is None:
            return None
        pieces = inner(versions)
        lead = max(unit.lead for unit in versions[1:] if unit is not None)
        return _Kept(key, pieces, lead)
    if taken is None:
        return _Kept(key, [], 0)
    return _Kept(key, [Piece(tuple(source.rows[taken.rows[0] : taken.rows[1]]))], taken.lead)


def _text(source: Source, unit: Unit) -> list[str]:
    rows = source.rows[unit.rows[0] : unit.rows[1]]
    flat = [row.rstrip() for row in rows if row.strip()]
    if flat:
        flat[-1] = flat[-1].rstrip(",")
    return flat


def _raw(source: Source, unit: Unit) -> tuple[str, ...]:
    return tuple(source.rows[unit.rows[0] : unit.rows[1]])


def _order(units: tuple[Units, Units, Units], kept: dict[str, _Kept], parent: str) -> list[str] | None:
    """The keys of the result in their order; None where the sides disagree."""
    o, a, b = ([unit.key for unit in each.units if unit.key in kept] for each in units)
    shared = set(a) & set(b)
    left, right = [key for key in a if key in shared], [key for key in b if key in shared]
    if left != right:
        known = set(o) & shared
        before = [key for key in o if key in known]
        if [key for key in left if key in known] == before:
            line = right
        elif [key for key in right if key in known] == before:
            line = left
        else:
            return None
    else:
        line = left
    runs: list[dict[str, list[str]]] = []
    for keys in (a, b):
        after: dict[str, list[str]] = {}
        last = ""
        for key in keys:
            if key in shared:
                last = key
            else:
                after.setdefault(last, []).append(key)
        runs.append(after)
    by_key = {unit.key: unit for each in units for unit in each.units}
    result: list[str] = []
    for place in ("", *line):
        if place:
            result.append(place)
        first, second = runs[0].get(place, []), runs[1].get(place, [])
        if first and second:
            if not _free(parent, [by_key[key] for key in first], [by_key[key] for key in second]):
                return None
            result += _keys_first(first, second) or _both(first, second, [*result[-3:]])
        else:
            result += first or second
    return result


def _both(first: list[str], second: list[str], before: Sequence[str]) -> list[str]:
    together = [*first, *second]
    if all(keys == sorted(keys, key=str.lower) for keys in ([*before, *first], [*before, *second])) and len(
        before
    ):
        return sorted(together, key=lambda key: (key.lower(), key))
    return [key for keys in sorted((first, second)) for key in keys]


def _keys_first(first: list[str], second: list[str]) -> list[str]:
    """Where one side adds keys to TOML and the other tables: the keys first, or they would be a table's."""
    tables = [any(key.startswith("[") for key in keys) for keys in (first, second)]
    if tables[0] == tables[1]:
        return []
    return [*first, *second] if tables[1] else [*second, *first]


def _free(parent: str, first: Sequence[Unit], second: Sequence[Unit]) -> bool:
    """Does the order of these say nothing?"""
    units = [*first, *second]
    modules = [
        {module_of(unit.key) for unit in side if unit.kind == "import"} - {""} for side in (first, second)
    ]
    if modules[0] & modules[1]:
        return False  # a name would be imported twice
    if parent == "toml mapping":
        heads = [{unit.key[:1] for unit in side} for side in (first, second)]
        return all(len(head) == 1 for head in heads) and not any(unit.key.startswith("[[") for unit in units)
    if any(_is_numbered(unit) for unit in units):
        return False
    if parent in kinds.LISTS or parent in kinds.MAPPINGS:
        return True
    if any(unit.kind == "case" for unit in units) and not (_ends(first) and _ends(second)):
        return False
    if parent in kinds.PLACES:
        return all(unit.kind == "item" for unit in units)
    calls = {unit.kind for unit in units if unit.kind.startswith(("call ", "assert"))}
    if len(calls) == 1 and all(unit.kind in calls for unit in units):
        return True
    if not calls <= kinds.TESTS and len(calls) > 1:
        return False  # what the one does may be for the other
    if parent in kinds.CODE:
        return all(unit.kind in ("def", "class", "import", "comment", "case") for unit in units)
    return all(unit.kind in kinds.FREE or unit.kind.startswith("call ") for unit in units)


def _is_numbered(unit: Unit) -> bool:
    """Is it a member of an enumeration that has its number by its place?"""
    return (
        unit.node is not None
        and unit.node.type in kinds.NUMBERED
        and unit.node.child_by_field_name("value") is None
    )


def _ends(cases: Sequence[Unit]) -> bool:
    """May other cases stand before these and after them? Not where one takes what others are for, and not where one
    goes on with the next."""
    for case in cases:
        node = case.node
        if (
            node is None
            or node.type in kinds.IN_ORDER
            or case.key.partition(" ")[2].startswith(kinds.ANYTHING)
        ):
            return False
        if node.type in kinds.FALLING:
            inside = [child for child in node.named_children if not kinds.is_comment(child)]
            if inside and inside[-1].type in ("compound_statement", "statement_block", "block"):
                inside = [child for child in inside[-1].named_children if not kinds.is_comment(child)]
            if not inside or inside[-1].type not in kinds.LEAVING:
                return False
    return True


def module_of(key: str) -> str:
    """Where an import with a list of names has them from; "" for one without."""
    found = _FROM.search(key)
    return next((part for part in found.groups() if part), "") if found is not None else ""


def _written(
    sources: tuple[Source, Source, Source],
    units: tuple[Units, Units, Units],
    kept: Sequence[_Kept],
    parent: str,
) -> list[Piece] | None:
    """The units as lines, with the blank lines between them that the sides have."""
    tails = [each.tail for each in units[1:] if each.units]
    leads = [each.units[0].lead for each in units[1:] if each.units]
    firsts = {each.units[0].key for each in units if each.units}
    pieces: list[Piece] = []
    comma = parent in kinds.COMMAS
    last = _last_comma(sources, units) if comma else ""
    for at, one in enumerate(kept):
        lead = one.lead
        if at == 0:
            lead = max(leads, default=0) if one.key in firsts else min(leads, default=0)
        elif one.key in firsts:
            lead = max([lead, *tails, *(kept[at - 1].lead for _ in (0,) if at > 1)])
            beside = parent in kinds.LISTS | kinds.MAPPINGS or one.key.startswith("case ")
            if not lead and not beside and len(rows_of(one.pieces)) > 1:
                lead = 2 if parent == "module" else 1  # as Python has it; elsewhere one
        if lead:
            pieces.append(Piece(("",) * lead))
        made = one.pieces
        if comma and not conflicts_of(made):
            rows = rows_of(made)
            end = "," if at + 1 < len(kept) else last
            bare = rows[-1].rstrip()
            if bare.endswith(","):
                bare = bare[:-1]
            if end and any(sign in bare for sign in ("//", "#", "/*")):
                if not rows[-1].rstrip().endswith(",") and "," not in rows[-1]:
                    return None
            else:
                rows[-1] = bare + end
            made = [Piece(tuple(rows), next((piece.step for piece in made if piece.step), ""))]
        pieces += made
    tail = max(tails, default=0)
    if tail:
        pieces.append(Piece(("",) * tail))
    return pieces


def _last_comma(sources: tuple[Source, Source, Source], units: tuple[Units, Units, Units]) -> str:
    """Does a comma stand behind the last item?"""
    for source, each in zip(sources[1:], units[1:], strict=True):
        if each.units and source.rows[each.units[-1].rows[1] - 1].rstrip().endswith(","):
            return ","
    return ""


def _followed(sources: Sequence[Source], found: tuple[Units, Units, Units]) -> tuple[Units, Units, Units]:
    """The units of three texts, those that one side renamed and the other changed by the key that they had."""
    o, a, b = found
    first, second = ({unit.key for unit in each.units} for each in (a, b))
    known = {unit.key for unit in o.units}
    sides = []
    for at, side, mine, others in ((1, a, first, second), (2, b, second, first)):
        gone = [unit for unit in o.units if unit.key not in mine and unit.key in others]
        come = [unit for unit in side.units if unit.key not in known and unit.key not in others]
        names = _renamed(sources[0], gone, sources[at], come)
        units = tuple(replace(unit, key=names.get(unit.key, unit.key)) for unit in side.units)
        sides.append(replace(side, units=units) if names else side)
    return o, sides[0], sides[1]


def _renamed(base: Source, gone: Sequence[Unit], side: Source, come: Sequence[Unit]) -> dict[str, str]:
    """The old keys by the new ones."""
    gone = [unit for unit in gone if unit.kind in kinds.DEFINITIONS - {"value"}]
    come = [unit for unit in come if unit.kind in kinds.DEFINITIONS - {"value"}]
    if not gone or not come:
        return {}
    bodies = [_body(base, unit) for unit in gone]
    alike = sorted(
        (
            (share, old.key, new.key)
            for new in come
            for old, body in zip(gone, bodies, strict=True)
            if old.kind == new.kind and (share := _share(body, _body(side, new))) >= ALIKE
        ),
        reverse=True,
    )
    found: dict[str, str] = {}
    for share, old, new in alike:
        rivals = [each for each in alike if each[0] == share and (each[1] == old) != (each[2] == new)]
        if new not in found and old not in found.values() and not rivals:
            found[new] = old
    return found


def _body(source: Source, unit: Unit) -> Counter[str]:
    """The lines of a definition without its name."""
    name = re.escape(unit.key.rpartition(" ")[2])
    text = re.sub(rf"(?<!\w){name}(?!\w)", "", "\n".join(source.rows[slice(*unit.rows)]))
    return Counter(line for row in text.split("\n") if telling(line := normal(row)))


def _share(one: Counter[str], other: Counter[str]) -> float:
    both = (one & other).total()
    return 2 * both / (one.total() + other.total()) if both >= LEAST_LINES else 0.0
