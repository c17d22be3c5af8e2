"""What no merge may do, whatever step made it.

Invariants (rules 1 to 4, and one more; `ladder.py` keeps that the sides may be swapped, by an order of its own):
1. a line that one side alone changed the number of stands exactly as often as there; changed by both: between the
   least and the most of ours, theirs and ours + theirs - base. A new line may stand for a missing one when it has all
   its words that no side removed, and no line has a word that none of the three has;
2. no qualified definition stands more often than on the side that has most of it;
3. the result parses where both sides do;
4. no statement that both sides changed differently is left as one side has it, and none is doubled;
6. no name that one side took out of the file comes back by what the other side wrote.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from relay.merge.text.imports import local_names
from relay.merge.text.lines import common_ends, normal, telling, words
from relay.merge.text.syntax import Source, compiles

#: Share of words and signs from which one line is an edit of another.
ALIKE = 0.6
#: Pairs of new lines that are compared; beyond, rule 4 is left to rule 1.
MOST_PAIRS = 40_000
#: The number of the rule on names, in a fault.
STALE = 6
_SIGN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule that a merge breaks. `lines`: the lines or names in question, lines in their normal form."""

    rule: int
    text: str
    lines: frozenset[str] = frozenset()


def counted(rows: Iterable[str]) -> Counter[str]:
    """How often each line stands in a text, in its normal form, those without letter and digit left out."""
    return Counter(key for key in map(normal, rows) if telling(key))


def line_faults(
    base: Sequence[str], ours: Sequence[str], theirs: Sequence[str], merged: Sequence[str]
) -> list[Fault]:
    """Rules 1 and 4, of whole texts or of a part, given as lines."""
    start, end = common_ends((base, ours, theirs, merged))
    o, a, b, m = (counted(rows[start : len(rows) - end]) for rows in (base, ours, theirs, merged))
    missing: list[str] = []
    extra: list[str] = []
    new: list[str] = []
    for line in {*o, *a, *b, *m}:
        low, high = allowed(o[line], a[line], b[line])
        if m[line] < low:
            missing.append(line)
        elif m[line] > high:
            (extra if line in o or line in a or line in b else new).append(line)
    faults = []
    if extra:
        faults.append(Fault(1, "a line stands more often than it may", frozenset(extra)))
    if new or missing:
        known = {word for line in (*o, *a, *b) for word in words(line)}
        unknown = [line for line in new if not known.issuperset(words(line))]
        if unknown:
            faults.append(Fault(1, "a line has a word that none of the three has", frozenset(unknown)))
        removed = _removed(o, a) | _removed(o, b)
        held = [Counter(words(line)) for line in new]
        lost = [line for line in missing if not _stands(line, removed, held)]
        if lost:
            faults.append(Fault(1, "a line of one side is lost", frozenset(lost)))
    doubled = _doubled(o, a, b, m)
    if doubled:
        faults.append(Fault(4, "two edits of one statement both stand", doubled))
    return faults


def allowed(base: int, ours: int, theirs: int) -> tuple[int, int]:
    """How often a line may stand, by how often it does on each side (rule 1)."""
    if ours == base:
        return theirs, theirs
    if theirs == base:
        return ours, ours
    counts = (ours, theirs, max(0, ours + theirs - base))
    return min(counts), max(counts)


def _removed(base: Counter[str], side: Counter[str]) -> set[str]:
    """The words that stand less often on a side than in the base."""
    gone: Counter[str] = Counter()
    for line in {*base, *side}:
        change = side[line] - base[line]
        if change:
            for word in words(line):
                gone[word] += change
    return {word for word, change in gone.items() if change < 0}


def _stands(line: str, removed: set[str], held: Sequence[Counter[str]]) -> bool:
    """Has one new line all the words of a missing one that no side removed?"""
    wanted = [word for word in words(line) if word not in removed]
    return bool(wanted) and any(all(each[word] for word in wanted) for each in held)


def _doubled(o: Counter[str], a: Counter[str], b: Counter[str], m: Counter[str]) -> frozenset[str]:
    """Lines of ours and theirs that are edits of one line of the base, and both stand in the result."""
    gone = [line for line in o if a[line] < o[line] and b[line] < o[line]]
    if not gone:
        return frozenset()
    mine = [line for line in a if a[line] > o[line] and not b[line] > o[line] and m[line] > o[line]]
    theirs = [line for line in b if b[line] > o[line] and not a[line] > o[line] and m[line] > o[line]]
    if len(mine) * len(theirs) > MOST_PAIRS:
        return frozenset()
    found: set[str] = set()
    for line in gone:
        edits = [[each for each in side if similar(line, each)] for side in (mine, theirs)]
        for one in edits[0]:
            found.update(other for other in edits[1] if similar(one, other))
    return frozenset(found)


def similar(one: str, other: str) -> bool:
    """Is one line an edit of the other? They share more than half of their words and signs."""
    first, second = Counter(_SIGN.findall(one)), Counter(_SIGN.findall(other))
    total = first.total() + second.total()
    return total > 0 and 2 * (first & second).total() > ALIKE * total


def definition_fault(base: Source, ours: Source, theirs: Source, merged: Source) -> Fault | None:
    """Rule 2."""
    start, end = common_ends((base.rows, ours.rows, theirs.rows, merged.rows))
    sides = [_names(source, start, len(source.rows) - end) for source in (ours, theirs)]
    found = _names(merged, start, len(merged.rows) - end)
    doubled = sorted(name for name, many in found.items() if many > max(side[name] for side in sides))
    if not doubled:
        return None
    names = ", ".join(name.replace("/", " / ") for name in doubled[:3])
    return Fault(2, f"defined more often than on either side: {names}", frozenset(map(_last, doubled)))


def _names(source: Source, low: int, high: int) -> Counter[str]:
    """How often each qualified definition stands in some lines, and how many different things each name is: a
    class, a function, or what an import brings."""
    found = source.definitions(low, high)
    meant: dict[str, set[str]] = {}
    for qualified in found:
        path, _, last = qualified.rpartition("/")
        kind, _, name = last.partition(" ")
        meant.setdefault(f"{path}/{name}" if path else name, set()).add(kind)
    for text in source.imported(low, high):
        for name in local_names(text, source.language or ""):
            meant.setdefault(name, set()).add(f"import {text}")
    return found + Counter({name: len(kinds) for name, kinds in meant.items()})


def _last(qualified: str) -> str:
    return re.split(r"[/ ]", qualified)[-1]


def parse_fault(ours: Source, theirs: Source, merged: Source) -> Fault | None:
    """Rule 3."""
    if merged.parses < min(ours.parses, theirs.parses):
        return Fault(3, "it does not parse, and both sides do")
    if merged.language == "python" and _refused(ours, theirs, merged) and ours.compiles and theirs.compiles:
        return Fault(3, "Python does not take it, and takes both sides")
    return None


def _refused(ours: Source, theirs: Source, merged: Source) -> bool:
    """Does Python refuse the statements that neither side has all of? The whole text would take its time."""
    start, end = common_ends((ours.rows, theirs.rows, merged.rows))
    high = len(merged.rows) - end
    changed = [(low, top) for low, top, _ in merged.top if top > start and low < high]
    if not changed:
        return False
    first = min(low for low, _ in changed)
    late = first > 0 and any(
        node.type == "future_import_statement" for _, top, node in merged.top if top > start
    )
    rows = (
        merged.rows[: max(top for _, top in changed)]
        if late
        else merged.rows[first : max(top for _, top in changed)]
    )
    return not compiles("\n".join(rows))


def stale_names(base: Source, ours: Source, theirs: Source, merged: Source) -> Fault | None:
    """Names that one side took out of the file, and that stand in the merge because the other side wrote them. Of
    12 such merges in our clones, people had written 10 in another way."""
    if merged.language is None:
        return None
    start, end = common_ends((base.rows, ours.rows, theirs.rows, merged.rows))
    parts = [source.rows[start : len(source.rows) - end] for source in (base, ours, theirs)]
    o, a, b = (counted(rows) for rows in parts)
    gone = (_removed(o, a) | _removed(o, b)) & merged.names(start, len(merged.rows) - end)
    kept = (
        set.intersection(*({word for row in rows for word in words(row)} for rows in parts[1:]))
        if gone
        else set()
    )
    ends = (*base.rows[:start], *base.rows[len(base.rows) - end :]) if gone - kept else ()
    stale = sorted(name for name in gone - kept if not _has(ends, name))
    if not stale:
        return None
    return Fault(
        STALE, f"one side no longer has {', '.join(stale[:3])}, and the other uses it", frozenset(stale)
    )


def _has(rows: Sequence[str], name: str) -> bool:
    """Does a name stand in a text, comments and strings included?"""
    text = "\n".join(rows)
    return name in text and re.search(rf"(?<!\w){name}(?!\w)", text) is not None


def mentions(row: str, fault: Fault) -> bool:
    """Has a line to do with a fault?"""
    return normal(row) in fault.lines or not fault.lines.isdisjoint(words(row))


def answer_faults(
    base: Source, ours: Source, theirs: Source, merged: Source, inside: Sequence[str]
) -> list[Fault]:
    """Rules 1 to 3 for what an answer in a conflict's place may not touch: what stands outside of it. `inside`: the
    lines that were in conflict, of the base and both sides."""
    o, a, b, m = (counted(source.rows) for source in (base, ours, theirs, merged))
    asked = counted(inside)
    again = [
        line for line in {*o, *a, *b} if not asked[line] and m[line] > allowed(o[line], a[line], b[line])[1]
    ]
    faults = (
        [Fault(1, f"it repeats a line outside of the conflict: {min(again)}", frozenset(again))]
        if again
        else []
    )
    sides = [source.definitions(0, len(source.rows)) for source in (ours, theirs)]
    most = {name: max(side[name] for side in sides) for name in {*sides[0], *sides[1]}}
    doubled = [
        name for name, many in merged.definitions(0, len(merged.rows)).items() if many > most.get(name, many)
    ]
    if doubled:
        names = ", ".join(map(_last, sorted(doubled)[:3]))
        faults.append(
            Fault(2, f"defined more often than on either side: {names}", frozenset(map(_last, doubled)))
        )
    broken = parse_fault(ours, theirs, merged)
    return [*faults, broken] if broken is not None else faults


def faults_of(base: Source, ours: Source, theirs: Source, merged: Source) -> list[Fault]:
    """All that a merge breaks."""
    found = line_faults(base.rows, ours.rows, theirs.rows, merged.rows)
    for fault in (
        definition_fault(base, ours, theirs, merged),
        parse_fault(ours, theirs, merged),
        stale_names(base, ours, theirs, merged),
    ):
        if fault is not None:
            found.append(fault)
    return found
