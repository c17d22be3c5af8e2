"""The calibrated profile: git as the oracle of a clash, the bounds of its channels, and its properties."""

from __future__ import annotations

import math
import pickle
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay.airspace.advisories.rules.hysteresis import ceiling
from relay.airspace.live.picture import link_json, near_text
from relay.airspace.pair_facts import CallLink, Coupling, Hazard, Likeness, PairFacts, SharedTest
from relay.airspace.profiles import calibrated as profile
from relay.airspace.profiles import calibration as fitted
from relay.airspace.profiles.calibrated import THRESHOLDS, calibrated
from relay.airspace.profiles.features import folder, sketch
from relay.airspace.profiles.pair_features import Together
from relay.airspace.readings import Level, assess
from relay.git.hunks import meeting
from relay.git.hunks import touches as hunks_touch
from relay.git.trial_merge import Merge
from relay.model.working_set import Change, FileTouch, Span, WorkingSet

A, M, D, R = Change.ADDED, Change.MODIFIED, Change.DELETED, Change.RENAMED
BASE = [f"line {n}" for n in range(1, 31)]


def work(agent: str, *files: FileTouch, intent: tuple[FileTouch, ...] = ()) -> WorkingSet:
    return WorkingSet(agent, files, intent)


def lines(*spans: tuple[int, ...], path: str = "src/a.py", **more: object) -> FileTouch:
    made = tuple(Span(one[0], one[1], *one[2:]) for one in spans)
    return replace(FileTouch(path, M, made, churn=5, length=200), **more)  # type: ignore[arg-type]


# -- against git itself: each edit replaces lines first..last of the base by new ones

Edit = tuple[int, int, list[str]]
EDITS: dict[str, tuple[list[Edit], list[Edit]]] = {
    "the same line": ([(5, 5, ["x"])], [(5, 5, ["y"])]),
    "next lines": ([(5, 5, ["x"])], [(6, 6, ["y"])]),
    "one line between": ([(5, 5, ["x"])], [(7, 7, ["y"])]),
    "equal edits": ([(5, 6, ["x"])], [(5, 6, ["x"])]),
    "equal edits and another, far": ([(5, 6, ["x"]), (20, 20, ["z"])], [(5, 6, ["x"])]),
    "insertions at one place": ([(8, 7, ["x"])], [(8, 7, ["y"])]),
    "equal insertions": ([(8, 7, ["x"])], [(8, 7, ["x"])]),
    "insertion before a change": ([(8, 7, ["x"])], [(8, 8, ["y"])]),
    "insertion after a change": ([(9, 8, ["x"])], [(8, 8, ["y"])]),
    "insertion a line away": ([(10, 9, ["x"])], [(8, 8, ["y"])]),
    "insertion within a deletion": ([(10, 9, ["x"])], [(5, 15, [])]),
    "deletion and change": ([(5, 15, [])], [(15, 15, ["y"])]),
    "a deletion within a deletion": ([(5, 15, [])], [(7, 9, [])]),
    "equal deletions": ([(5, 9, [])], [(5, 9, [])]),
    "at both ends": ([(1, 0, ["x"])], [(31, 30, ["y"])]),
}


def _git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "core.hooksPath=/dev/null"]
    return subprocess.run(["git", *who, *words], cwd=folder, text=True, capture_output=True, check=False)


def _edited(edits: list[Edit]) -> str:
    text = list(BASE)
    for first, last, new in sorted(edits, key=lambda one: -one[0]):
        text[first - 1 : last] = new
    return "\n".join(text) + "\n"


def _conflicts(folder: Path, base: dict[str, str], mine: dict[str, str], theirs: dict[str, str]) -> bool:
    """Whether git's merge of two branches that hold exactly these files conflicts."""
    _git(folder, "init", "-q", "-b", "main")
    for branch, files in (("main", base), ("mine", mine), ("theirs", theirs)):
        if branch != "main":
            _git(folder, "checkout", "-q", "-b", branch, "main")
            _git(folder, "rm", "-rq", ".")
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        _git(folder, "add", "-A")
        assert _git(folder, "commit", "-qm", branch).returncode == 0
    merged = _git(folder, "merge-tree", "--write-tree", "mine", "theirs")
    assert merged.returncode in {0, 1}, merged.stderr
    return merged.returncode == 1


def _touch(edits: list[Edit]) -> FileTouch:
    spans = tuple(Span(first, last, len(new), hash(tuple(new))) for first, last, new in edits)
    return FileTouch("a.txt", M, spans)


@pytest.mark.parametrize("name", EDITS)
def test_a_clash_of_lines_is_what_git_cannot_merge(tmp_path: Path, name: str) -> None:
    mine, theirs = EDITS[name]
    truth = _conflicts(tmp_path, {"a.txt": _edited([])}, {"a.txt": _edited(mine)}, {"a.txt": _edited(theirs)})
    assert (meeting(_touch(mine), _touch(theirs)).clash is not None) == truth


TEXT, OTHER = _edited([]), _edited([(3, 3, ["other"])])
TREES: dict[str, tuple[dict[str, str], dict[str, str], dict[str, str], WorkingSet, WorkingSet]] = {
    "modify and delete": (
        {"k": "k", "a": TEXT}, {"k": "k"}, {"k": "k", "a": OTHER},
        work("A", FileTouch("a", D, (Span(1, 30),))), work("B", FileTouch("a", M, (Span(3, 3),))),
    ),
    "both delete": (
        {"k": "k", "a": TEXT}, {"k": "k"}, {"k": "k"},
        work("A", FileTouch("a", D, (Span(1, 30),))), work("B", FileTouch("a", D, (Span(1, 30),))),
    ),
    "both add, different": (
        {"k": "k"}, {"k": "k", "n": "x\n"}, {"k": "k", "n": "y\n"},
        work("A", FileTouch("n", A, (Span(1, 0, 1, 1),))), work("B", FileTouch("n", A, (Span(1, 0, 1, 2),))),
    ),
    "both add, equal": (
        {"k": "k"}, {"k": "k", "n": "x\n"}, {"k": "k", "n": "x\n"},
        work("A", FileTouch("n", A, (Span(1, 0, 1, 1),))), work("B", FileTouch("n", A, (Span(1, 0, 1, 1),))),
    ),
    "renamed to two": (
        {"k": "k", "a": TEXT}, {"k": "k", "x": TEXT}, {"k": "k", "y": TEXT},
        work("A", FileTouch("a", R, new_path="x")), work("B", FileTouch("a", R, new_path="y")),
    ),
    "renamed alike": (
        {"k": "k", "a": TEXT}, {"k": "k", "x": TEXT}, {"k": "k", "x": TEXT},
        work("A", FileTouch("a", R, new_path="x")), work("B", FileTouch("a", R, new_path="x")),
    ),
    "renamed and edited": (
        {"k": "k", "a": TEXT}, {"k": "k", "x": TEXT}, {"k": "k", "a": OTHER},
        work("A", FileTouch("a", R, new_path="x")), work("B", FileTouch("a", M, (Span(3, 3),))),
    ),
    "renamed and deleted": (
        {"k": "k", "a": TEXT}, {"k": "k", "x": TEXT}, {"k": "k"},
        work("A", FileTouch("a", R, new_path="x")), work("B", FileTouch("a", D, (Span(1, 30),))),
    ),
    "two renamed to one": (
        {"k": "k", "a": TEXT, "b": "b\n" * 30}, {"k": "k", "x": TEXT, "b": "b\n" * 30},
        {"k": "k", "a": TEXT, "x": "b\n" * 30},
        work("A", FileTouch("a", R, new_path="x")), work("B", FileTouch("b", R, new_path="x")),
    ),
    "renamed onto an added file": (
        {"k": "k", "a": TEXT}, {"k": "k", "x": TEXT}, {"k": "k", "a": TEXT, "x": "new\n"},
        work("A", FileTouch("a", R, new_path="x")), work("B", FileTouch("x", A, (Span(1, 0, 1, 1),))),
    ),
    "a file in a directory that was renamed": (
        {"k": "k", "d/a": TEXT, "d/b": "b\n" * 30}, {"k": "k", "e/a": TEXT, "e/b": "b\n" * 30},
        {"k": "k", "d/a": TEXT, "d/b": "b\n" * 30, "d/n": "new\n"},
        work("A", FileTouch("d/a", R, new_path="e/a"), FileTouch("d/b", R, new_path="e/b")),
        work("B", FileTouch("d/n", A, (Span(1, 0, 1, 1),))),
    ),
    "a file below a directory that was renamed": (
        {"k": "k", "d/s/a": TEXT}, {"k": "k", "e/s/a": TEXT}, {"k": "k", "d/s/a": TEXT, "d/t/n": "new\n"},
        work("A", FileTouch("d/s/a", R, new_path="e/s/a")), work("B", FileTouch("d/t/n", A, (Span(1, 0, 1, 1),))),
    ),
    "a file in a new directory below one that was renamed": (
        {"k": "k", "d/a": TEXT}, {"k": "k", "e/a": TEXT}, {"k": "k", "d/a": TEXT, "d/t/n": "new\n"},
        work("A", FileTouch("d/a", R, new_path="e/a")), work("B", FileTouch("d/t/n", A, (Span(1, 0, 1, 1),))),
    ),
    "a file in a directory of which a file was moved": (
        {"k": "k", "d/a": TEXT, "d/b": "b\n" * 30}, {"k": "k", "e/a": TEXT, "d/b": "b\n" * 29 + "c\n"},
        {"k": "k", "d/a": TEXT, "d/b": "b\n" * 30, "d/n": "new\n"},
        work("A", FileTouch("d/a", R, new_path="e/a"), FileTouch("d/b", M, (Span(30, 30),))),
        work("B", FileTouch("d/n", A, (Span(1, 0, 1, 1),))),
    ),
    "a file and a directory": (
        {"k": "k"}, {"k": "k", "x": "file\n"}, {"k": "k", "x/y": "below\n"},
        work("A", FileTouch("x", A, (Span(1, 0, 1, 1),))), work("B", FileTouch("x/y", A, (Span(1, 0, 1, 2),))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TREES)
def test_a_clash_of_paths_is_what_git_cannot_merge(tmp_path: Path, name: str) -> None:
    base, mine, theirs, a, b = TREES[name]
    assert Together.of(a, b).common.clashes == _conflicts(tmp_path, base, mine, theirs)
    assert (calibrated(a, b, PairFacts()).level is Level.RESOLUTION) == Together.of(a, b).common.clashes


# -- what the levels may rest on


def test_all_that_only_foretells_stays_below_a_resolution_advisory() -> None:
    caps = (profile.NEARNESS, profile.CHURN, profile.SIZE, profile.TREE, profile.DEPENDENCY)
    assert 1 - math.prod(1 - cap for cap in caps) < profile.THRESHOLDS.resolution
    assert 1 - math.prod(1 - cap for cap in caps[1:]) < profile.THRESHOLDS.traffic
    many = [lines((n, n), (n + 40, n + 40), path=f"src/{n}.py", churn=100) for n in range(1, 60)]
    other = [lines((n + 9, n + 9), (n + 90, n + 90), path=f"src/{n}.py", churn=100) for n in range(1, 60)]
    coupling = Coupling("src/1.py", "src/2.py", 1, 1.0)
    near = PairFacts(coupling=coupling, directed=coupling, tree=1.0)
    found = calibrated(work("A", *many), work("B", *other), near)
    assert profile.THRESHOLDS.traffic < found.risk < profile.THRESHOLDS.resolution


def test_what_is_only_foretold_is_no_advisory_but_lies_ahead() -> None:
    alike = PairFacts(words=Likeness(0.6, ("cart", "total")))
    found = calibrated(work("A", lines((4, 4))), work("B", lines((90, 93))), alike)
    assert found.level is Level.CLEAR and found.ahead and found.risk >= profile.AHEAD
    assert ceiling(found, profile.THRESHOLDS) is Level.CLEAR
    assert link_json(("A", "B"), found, found.level)["ahead"] is True
    (evidence,) = found.channels["words"].evidence
    assert evidence.text == "both were asked about cart and total"
    many = [lines((n, n), (n + 40, n + 40), path=f"src/{n}.py", churn=100) for n in range(1, 60)]
    other = [lines((n + 9, n + 9), (n + 90, n + 90), path=f"src/{n}.py", churn=100) for n in range(1, 60)]
    above = calibrated(work("A", *many), work("B", *other), alike)
    assert above.risk > profile.THRESHOLDS.traffic and above.level is Level.CLEAR
    assert ceiling(above, profile.THRESHOLDS) is Level.CLEAR
    told = near_text({("A", "B"): (found, Level.CLEAR)}, [], ["A", "B"])
    assert "A and B: risk" in told and "clear, but may collide later" in told
    quiet = calibrated(work("A", lines((4, 4))), work("B", lines((90, 93))), PairFacts(words=Likeness(0.0)))
    assert not quiet.ahead


def test_dependency_alone_is_no_advisory() -> None:
    coupling = Coupling("src/a.py", "lib/b.py", 1, 1.0)
    found = calibrated(
        work("A", lines((1, 2))), work("B", lines((1, 2), path="lib/b.py")), PairFacts(coupling=coupling)
    )
    assert found.level is Level.CLEAR
    assert not found.channels["dependency"].alone


def test_a_lock_is_intent_and_is_called_by_its_name() -> None:
    for locked, said in ((True, "holds a lock on"), (False, "intends to change")):
        meant = (FileTouch("src/a.py", locked=locked),)
        found = calibrated(work("A", intent=meant), work("B", lines((1, 2))), PairFacts())
        (evidence,) = found.channels["intent"].evidence
        assert evidence.text == f"A {said} src/a.py, where B works"


def test_intent_reaches_a_traffic_advisory_and_never_more() -> None:
    meant = (FileTouch("src/a.py"),)
    against_work = calibrated(work("A", intent=meant), work("B", lines((1, 2))), PairFacts())
    assert against_work.level is Level.TRAFFIC
    busy = [lines((n, n), path=f"src/{n}.py", churn=100) for n in range(60)]
    both = [replace(one, lines=(Span(100, 100), Span(150, 150))) for one in busy]
    found = calibrated(
        work("A", *busy, intent=meant), work("B", *both, lines((1, 2)), intent=meant), PairFacts()
    )
    assert found.level is Level.TRAFFIC


def test_a_merge_that_conflicts_is_a_resolution_and_a_clean_one_takes_the_overlap_back() -> None:
    a, b = work("A", lines((40, 58))), work("B", lines((50, 60)))
    assert calibrated(a, b, PairFacts()).level is Level.RESOLUTION
    clean = calibrated(a, b, PairFacts(merge=Merge()))
    assert clean.channels["overlap"].risk == 0 and clean.channels["nearness"].risk > 0
    assert clean.level is Level.CLEAR
    apart_now = work("B", lines((90, 91)))
    assert calibrated(a, apart_now, PairFacts(merge=Merge(("src/a.py",)))).level is Level.RESOLUTION


@pytest.mark.parametrize(
    ("removed", "signature", "new_call", "level"),
    [
        (True, False, True, Level.RESOLUTION),
        (True, False, False, Level.TRAFFIC),
        (False, True, True, Level.TRAFFIC),
        (False, True, False, Level.TRAFFIC),
        (False, False, False, Level.CLEAR),
    ],
)
def test_a_symbol_hazard(removed: bool, signature: bool, new_call: bool, level: Level) -> None:
    hazard = Hazard(1, "login", "src/a.py", (3, 9), removed, "lib/b.py", (4, 4), new_call, signature)
    found = calibrated(
        work("A", lines((4, 4), path="lib/b.py")), work("B", lines((3, 9))), PairFacts(hazards=(hazard,))
    )
    assert found.level is level
    assert "B " in found.channels["symbol"].evidence[0].text


def test_calls_and_tests_only_nudge() -> None:
    near = PairFacts(
        calls=CallLink("f", "src/a.py", "g", "lib/b.py", 1),
        tests=tuple(SharedTest(f"tests/{n}.py", "src/a.py", "lib/b.py") for n in range(9)),
    )
    found = calibrated(work("A", lines((4, 4))), work("B", lines((3, 9), path="lib/b.py")), near)
    assert {"calls", "tests"} <= found.channels.keys() and found.level is Level.CLEAR


# -- recency


def test_a_standing_conflict_does_not_fade_and_what_is_foretold_does() -> None:
    def risks(weight: float, lines_of_b: tuple[int, int]) -> float:
        a, b = lines((40, 58), weight=weight), lines(lines_of_b, weight=weight)
        return calibrated(work("A", a), work("B", b), PairFacts()).risk

    assert risks(0.15, (50, 60)) > profile.THRESHOLDS.resolution
    fading = [risks(weight, (70, 71)) for weight in (1.0, 0.6, 0.3, 0.15)]
    assert fading == sorted(fading, reverse=True) and fading[0] > 2 * fading[-1]


# -- evidence


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        (lines((40, 58)), lines((50, 60)), "both change lines 50-58 of src/a.py"),
        (lines((11, 11)), lines((12, 12)), "they change neighbouring lines 11-12 of src/a.py"),
        (replace(lines((1, 9)), change=D), lines((5, 5)), "A deletes src/a.py, which B changes"),
        (lines((5, 5)), replace(lines((1, 9)), change=D), "B deletes src/a.py, which A changes"),
        (FileTouch("n", A), FileTouch("n", A), "both add n"),
        (FileTouch("a", R, new_path="x"), FileTouch("a", R, new_path="y"), "both rename a, to x and to y"),
    ],
)
def test_the_evidence_of_an_overlap_can_be_checked(a: FileTouch, b: FileTouch, text: str) -> None:
    found = calibrated(work("A", a), work("B", b), PairFacts())
    assert found.evidence[0].text == text


def test_the_channels_put_into_words_later_are_those_of_the_risk() -> None:
    a, b = work("A", lines((40, 58))), work("B", lines((50, 60)))
    found = calibrated(a, b, PairFacts())
    assert assess(dict(found.channels), THRESHOLDS) == found
    assert pickle.loads(pickle.dumps(found)) == found


# -- properties

spans = st.tuples(st.integers(1, 60), st.integers(-1, 6), st.integers(0, 3)).map(
    lambda t: Span(t[0], t[0] + t[1], t[2], t[2])
)
touches = st.builds(
    FileTouch,
    path=st.sampled_from(["a", "b", "d/a", "d/e/b", "x"]),
    change=st.sampled_from([A, M, M, M, D, R]),
    lines=st.lists(spans, max_size=5).map(tuple),
    weight=st.floats(0.15, 1.0),
    new_path=st.just(None),
    churn=st.none() | st.integers(0, 100),
    length=st.none() | st.integers(1, 500),
).map(lambda one: replace(one, new_path="moved") if one.change is R else one)
sets = st.lists(touches, max_size=5).map(lambda files: WorkingSet("A", tuple(files)))
# (`st.builds` would make up the fields that are not given, what is kept of the pair too)
nears = st.fixed_dictionaries(
    {
        "coupling": st.none() | st.builds(Coupling, st.just("a"), st.just("b"), st.just(1), st.floats(0, 1)),
        "tree": st.floats(0, 1),
        "merge": st.sampled_from([None, Merge(), Merge(("a",))]),
    }
).map(lambda given: PairFacts(**given))


@given(sets, sets, nears)
@settings(max_examples=300, deadline=None)
def test_symmetric_and_a_probability(a: WorkingSet, b: WorkingSet, near: PairFacts) -> None:
    b = replace(b, agent="B")
    one, other = calibrated(a, b, near), calibrated(b, a, near)
    assert 0.0 <= one.risk <= 1.0
    assert math.isclose(one.risk, other.risk, abs_tol=1e-12) and one.level == other.level
    assert all(0.0 <= each.risk <= 1.0 for each in one.channels.values())


@given(sets, sets, st.data())
@settings(max_examples=300, deadline=None)
def test_one_more_overlapping_hunk_never_lowers_the_risk(
    a: WorkingSet, b: WorkingSet, data: st.DataObject
) -> None:
    b = replace(b, agent="B")
    at = [
        n for n, one in enumerate(a.files) if any(other.path == one.path and other.lines for other in b.files)
    ]
    if not at:
        return
    n = data.draw(st.sampled_from(at))
    theirs = next(one for one in b.files if one.path == a.files[n].path and one.lines)
    there = data.draw(st.sampled_from(theirs.lines))
    more = Span(there.start, max(there.start, there.end), 99, 99)
    grown = replace(a.files[n], lines=(*a.files[n].lines, more))
    after = replace(a, files=(*a.files[:n], grown, *a.files[n + 1 :]))
    assert calibrated(after, b, PairFacts()).risk >= calibrated(a, b, PairFacts()).risk - 1e-12


def apart(span: Span, other: Span) -> int:
    """Unchanged lines between two hunks; 0 or less: they touch. An insertion stands before its `start`."""
    if (span.start, span.end) > (other.start, other.end):
        span, other = other, span
    return other.start - span.end - 1


@given(sets, sets)
@settings(max_examples=300, deadline=None)
def test_the_sweep_finds_the_nearest_hunks(a: WorkingSet, b: WorkingSet) -> None:
    for one in a.files:
        for other in b.files:
            if one.change is other.change is M and one.lines and other.lines:
                both = {(s.start, s.end, s.checksum) for s in one.lines} & {
                    (s.start, s.end, s.checksum) for s in other.lines
                }
                mine = [s for s in one.lines if (s.start, s.end, s.checksum) not in both]
                theirs = [s for s in other.lines if (s.start, s.end, s.checksum) not in both]
                if mine and theirs:
                    least = max(0, min(apart(x, y) for x in mine for y in theirs))
                    assert meeting(one, replace(other, path=one.path)).gap == least
                    assert all(hunks_touch(x, y) == (apart(x, y) <= 0) for x in mine for y in theirs)


@given(sets, sets)
@settings(max_examples=200, deadline=None)
def test_churn_from_sums_equals_churn_file_by_file(a: WorkingSet, b: WorkingSet) -> None:
    b = replace(b, agent="B")
    one, other = sketch(a), sketch(b)
    hazard = 0.0
    for mine, theirs in ((one, other), (other, one)):
        folders = {folder(path) for path in theirs.files}
        logs = profile.churn_scale(mine, theirs)
        slopes = (fitted.CHURN_OTHER, fitted.CHURN_OWN, fitted.CHURN_LEAST)
        for path, file in mine.files.items():
            if path not in theirs.files:
                score = fitted.CHURN_BASE + fitted.CHURN_COMMITS * math.log1p(file.churn or 0)
                score += sum(slope * log for slope, log in zip(slopes, logs, strict=True))
                score += fitted.CHURN_FOLDER * (folder(path) in folders)
                hazard += file.weight * theirs.activity * math.exp(score)
    found = calibrated(a, b, PairFacts()).channels["churn"]
    assert math.isclose(found.risk, 1 - math.exp(-hazard / profile.CHURN), abs_tol=1e-9)
