"""The calibrated profile: one noisy-OR of named channels, fitted on real pairs of branches (docs/calibration.md).

Invariant: symmetric, in [0, 1], and never lower for one more hunk that overlaps with the other side's. Only what
git cannot merge, or a definition taken from under the other's feet, reaches a resolution advisory: all other fitted
channels together stay below it, and without a shared path they stay below a traffic advisory.

Shape: each fitted channel has a hazard h >= 0 and a cap w, and reads r = 1 - exp(-h / w) with the weight w. A small
hazard is then a probability, w r = h, and a great one is w. Hazards of files add up within a channel.

Recency: what two changes do to each other as they stand (overlap, merge, symbol) does not fade with time: the
conflict is still there when both are merged. What is said of the next edits (nearness, churn, size, intent) fades
with the weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import permutations

from relay.airspace import calibration as fitted
from relay.airspace.clashes import PathClash, clause, path_clashes
from relay.airspace.formulas import said
from relay.airspace.hunks import Meeting, meeting
from relay.airspace.near import Hazard, Near
from relay.airspace.reading import Assessment, Evidence, Reading, Thresholds, assess
from relay.airspace.sketch import Sketch, folder, sketch
from relay.airspace.working_set import FileTouch, Span, WorkingSet

NAME = "calibrated"
#: The bands of 000, section 3: the fit puts what git cannot merge far above them and all else below the upper.
THRESHOLDS = Thresholds(traffic=0.35, resolution=0.70)

#: Caps of the fitted channels. (1 - .5)(1 - .17)^2 (1 - .02)^2 = .331: together below .70. Without a shared path
#: (1 - .17)^2 (1 - .02)^2 = .662: together below .35.
NEARNESS, CHURN, SIZE, TREE, DEPENDENCY = 0.5, 0.17, 0.17, 0.02, 0.02
#: Chosen, not fitted: the data holds no symbols, no calls and no tests. A removed definition that the other side
#: newly calls breaks the build although git merges, so it alone reaches 0.70; no other does.
SYMBOL, CALLS, TESTS = 0.75, 0.10, 0.05
#: Chosen: intent alone reaches a traffic advisory and not a resolution advisory (the issue's "Working sets").
INTENT = 0.45
#: Intent for other lines of the same file, as a share of INTENT: below the traffic advisory (chosen).
INTENT_APART = 0.5
#: A share of R below this is not worth a sentence.
SILENT = 0.02


@dataclass(frozen=True, slots=True)
class Shared:
    """A base path that both sides change."""

    path: str
    a: FileTouch
    b: FileTouch
    met: Meeting


@dataclass(frozen=True, slots=True)
class Together:
    """Both sketches with all that they share; the fit reads the same one."""

    a: Sketch
    b: Sketch
    shared: tuple[Shared, ...]
    paths: tuple[PathClash, ...]

    @classmethod
    def of(cls, a: WorkingSet, b: WorkingSet) -> Together:
        one, other = sketch(a), sketch(b)
        common = sorted(one.files.keys() & other.files.keys())
        shared = tuple(
            Shared(path, x := one.files[path], y := other.files[path], meeting(x, y)) for path in common
        )
        return cls(one, other, shared, path_clashes(one, other))

    @property
    def clashes(self) -> bool:
        return bool(self.paths) or any(one.met.clash is not None for one in self.shared)


def calibrated(a: WorkingSet, b: WorkingSet, near: Near, *, evidence: bool = True) -> Assessment:
    """R(a, b) by the fitted channels. `evidence` False leaves the reasons out, for many pairs at once."""
    both = Together.of(a, b)
    channels = {
        "overlap": _overlap(both, near, (a.agent, b.agent), evidence),
        "nearness": _nearness(both, evidence),
        "churn": _churn(both, evidence),
        "size": _size(both, evidence),
        "tree": Reading(_filled(fitted.TREE * near.tree, TREE), TREE, alone=False),
        "dependency": _dependency(near),
    }
    if near.merge is not None:
        channels["merge"] = _merge(both, near)
    if near.hazards:
        channels["symbol"] = _symbol(near.hazards, (a.agent, b.agent))
    if near.calls is not None or near.tests:
        channels |= _reach(near)
    if a.intent or b.intent:
        channels["intent"] = _intent(both, (a.agent, b.agent), evidence)
    return assess(channels, THRESHOLDS)


def _filled(hazard: float, cap: float) -> float:
    """r of a hazard under its cap."""
    return -math.expm1(-hazard / cap)


# -- what git cannot merge


def overlap_row(a: Sketch, b: Sketch) -> float:
    """What the hazard of a clash depends on: the logarithm of the commits on the paths of the side with more. On
    paths that change often, clashes are less often undone by the work that follows."""
    return math.log1p(max(a.commits, b.commits))


def _clash(both: Together) -> float:
    """r where git cannot merge."""
    return _filled(fitted.OVERLAP + fitted.OVERLAP_COMMITS * overlap_row(both.a, both.b), 1.0)


def _overlap(both: Together, near: Near, names: tuple[str, str], evidence: bool) -> Reading:
    # Git itself has merged both sides as they stand: what is left is that they are near (gap 0).
    clean = near.merge is not None and near.merge.clean
    if clean or not both.clashes:
        return Reading(0.0)
    told = tuple(clause(one.path, one.a, one.b, one.met, names) for one in both.shared if one.met.clash)
    why = (*told, *(one.evidence for one in both.paths)) if evidence else ()
    return Reading(_clash(both), evidence=why)


def _merge(both: Together, near: Near) -> Reading:
    assert near.merge is not None
    if near.merge.clean:
        return Reading(0.0, evidence=(Evidence("git merges both as they stand"),))
    told = tuple(Evidence(f"git cannot merge {path}", path=path) for path in near.merge.conflicts)
    return Reading(_clash(both), evidence=told)


# -- what the next edits may do


def near_row(one: Shared, most_hunks: int) -> tuple[float, float, float, float, float]:
    """What the hazard of a shared file depends on, as logarithms: the gap, the path's commits, the pairs of hunks
    in it, the hunks of the larger side, and the file's length."""
    commits = max(one.a.churn or 0, one.b.churn or 0)
    length = max(one.a.length or 0, one.b.length or 0) or fitted.UNKNOWN_LENGTH
    return (
        math.log1p(one.met.gap or 0),
        math.log1p(commits),
        math.log(one.met.product),
        math.log1p(most_hunks),
        math.log(length),
    )


def _near_hazard(one: Shared, most_hunks: int) -> float:
    gap, commits, product, most, length = near_row(one, most_hunks)
    exponent = (
        fitted.NEAR_BASE
        - fitted.NEAR_GAP * gap
        + fitted.NEAR_COMMITS * commits
        + fitted.NEAR_HUNKS * product
        + fitted.NEAR_SIZE * most
        - fitted.NEAR_LENGTH * length
    )
    return one.a.weight * one.b.weight * math.exp(exponent)


def _nearness(both: Together, evidence: bool) -> Reading:
    most = max(both.a.hunks, both.b.hunks)
    hazards = [(_near_hazard(one, most), one) for one in both.shared if one.met.gap is not None]
    risk = _filled(sum(hazard for hazard, _ in hazards), NEARNESS)
    if not evidence or risk * NEARNESS < SILENT:
        return Reading(risk, NEARNESS, alone=False)
    nearest = max(hazards, key=lambda each: each[0])[1]
    return Reading(risk, NEARNESS, alone=False, evidence=(_how_near(nearest, len(hazards)),))


def _how_near(one: Shared, files: int) -> Evidence:
    more = f" (and {files - 1} more file{'s' if files > 2 else ''})" if files > 1 else ""
    gap = one.met.gap or 0
    if one.met.clash is None and gap and one.a.lines and one.b.lines:
        apart = f", {gap} line{'s' if gap > 1 else ''} apart at the nearest"
    else:
        apart = ""
    lines = tuple((span.start, max(span.start, span.end)) for span in (*one.a.lines, *one.b.lines)[:6])
    return Evidence(f"both work in {one.path}{apart}{more}", path=one.path, lines=lines)


def churn_scale(mine: Sketch, other: Sketch) -> tuple[float, float, float]:
    """What the hazard of every file of `mine` depends on beside its own commits, as logarithms: the hunks of
    `other`, the files of `mine`, and the hunks of the smaller side."""
    return math.log1p(other.hunks), math.log1p(len(mine.files)), math.log1p(min(mine.hunks, other.hunks))


def _churn_of(mine: Sketch, other: Sketch, shared: tuple[Shared, ...]) -> float:
    """How likely `other` is to come into what only `mine` has in hand so far."""
    theirs, own, least = churn_scale(mine, other)
    rate = math.exp(
        fitted.CHURN_BASE + fitted.CHURN_OTHER * theirs + fitted.CHURN_OWN * own + fitted.CHURN_LEAST * least
    )
    exposed = mine.exposed
    beside = sum(mine.exposed_in[place] for place in mine.exposed_in.keys() & other.exposed_in.keys())
    for one in shared:
        exposed -= mine.exposure[one.path]
        beside -= mine.exposure[one.path]
    return rate * other.activity * max(0.0, exposed + math.expm1(fitted.CHURN_FOLDER) * beside)


def _churn(both: Together, evidence: bool) -> Reading:
    mine, theirs = _churn_of(both.a, both.b, both.shared), _churn_of(both.b, both.a, both.shared)
    risk = _filled(mine + theirs, CHURN)
    if not evidence or risk * CHURN < SILENT:
        return Reading(risk, CHURN, alone=False)
    one, other = (both.a, both.b) if mine >= theirs else (both.b, both.a)
    own = [path for path in one.files if path not in other.files]
    path = max(own, key=lambda each: (one.exposure[each], each))
    beside = ", where both work" if folder(path) in other.exposed_in else ""
    times = one.files[path].churn
    often = f" changes often: {times} of the last 100 commits" if times else " may draw the other in"
    return Reading(risk, CHURN, alone=False, evidence=(Evidence(f"{path}{often}{beside}", path=path),))


def size_row(a: Sketch, b: Sketch) -> tuple[float, float, float, float]:
    """As logarithms: the files of the smaller side, the hunks of the larger and of the smaller, and the modified
    files of whichever has more."""
    return (
        math.log1p(min(len(a.files), len(b.files))),
        math.log1p(max(a.hunks, b.hunks)),
        math.log1p(min(a.hunks, b.hunks)),
        math.log1p(max(a.modified, b.modified)),
    )


def _size(both: Together, evidence: bool) -> Reading:
    a, b = both.a, both.b
    if not a.files or not b.files:
        return Reading(0.0, SIZE, alone=False)
    files, most, least, modified = size_row(a, b)
    hazard = math.exp(
        fitted.SIZE_BASE
        + fitted.SIZE_FILES * files
        + fitted.SIZE_MOST_HUNKS * most
        + fitted.SIZE_LEAST_HUNKS * least
        + fitted.SIZE_MODIFIED * modified
    )
    risk = _filled(hazard * a.activity * b.activity, SIZE)
    if not evidence or risk * SIZE < SILENT:
        return Reading(risk, SIZE, alone=False)
    text = f"{len(a.files)} and {len(b.files)} changed files, in {a.hunks} and {b.hunks} places"
    return Reading(risk, SIZE, alone=False, evidence=(Evidence(text),))


def _dependency(near: Near) -> Reading:
    coupling = near.coupling
    if coupling is None:
        return Reading(0.0, DEPENDENCY, alone=False)
    apart = "an import" if coupling.hops == 1 else f"{coupling.hops} imports"
    told = Evidence(
        f"{coupling.path} and {coupling.other_path} are {apart} apart",
        path=coupling.path,
        other_path=coupling.other_path,
    )
    risk = _filled(fitted.DEPENDENCY * coupling.share, DEPENDENCY)
    return Reading(risk, DEPENDENCY, alone=False, evidence=(told,))


# -- what the data does not hold


def _severity(one: Hazard) -> float:
    """r of a hazard, chosen in this order: gone or of another shape, and newly called or read."""
    if one.removed:
        return 1.0 if one.new_call else 0.8
    if one.signature:
        return 0.8 if one.new_call else 0.6
    return 0.3 if one.new_call else 0.2


def _symbol(hazards: tuple[Hazard, ...], names: tuple[str, str]) -> Reading:
    ordered = sorted(hazards, key=lambda one: (-_severity(one), one.path, one.symbol, one.reader_path))
    worst = _severity(ordered[0])
    told = tuple(_taken(one, names) for one in ordered[:3])
    return Reading(worst, SYMBOL, alone=worst >= 1.0, evidence=told)


def _taken(one: Hazard, names: tuple[str, str]) -> Evidence:
    writer, reader = names[one.writer], names[1 - one.writer]
    does = "removes" if one.removed else "changes the signature of" if one.signature else "rewrites"
    uses = "newly calls" if one.new_call else "uses"
    where = f"{said((one.reader_lines,))} of {one.reader_path}"
    return Evidence(
        f"{writer} {does} {one.symbol} ({said((one.lines,))} of {one.path}), which {reader} {uses} in {where}",
        path=one.path,
        other_path=one.reader_path,
        lines=(one.lines,),
        symbol=one.symbol,
    )


def _reach(near: Near) -> dict[str, Reading]:
    """The call graph, and the tests that reach what both change."""
    found: dict[str, Reading] = {}
    if (call := near.calls) is not None:
        apart = "one call" if call.hops == 1 else f"{call.hops} calls"
        text = f"{call.symbol} of {call.path} and {call.other_symbol} of {call.other_path} are {apart} apart"
        told = Evidence(text, path=call.path, other_path=call.other_path, symbol=call.symbol)
        found["calls"] = Reading(0.5 ** (call.hops - 1), CALLS, alone=False, evidence=(told,))
    if near.tests:
        first = near.tests[0]
        told = Evidence(f"{first.test} tests what both change", path=first.path, other_path=first.other_path)
        found["tests"] = Reading(1.0 - 0.5 ** len(near.tests), TESTS, alone=False, evidence=(told,))
    return found


# -- what they mean to do


def _intent(both: Together, names: tuple[str, str], evidence: bool) -> Reading:
    found: list[tuple[float, str, tuple[tuple[int, int], ...], str]] = []
    for (mine, me), (other, they) in permutations(zip((both.a, both.b), names, strict=True)):
        for path, meant in mine.intent.items():
            works, means = other.files.get(path), other.intent.get(path)
            for there, how in ((works, "works"), (means, "means to as well")):
                if there is not None:
                    share = 1.0 if _may_meet(meant.lines, there.lines) else INTENT_APART
                    lines = tuple((span.start, span.end) for span in meant.lines)
                    text = f"{me} means to change {path}, where {they} {how}"
                    found.append((meant.weight * there.weight * share, path, lines, text))
    if not found:
        return Reading(0.0, INTENT, alone=False)
    risk, path, lines, text = max(found)
    told = (Evidence(text, path=path, lines=lines),)
    return Reading(risk, INTENT, alone=False, evidence=told if evidence else ())


def _may_meet(a: tuple[Span, ...], b: tuple[Span, ...]) -> bool:
    if not a or not b:
        return True
    return any(one.start <= other.end + 1 and other.start <= one.end + 1 for one in a for other in b)
