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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from relay.airspace.pair_facts import Hazard, PairFacts
from relay.airspace.profiles import calibration as fitted
from relay.airspace.profiles import reasons
from relay.airspace.profiles.features import Sketch, sketch
from relay.airspace.profiles.formulas import FORMULAS, Profile, imports_apart
from relay.airspace.profiles.pair_features import Common, Together
from relay.airspace.profiles.reasons import Names
from relay.airspace.readings import Assessment, Evidence, LazyReadings, Reading, Thresholds, assess_shares
from relay.git.hunks import Meeting
from relay.model.working_set import FileTouch, Span, WorkingSet

NAME = "calibrated"
#: The bands of 000, section 3: the fit puts what git cannot merge far above them and all else below the upper.
THRESHOLDS = Thresholds(traffic=0.35, resolution=0.70)

#: Caps of the fitted channels. (1 - .4)(1 - .17)^2 (1 - .02)^2 (1 - .2) = .318: together below .70. Of pairs whose
#: words are more alike than .3, one in five conflicts, and no more where they are more alike: hence the cap of words.
NEARNESS, CHURN, SIZE, TREE, DEPENDENCY, WORDS = 0.4, 0.17, 0.17, 0.02, 0.02, 0.2
#: A risk of what lies ahead that is worth drawing, and telling once at the edit it is about: on unseen repositories
#: one such pair in six conflicts (docs/calibration.md), fewer than the one in five that the room may be told of.
AHEAD = 0.10
#: Chosen, not fitted: the data holds no symbols, no calls and no tests. A removed definition that the other side
#: newly calls breaks the build although git merges, so it alone reaches 0.70; no other does.
SYMBOL, CALLS, TESTS = 0.75, 0.10, 0.05
#: Chosen: intent alone reaches a traffic advisory and not a resolution advisory (the issue's "Working sets").
INTENT = 0.45
#: Intent for other lines of the same file, as a share of INTENT: below the traffic advisory (chosen).
INTENT_APART = 0.5
#: Weight of each channel, by name. A clash is certain: its weight is 1.
WEIGHTS: Mapping[str, float] = {
    "overlap": 1.0,
    "nearness": NEARNESS,
    "churn": CHURN,
    "size": SIZE,
    "tree": TREE,
    "dependency": DEPENDENCY,
    "words": WORDS,
    "merge": 1.0,
    "symbol": SYMBOL,
    "calls": CALLS,
    "tests": TESTS,
    "intent": INTENT,
}
_CLASHES = frozenset({"overlap", "merge"})
#: How much more a file invites the other side where it works in the same directory.
_BESIDE = math.expm1(fitted.CHURN_FOLDER)
#: A share of R below this is not worth a sentence, in the channels that read something of nearly every pair.
SILENT = 0.02
#: The fitted channels that are about the next edits: fewer than one in five of these come true (docs/calibration.md).
FORETELL = frozenset({"nearness", "churn", "size", "tree", "dependency", "words"})
_QUIET = frozenset({"nearness", "churn", "size", "words"})


def calibrated(a: WorkingSet, b: WorkingSet, near: PairFacts) -> Assessment:
    """R(a, b) by the fitted channels. Their evidence is made when somebody looks at it."""
    risks = _risks(sketch(a), sketch(b), near)
    shares = {name: WEIGHTS[name] * risk for name, risk in risks.items()}
    later = LazyReadings(_channels, near, a, b, risks)
    return assess_shares(shares, _alone(risks), later, THRESHOLDS, FORETELL, AHEAD)


def _risks(a: Sketch, b: Sketch, near: PairFacts) -> dict[str, float]:
    """r of each channel."""
    bare = _bare(a, b, near)
    merge = near.merge
    risks = {
        "overlap": bare.clash if bare.clashes and not _merges(near) else 0.0,
        "nearness": _filled(sum([hazard for hazard, _ in _near_hazards(a, b, bare)], 0.0), NEARNESS),
        "churn": _filled(sum(_churn(a, b, bare)), CHURN),
        "size": _filled(bare.size * a.activity * b.activity, SIZE),
        "tree": _filled(fitted.TREE * near.tree, TREE),
        "dependency": 0.0,
    }
    if near.coupling is not None:
        risks["dependency"] = _filled(fitted.DEPENDENCY * near.coupling.share, DEPENDENCY)
    if near.words is not None:
        hazard = math.exp(fitted.WORDS_BASE + fitted.WORDS_LIKE * words_row(near.words.cosine))
        risks["words"] = _filled(hazard, WORDS)
    if merge is not None:
        risks["merge"] = 0.0 if merge.clean else bare.clash
    if near.hazards:
        risks["symbol"] = max(map(_severity, near.hazards))
    if near.calls is not None:
        risks["calls"] = 0.5 ** (near.calls.hops - 1)
    if near.tests:
        risks["tests"] = 1.0 - 0.5 ** len(near.tests)
    if a.intent or b.intent:
        risks["intent"] = max((risk for risk, *_ in _meant(a, b)), default=0.0)
    return risks


def _alone(risks: Mapping[str, float]) -> frozenset[str]:
    """A clash alone reaches a resolution advisory, and so does a definition gone that is newly called."""
    return _CLASHES | {"symbol"} if risks.get("symbol", 0.0) >= 1.0 else _CLASHES


def _channels(
    near: PairFacts, a: WorkingSet, b: WorkingSet, risks: Mapping[str, float]
) -> dict[str, Reading]:
    """The readings, with what there is to say about each."""
    alone, names, both = _alone(risks), (a.agent, b.agent), Together.of(a, b)
    return {
        name: Reading(
            risk,
            WEIGHTS[name],
            alone=name in alone,
            foretells=name in FORETELL,
            evidence=_evidence(name, both, near, names)
            if name not in _QUIET or risk * WEIGHTS[name] >= SILENT
            else (),
        )
        for name, risk in risks.items()
    }


def _evidence(name: str, both: Together, near: PairFacts, names: Names) -> tuple[Evidence, ...]:
    match name:
        case "overlap" if not _merges(near):
            return reasons.clashes(both, names)
        case "nearness":
            hazards = _near_hazards(both.a, both.b, _bare(both.a, both.b, near))
            nearest = max(hazards, key=lambda each: each[0])[1]
            file = next(shared for shared in both.shared if shared.path == nearest)
            return reasons.nearness(file, len(hazards))
        case "churn":
            mine, theirs = _churn(both.a, both.b, _bare(both.a, both.b, near))
            return reasons.churn(both.a, both.b) if mine >= theirs else reasons.churn(both.b, both.a)
        case "size":
            return reasons.size(both.a, both.b)
        case "dependency" if near.coupling is not None:
            return (imports_apart(near.coupling),)
        case "words" if near.words is not None:
            return reasons.words(near.words)
        case "merge" if near.merge is not None:
            return reasons.merge(near.merge)
        case "symbol":
            worst = sorted(
                near.hazards,
                key=lambda hazard: (-_severity(hazard), hazard.path, hazard.symbol, hazard.reader_path),
            )
            return reasons.symbols(worst[:3], names)
        case "calls" if near.calls is not None:
            return reasons.calls(near.calls)
        case "tests":
            return reasons.tests(near.tests)
        case "intent":
            return reasons.intent(_meant(both.a, both.b), names)
    return ()


def _filled(hazard: float, cap: float) -> float:
    """r of a hazard under its cap."""
    return -math.expm1(-hazard / cap)


# -- what git cannot merge


def overlap_row(a: Sketch, b: Sketch) -> float:
    """What the hazard of a clash depends on: the logarithm of the commits on the paths of the side with more. On
    paths that change often, clashes are less often undone by the work that follows."""
    return max(a.log_commits, b.log_commits)


def _clash(a: Sketch, b: Sketch) -> float:
    """r where git cannot merge."""
    return _filled(fitted.OVERLAP + fitted.OVERLAP_COMMITS * overlap_row(a, b), 1.0)


def _merges(near: PairFacts) -> bool:
    """Git itself has merged both sides as they stand: what is left is that they are near (gap 0)."""
    return near.merge is not None and near.merge.clean


# -- what the next edits may do


def near_row(
    a: FileTouch, b: FileTouch, met: Meeting, most_hunks: int
) -> tuple[float, float, float, float, float]:
    """What the hazard of a shared file depends on, as logarithms: the gap, the path's commits, the pairs of hunks
    in it, the hunks of the larger side, and the file's length."""
    commits = max(a.churn or 0, b.churn or 0)
    length = max(a.length or 0, b.length or 0) or fitted.UNKNOWN_LENGTH
    return (
        math.log1p(met.gap or 0),
        math.log1p(commits),
        math.log(met.product),
        math.log1p(most_hunks),
        math.log(length),
    )


def _near_hazard(a: FileTouch, b: FileTouch, met: Meeting, most_hunks: int) -> float:
    """Without its weights, of a file in which something is left to differ."""
    gap, commits, product, most, length = near_row(a, b, met, most_hunks)
    exponent = (
        fitted.NEAR_BASE
        - fitted.NEAR_GAP * gap
        + fitted.NEAR_COMMITS * commits
        + fitted.NEAR_HUNKS * product
        + fitted.NEAR_SIZE * most
        - fitted.NEAR_LENGTH * length
    )
    return math.exp(exponent)


def _near_hazards(a: Sketch, b: Sketch, bare: _Bare) -> list[tuple[float, str]]:
    """With the weights, and the path of each."""
    return [(a.files[path].weight * b.files[path].weight * hazard, path) for path, hazard in bare.near]


def churn_scale(mine: Sketch, other: Sketch) -> tuple[float, float, float]:
    """What the hazard of every file of `mine` depends on beside its own commits, as logarithms: the hunks of
    `other`, the files of `mine`, and the hunks of the smaller side."""
    return other.log_hunks, mine.log_files, min(mine.log_hunks, other.log_hunks)


def _churn_rate(mine: Sketch, other: Sketch) -> float:
    theirs, own, least = churn_scale(mine, other)
    return math.exp(
        fitted.CHURN_BASE + fitted.CHURN_OTHER * theirs + fitted.CHURN_OWN * own + fitted.CHURN_LEAST * least
    )


def _churn_of(mine: Sketch, other: Sketch, rate: float, common: Common) -> float:
    """How likely `other` is to come into what only `mine` has in hand so far."""
    exposed = mine.exposed
    for path, _ in common.met:
        exposed -= mine.exposure[path]
    if _BESIDE:
        beside = sum([mine.exposed_in[place] for place in common.folders])
        for path, _ in common.met:
            beside -= mine.exposure[path]
        exposed += _BESIDE * beside
    return rate * other.activity * max(0.0, exposed)


def _churn(a: Sketch, b: Sketch, bare: _Bare) -> tuple[float, float]:
    """The hazards of a's own files and of b's."""
    mine, theirs = bare.churn
    return _churn_of(a, b, mine, bare.common), _churn_of(b, a, theirs, bare.common)


def size_row(a: Sketch, b: Sketch, common: Common) -> tuple[float, float, float, float, float]:
    """As logarithms: the files of the smaller side, the hunks of the larger and of the smaller, the modified files of
    whichever has more, and the directories in which both work."""
    return (
        min(a.log_files, b.log_files),
        max(a.log_hunks, b.log_hunks),
        min(a.log_hunks, b.log_hunks),
        max(a.log_modified, b.log_modified),
        math.log1p(len(common.folders)),
    )


def _size_hazard(a: Sketch, b: Sketch, common: Common) -> float:
    if not a.files or not b.files:
        return 0.0
    files, most, least, modified, folders = size_row(a, b, common)
    return math.exp(
        fitted.SIZE_BASE
        + fitted.SIZE_FILES * files
        + fitted.SIZE_MOST_HUNKS * most
        + fitted.SIZE_LEAST_HUNKS * least
        + fitted.SIZE_MODIFIED * modified
        + fitted.SIZE_FOLDERS * folders
    )


@dataclass(frozen=True, slots=True)
class _Bare:
    """What stands whatever the weights. `clash`: r where git cannot merge, `clashes` whether it can. Hazards before
    recency is laid on: `near` of each shared file with its path, `churn` of a's own files and of b's."""

    common: Common
    clashes: bool
    clash: float
    near: tuple[tuple[str, float], ...]
    churn: tuple[float, float]
    size: float

    @classmethod
    def of(cls, a: Sketch, b: Sketch) -> _Bare:
        common, most = Common.of(a, b), max(a.hunks, b.hunks)
        hazards = [
            (path, _near_hazard(a.files[path], b.files[path], met, most))
            for path, met in common.met
            if met.gap is not None
        ]
        rates = _churn_rate(a, b), _churn_rate(b, a)
        return cls(common, common.clashes, _clash(a, b), tuple(hazards), rates, _size_hazard(a, b, common))


def _bare(a: Sketch, b: Sketch, near: PairFacts) -> _Bare:
    """Worked out once, as long as both have in hand what they have."""
    if near.kept is None:
        return _Bare.of(a, b)
    bare: _Bare | None = near.kept.get(NAME)
    if bare is None:
        bare = near.kept[NAME] = _Bare.of(a, b)
    return bare


def words_row(cosine: float) -> float:
    """What the hazard of like words depends on, as a logarithm."""
    return math.log1p(10.0 * cosine)


# -- what the data does not hold


def _severity(hazard: Hazard) -> float:
    """r of a hazard, chosen in this order: gone or of another shape, and newly called or read."""
    if hazard.removed:
        return 1.0 if hazard.new_call else 0.8
    if hazard.signature:
        return 0.8 if hazard.new_call else 0.6
    return 0.3 if hazard.new_call else 0.2


# -- what they mean to do


def _meant(a: Sketch, b: Sketch) -> Iterator[tuple[float, str, FileTouch, int, str]]:
    """Where the intent of one side meets the other: r, the path, what is meant, by whom (0 = a), and how."""
    for at, (mine, other) in enumerate(((a, b), (b, a))):
        for path, meant in mine.intent.items():
            for there, how in (
                (other.files.get(path), "works"),
                (other.intent.get(path), "intends to as well"),
            ):
                if there is not None:
                    share = 1.0 if _may_meet(meant.lines, there.lines) else INTENT_APART
                    yield meant.weight * there.weight * share, path, meant, at, how


def _may_meet(a: tuple[Span, ...], b: tuple[Span, ...]) -> bool:
    if not a or not b:
        return True
    return any(span.start <= other.end + 1 and other.start <= span.end + 1 for span in a for other in b)


#: All profiles by name: two forms of the source's formula, and the calibrated one.
PROFILES: Mapping[str, Profile] = {**FORMULAS, NAME: Profile(NAME, THRESHOLDS, calibrated)}
