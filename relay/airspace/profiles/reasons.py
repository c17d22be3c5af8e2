"""Why a channel of the calibrated profile reads what it reads, in words for a person.

Invariant: what is said can be checked by looking at both sides; nothing is computed here but the words, so a pair
that nobody looks at costs none. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from relay.airspace.pair_facts import CallLink, Coupling, Hazard, Likeness, SharedTest
from relay.airspace.profiles.features import Sketch, folder
from relay.airspace.profiles.formulas import said
from relay.airspace.profiles.pair_features import Shared, Together
from relay.airspace.profiles.path_conflicts import clause
from relay.airspace.readings import Evidence
from relay.git.trial_merge import Merge
from relay.model.working_set import FileTouch

#: a's name and b's.
Names = tuple[str, str]


def clashes(both: Together, names: Names) -> tuple[Evidence, ...]:
    """Everything that git cannot merge."""
    told = tuple(clause(one.path, one.a, one.b, one.met, names) for one in both.shared if one.met.clash)
    return (*told, *(one.evidence for one in both.paths))


def merge(found: Merge) -> tuple[Evidence, ...]:
    if found.clean:
        return (Evidence("git merges both as they stand"),)
    return tuple(Evidence(f"git cannot merge {path}", path=path) for path in found.conflicts)


def nearness(one: Shared, files: int) -> tuple[Evidence, ...]:
    """The nearest shared file, of so many."""
    more = f" (and {files - 1} more file{'s' if files > 2 else ''})" if files > 1 else ""
    gap = one.met.gap or 0
    if one.met.clash is None and gap and one.a.lines and one.b.lines:
        apart = f", {gap} line{'s' if gap > 1 else ''} apart at the nearest"
    else:
        apart = ""
    lines = tuple((span.start, max(span.start, span.end)) for span in (*one.a.lines, *one.b.lines)[:6])
    return (Evidence(f"both work in {one.path}{apart}{more}", path=one.path, lines=lines),)


def churn(mine: Sketch, other: Sketch) -> tuple[Evidence, ...]:
    """The file of one side that invites the other most."""
    own = [path for path in mine.files if path not in other.files]
    path = max(own, key=lambda each: (mine.exposure[each], each))
    beside = ", where both work" if folder(path) in other.exposed_in else ""
    times = mine.files[path].churn
    often = f" changes often: {times} of the last 100 commits" if times else " may draw the other in"
    return (Evidence(f"{path}{often}{beside}", path=path),)


def size(a: Sketch, b: Sketch) -> tuple[Evidence, ...]:
    text = f"{len(a.files)} and {len(b.files)} changed files, in {a.hunks} and {b.hunks} places"
    return (Evidence(text),)


def dependency(coupling: Coupling) -> tuple[Evidence, ...]:
    apart = "an import" if coupling.hops == 1 else f"{coupling.hops} imports"
    text = f"{coupling.path} and {coupling.other_path} are {apart} apart"
    return (Evidence(text, path=coupling.path, other_path=coupling.other_path),)


def words(alike: Likeness) -> tuple[Evidence, ...]:
    """What both were asked about or declared, in the terms that both have."""
    named = alike.terms[:3]
    if not named:
        return (Evidence("what both work on is told in much the same words"),)
    told = named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
    return (Evidence(f"both were asked about {'or declared ' if alike.declared else ''}{told}"),)


def symbols(worst: Iterable[Hazard], names: Names) -> tuple[Evidence, ...]:
    return tuple(_taken(hazard, names) for hazard in worst)


def _taken(hazard: Hazard, names: Names) -> Evidence:
    writer, reader = names[hazard.writer], names[1 - hazard.writer]
    does = "removes" if hazard.removed else "changes the signature of" if hazard.signature else "rewrites"
    uses = "newly calls" if hazard.new_call else "uses"
    where = f"{said((hazard.reader_lines,))} of {hazard.reader_path}"
    return Evidence(
        f"{writer} {does} {hazard.symbol} ({said((hazard.lines,))} of {hazard.path}), "
        f"which {reader} {uses} in {where}",
        path=hazard.path,
        other_path=hazard.reader_path,
        lines=(hazard.lines,),
        symbol=hazard.symbol,
    )


def calls(call: CallLink) -> tuple[Evidence, ...]:
    apart = "one call" if call.hops == 1 else f"{call.hops} calls"
    text = f"{call.symbol} of {call.path} and {call.other_symbol} of {call.other_path} are {apart} apart"
    return (Evidence(text, path=call.path, other_path=call.other_path, symbol=call.symbol),)


def tests(found: Sequence[SharedTest]) -> tuple[Evidence, ...]:
    first = found[0]
    text = f"{first.test} tests what both change"
    return (Evidence(text, path=first.path, other_path=first.other_path),)


def intent(met: Iterable[tuple[float, str, FileTouch, int, str]], names: Names) -> tuple[Evidence, ...]:
    """The strongest of these: r, the path, what is meant, by whom (0 = a), and how they meet."""
    means = {True: "holds a lock on", False: "intends to change"}
    found = [
        (
            risk,
            path,
            tuple((span.start, span.end) for span in meant.lines),
            f"{names[at]} {means[meant.locked]} {path}, where {names[1 - at]} {how}",
        )
        for risk, path, meant, at, how in met
    ]
    if not found:
        return ()
    _, path, lines, text = max(found)
    return (Evidence(text, path=path, lines=lines),)
