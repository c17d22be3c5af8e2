"""Why a channel of the calibrated profile reads what it reads, in words for a person.

Invariant: what is said can be checked by looking at both sides; nothing is computed here but the words, so a pair
that nobody looks at costs none. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from relay.airspace.pair_facts import CallLink, Hazard, Likeness, SharedTest
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
    in_files = (clause(file.path, file.a, file.b, file.met, names) for file in both.shared if file.met.clash)
    return (*in_files, *both.common.paths)


def merge(trial: Merge) -> tuple[Evidence, ...]:
    if trial.clean and not trial.joined:
        return (Evidence("git merges both as they stand"),)
    joined = (
        Evidence(f"relay joins {file.path}, which git cannot merge, by {file.how}", path=file.path)
        for file in trial.joined
    )
    return (*(Evidence(f"git cannot merge {path}", path=path) for path in trial.conflicts), *joined)


def nearness(file: Shared, files: int) -> tuple[Evidence, ...]:
    """The nearest shared file, of so many."""
    more = f" (and {files - 1} more file{'s' if files > 2 else ''})" if files > 1 else ""
    gap, apart = file.met.gap or 0, ""
    if file.met.clash is None and gap and file.a.lines and file.b.lines:
        apart = f", {gap} line{'s' if gap > 1 else ''} apart at the nearest"
    lines = tuple((span.start, max(span.start, span.end)) for span in (*file.a.lines, *file.b.lines)[:6])
    return (Evidence(f"both work in {file.path}{apart}{more}", path=file.path, lines=lines),)


def churn(mine: Sketch, other: Sketch) -> tuple[Evidence, ...]:
    """The file of one side that invites the other most."""
    own = [path for path in mine.files if path not in other.files]
    path = max(own, key=lambda each: (mine.exposure[each], each))
    beside = ", where both work" if folder(path) in other.exposed_in else ""
    times = mine.files[path].churn
    often = f" changes often: {times} of the last 100 commits" if times else " may draw the other in"
    return (Evidence(f"{path}{often}{beside}", path=path),)


def size(a: Sketch, b: Sketch) -> tuple[Evidence, ...]:
    return (Evidence(f"{len(a.files)} and {len(b.files)} changed files, in {a.hunks} and {b.hunks} places"),)


def words(alike: Likeness) -> tuple[Evidence, ...]:
    """What both were asked about or declared, in the terms that both have."""
    named = alike.terms[:3]
    if not named:
        return (Evidence("what both work on is told in much the same words"),)
    listed = named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
    return (Evidence(f"both were asked about {'or declared ' if alike.declared else ''}{listed}"),)


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


def tests(shared: Sequence[SharedTest]) -> tuple[Evidence, ...]:
    first = shared[0]
    return (Evidence(f"{first.test} tests what both change", first.path, first.other_path),)


def intent(met: Iterable[tuple[float, str, FileTouch, int, str]], names: Names) -> tuple[Evidence, ...]:
    """The strongest of these: r, the path, what is meant, by whom (0 = a), and how they meet."""
    means = {True: "holds a lock on", False: "intends to change"}
    reasons = [
        (
            risk,
            path,
            tuple((span.start, span.end) for span in meant.lines),
            f"{names[at]} {means[meant.locked]} {path}, where {names[1 - at]} {how}",
        )
        for risk, path, meant, at, how in met
    ]
    if not reasons:
        return ()
    _, path, lines, text = max(reasons)
    return (Evidence(text, path=path, lines=lines),)
