"""The source's equations, worked by hand (000, sections 2 and 3), and what holds for all inputs."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.airspace.advisories.rules.hysteresis import closure_rate, enters_early
from relay.airspace.advisories.rules.right_of_way import in_order, right_of_way
from relay.airspace.pair_facts import Coupling, PairFacts
from relay.airspace.profiles.formulas import (
    FORMULAS,
    THRESHOLDS,
    Edit,
    coefficient,
    edits,
    line_coefficient,
    line_jaccard,
    merged,
    said,
    seed,
)
from relay.airspace.readings import Assessment, Level
from relay.airspace.scan.scan import facts_between
from relay.model.working_set import FileTouch, Span, WorkingSet
from tests.airspace.scan import oracle
from tests.airspace.scan.test_scan import files, graphs

Lines = list[tuple[int, int]]


def touch(path: str, lines: Lines | None = None, weight: float = 1.0) -> FileTouch:
    return FileTouch(path, lines=tuple(Span(*one) for one in lines or []), weight=weight)


def working(name: str, *touched: FileTouch) -> WorkingSet:
    return WorkingSet(name, touched)


def risks(told: Assessment) -> dict[str, float]:
    return {name: pytest.approx(one.risk) for name, one in told.channels.items()}


# -- equation 3


@pytest.mark.parametrize(
    ("why", "a", "b", "jaccard", "coefficient_"),
    [
        ("the same lines", [(1, 10)], [(1, 10)], 1.0, 1.0),
        ("ranges are inclusive: 5 of 15", [(1, 10)], [(6, 15)], 5 / 15, 5 / 10),
        ("one line of three", [(1, 2)], [(2, 3)], 1 / 3, 1 / 2),
        ("neighbours share nothing", [(1, 10)], [(11, 20)], 0.0, 0.0),
        ("inside the other: 2 of 100", [(1, 100)], [(50, 51)], 0.02, 1.0),
        ("overlapping ranges count once", [(1, 6), (4, 10)], [(1, 10)], 1.0, 1.0),
        ("order does not matter", [(20, 29), (1, 10)], [(1, 10), (20, 29)], 1.0, 1.0),
        ("several: common 4-5 and 21-22, 4 of 16", [(1, 5), (20, 22)], [(4, 10), (21, 25)], 4 / 16, 4 / 8),
        ("whole file against whole file", [], [], 1.0, 1.0),
        ("whole file against lines", [], [(3, 4)], 1.0, 1.0),
        ("an insertion covers no line", [(5, 4)], [(1, 10)], 0.0, 0.0),
        ("not even against itself", [(5, 4)], [(5, 4)], 0.0, 0.0),
        ("nor among other lines: 2 of 2", [(5, 4), (8, 9)], [(8, 9)], 1.0, 1.0),
        ("the whole file has it inside", [], [(5, 4)], 1.0, 1.0),
    ],
)
def test_lines(why: str, a: Lines, b: Lines, jaccard: float, coefficient_: float) -> None:
    one, two = (edits((touch("f", lines),))["f"] for lines in (a, b))
    assert line_jaccard(one, two) == line_jaccard(two, one) == pytest.approx(jaccard), why
    assert line_coefficient(one, two) == line_coefficient(two, one) == pytest.approx(coefficient_), why


@pytest.mark.parametrize(
    ("why", "a", "b", "overlap"),
    [
        ("nothing shared", [touch("a")], [touch("b")], 0.0),
        ("disjoint lines of one shared file: the file Jaccard, 1 of 1",
         [touch("f", [(1, 5)])], [touch("f", [(50, 60)])], 1.0),
        ("1 of 3 files, disjoint lines",
         [touch("f", [(1, 5)]), touch("g")], [touch("f", [(50, 60)]), touch("h")], 1 / 3),
        ("1 of 3 files, half the lines: the greater counts",
         [touch("f", [(1, 10)]), touch("g")], [touch("f", [(1, 5)]), touch("h")], 0.5),
        ("weights do not enter equation 3",
         [touch("f", [(1, 10)], 0.15), touch("g")], [touch("f", [(1, 5)], 0.2), touch("h")], 0.5),
        ("insertions leave the file Jaccard",
         [touch("f", [(5, 4)]), touch("g")], [touch("f", [(5, 4)]), touch("h")], 1 / 3),
        ("no files", [], [touch("f")], 0.0),
        ("no files at all", [], [], 0.0),
    ],
)  # fmt: skip
def test_seed_overlap(why: str, a: list[FileTouch], b: list[FileTouch], overlap: float) -> None:
    told = seed(working("A", *a), working("B", *b), PairFacts())
    assert risks(told) == {"overlap": overlap, "dependency": 0.0, "tree": 0.0}, why


@pytest.mark.parametrize(
    ("why", "a", "b", "overlap"),
    [
        ("the file alone is nothing", [touch("f", [(1, 5)])], [touch("f", [(50, 60)])], 0.0),
        ("weighted: 0.5 x 0.4 x 5/5", [touch("f", [(1, 10)], 0.5)], [touch("f", [(1, 5)], 0.4)], 0.2),
        ("the greatest of the shared files: 0.3 x 1 against 1 x 1/4",
         [touch("f", [(1, 4)]), touch("g", [], 0.3)], [touch("f", [(4, 9)]), touch("g")], 0.3),
    ],
)  # fmt: skip
def test_coefficient_overlap(why: str, a: list[FileTouch], b: list[FileTouch], overlap: float) -> None:
    told = coefficient(working("A", *a), working("B", *b), PairFacts())
    assert risks(told) == {"overlap": overlap, "dependency": 0.0, "tree": 0.0}, why


def test_a_rename_touches_both_paths_and_the_new_one_wholly() -> None:
    renamed = FileTouch("old.py", lines=(Span(1, 2),), new_path="new.py", weight=0.5)
    assert edits((renamed,)) == {"old.py": Edit(((1, 2),), 0.5), "new.py": Edit(None, 0.5)}
    told = seed(working("A", renamed), working("B", touch("new.py", [(7, 7)])), PairFacts())
    assert told.channels["overlap"].risk == 1.0


def test_a_path_that_comes_twice_has_the_lines_of_both() -> None:
    twice = (touch("f", [(1, 2)], 0.3), touch("f", [(2, 4)], 0.8))
    assert edits(twice) == {"f": Edit(((1, 4),), 0.8)}
    assert edits((*twice, touch("f"))) == {"f": Edit(None, 1.0)}


# -- equations 4 to 6, and 2


CHAIN = {"a": ["b"], "b": ["c"], "c": ["d"], "x": ["c"]}


@pytest.mark.parametrize(
    ("why", "one", "two", "any_", "directed"),
    [
        ("a direct import", "a", "b", 1.0, 1.0),
        ("from the imported side too", "b", "a", 1.0, 1.0),
        ("two hops", "a", "c", 0.5, 0.5),
        ("three hops", "a", "d", 0.25, 0.25),
        ("two importers of one file: only direction-agnostic", "b", "x", 0.5, 0.0),
        ("one hop up, two down", "x", "a", 0.25, 0.0),
        ("the same file is the overlap channel's", "a", "a", 0.0, 0.0),
        ("not in the graph", "a", "q", 0.0, 0.0),
    ],
)
def test_coupling(why: str, one: str, two: str, any_: float, directed: float) -> None:
    a, b = working("A", touch(one)), working("B", touch(two))
    near = facts_between(a, b, CHAIN)
    assert seed(a, b, near).channels["dependency"].risk == any_, why
    assert coefficient(a, b, near).channels["dependency"].risk == directed, why


def test_coupling_is_weighted_and_the_strongest_pair_counts() -> None:
    a = working("A", touch("a", weight=0.5), touch("d", weight=0.2))
    b = working("B", touch("b", weight=0.6), touch("x"))
    # a-b: 0.5 x 0.6 = 0.3; a-x, 3 hops: 0.5 x 0.25 = 0.125; d-b, 2 hops: 0.06; d-x, 2 hops: 0.1
    near = facts_between(a, b, CHAIN)
    assert near.coupling == Coupling("a", "b", 1, pytest.approx(0.3))
    assert [one.text for one in seed(a, b, near).channels["dependency"].evidence] == [
        "a and b are an import apart"
    ]


def test_a_shared_file_still_couples_through_its_neighbours() -> None:
    a, b = working("A", touch("b"), touch("a")), working("B", touch("b"))
    assert facts_between(a, b, CHAIN).coupling == Coupling("a", "b", 1, 1.0)


def test_the_later_form_looks_six_imports_far() -> None:
    chain = {f"m{at}": [f"m{at + 1}"] for at in range(9)}
    a = working("A", touch("m0"))
    six, seven = (facts_between(a, working("B", touch(name)), chain) for name in ("m6", "m7"))
    assert (six.directed.share if six.directed else 0) == 0.5**5
    assert seven.directed is None
    assert seven.coupling == Coupling("m0", "m7", 7, 0.5**6), "equation 4 has no end"


def test_the_noisy_or_of_all_three() -> None:
    """overlap 1/3, a 2-hop dependency 0.5, tree 0.5: R = 1 - (2/3)(1 - 0.45)(1 - 0.125) = 0.679..."""
    a = working("A", touch("src/f", [(1, 5)]), touch("src/g"))
    b = working("B", touch("src/f", [(9, 9)]), touch("src/h"))
    told = seed(a, b, PairFacts(coupling=Coupling("src/g", "src/h", 2, 0.5), tree=0.5))
    assert told.risk == pytest.approx(1 - (2 / 3) * 0.55 * 0.875)
    assert told.distance == pytest.approx(1 - told.risk)
    assert told.level is Level.TRAFFIC


@pytest.mark.parametrize(
    ("why", "near", "level"),
    [
        ("a direct import alone is RA in the source: R = 0.9", PairFacts(coupling=Coupling("a", "b", 1, 1.0)), 2),
        ("two hops: 0.45", PairFacts(coupling=Coupling("a", "b", 2, 0.5)), 1),
        ("three hops: 0.225", PairFacts(coupling=Coupling("a", "b", 3, 0.25)), 0),
        ("the tree alone never: 0.25", PairFacts(tree=1.0), 0),
        ("three hops and the tree: 1 - 0.775 x 0.75 = 0.41875",
         PairFacts(coupling=Coupling("a", "b", 3, 0.25), tree=1.0), 1),
    ],
)  # fmt: skip
def test_bands(why: str, near: PairFacts, level: int) -> None:
    assert seed(working("A", touch("a")), working("B", touch("b")), near).level == level, why


def test_the_constants_are_the_documents() -> None:
    assert (THRESHOLDS.traffic, THRESHOLDS.resolution) == (0.35, 0.70)
    for form in FORMULAS.values():
        told = form.assess(working("A"), working("B"), PairFacts())
        assert {name: one.weight for name, one in told.channels.items()} == {
            "overlap": 1.0, "dependency": 0.9, "tree": 0.25,
        }  # fmt: skip
        assert all(one.alone for one in told.channels.values())
        assert told.risk == 0.0 and told.evidence == ()


# -- evidence


def test_evidence_names_the_lines_that_both_change() -> None:
    a, b = working("A", touch("f.py", [(40, 60)])), working("B", touch("f.py", [(30, 58), (60, 60)]))
    for form in (seed, coefficient):
        (told,) = form(a, b, PairFacts()).evidence
        assert (told.path, told.lines) == ("f.py", ((40, 58), (60, 60)))
    assert coefficient(a, b, PairFacts()).evidence[0].text == "both change lines 40-58, 60 of f.py"


def test_evidence_of_shared_files() -> None:
    a = working("A", touch("f", [(1, 2)]), touch("g", [(1, 2)]))
    b = working("B", touch("g", [(5, 5)]), touch("f", [(7, 8)]), touch("h"))
    (told,) = seed(a, b, PairFacts()).evidence
    assert told.text == "both change f and 1 more file (2 of the 3 that they change)"
    assert coefficient(a, b, PairFacts()).evidence == (), "nothing overlaps, so there is nothing to show"


def test_evidence_of_a_whole_file() -> None:
    (told,) = seed(working("A", touch("f")), working("B", touch("f", [(3, 3), (7, 9)])), PairFacts()).evidence
    assert told.text == "both change f, one the whole file, the other lines 3, 7-9"


@pytest.mark.parametrize(
    ("ranges", "text"),
    [
        ((), "no line"),
        (((3, 3),), "line 3"),
        (((3, 4),), "lines 3-4"),
        (((1, 1), (3, 3), (5, 5), (7, 9), (11, 11)), "lines 1, 3, 5 and 2 more ranges"),
    ],
)
def test_ranges_said(ranges: tuple[tuple[int, int], ...], text: str) -> None:
    assert said(ranges) == text


# -- what holds for all inputs


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(-1, 8)), max_size=6))
def test_merging_keeps_the_lines(found: Lines) -> None:
    spans = tuple(Span(start, start + size) for start, size in found)
    ranges = merged(spans)
    assert {n for s, e in ranges for n in range(s, e + 1)} == {
        n for one in spans for n in range(one.start, one.end + 1)
    }
    assert all(one[1] + 1 < two[0] for one, two in itertools.pairwise(ranges))


@given(a=files, b=files, graph=graphs)
def test_symmetric_and_within_bounds(
    a: tuple[FileTouch, ...], b: tuple[FileTouch, ...], graph: dict[str, list[str]]
) -> None:
    one, two = working("A", *a), working("B", *b)
    for name, form in FORMULAS.items():
        there = form.assess(one, two, facts_between(one, two, graph))
        back = form.assess(two, one, facts_between(two, one, graph))
        assert risks(there) == risks(back)
        assert there.risk == back.risk and there.level is back.level
        assert 0.0 <= there.risk <= 1.0
        assert {k: v.risk for k, v in there.channels.items()} == oracle.channels(name, one, two, graph)


@given(
    st.sets(st.integers(1, 30), min_size=1), st.sets(st.integers(1, 30), min_size=1),
    st.sets(st.integers(1, 30)), st.floats(0.1, 1.0),
)  # fmt: skip
def test_monotone_in_overlap(a: set[int], b: set[int], more: set[int], weight: float) -> None:
    """Whoever moves into lines that the other has in hand, comes no less close by it."""

    def of(lines: set[int]) -> WorkingSet:
        return working("x", touch("f", [(n, n) for n in lines], weight), touch("g" + "h" * (lines is a)))

    for form in (seed, coefficient):
        before = form(of(a), of(b), PairFacts())
        after = form(of(a), of(b | (more & a)), PairFacts())
        assert after.channels["overlap"].risk >= before.channels["overlap"].risk
        assert after.risk >= before.risk


# -- the protocol's arithmetic


@pytest.mark.parametrize(
    ("why", "order"),
    [
        ("more committed work", [("B", 3, 9.0), ("A", 2, 1.0)]),
        ("then the earlier start", [("B", 2, 1.0), ("A", 2, 5.0)]),
        ("a known start before an unknown", [("B", 2, 5.0), ("A", 2, 0.0)]),
        ("then the lower id", [("A", 2, 5.0), ("B", 2, 5.0), ("C", 2, 5.0)]),
        ("rounding is not work", [("A", 0.3, 5.0), ("B", 0.1 + 0.2, 5.0)]),
    ],
)
def test_right_of_way(why: str, order: list[tuple[str, float, float]]) -> None:
    agents = [WorkingSet(name, committed=work, started_at=start) for name, work, start in order]
    assert in_order(reversed(agents)) == in_order(agents) == tuple(agents), why
    assert right_of_way(agents[1], agents[0]) == (agents[0], agents[1]), why


def test_closure_rate() -> None:
    assert closure_rate(0.1, 0.3, 4.0) == pytest.approx(0.05)
    assert closure_rate(0.3, 0.1, 2.0) == pytest.approx(-0.1)
    for seconds in (0.0, -1.0):
        with pytest.raises(ValueError, match="closure rate"):
            closure_rate(0.1, 0.2, seconds)


@pytest.mark.parametrize(
    ("why", "risk", "rate", "early"),
    [
        ("near, and across within 10 s", 0.30, 0.006, True),
        ("near, too slow", 0.30, 0.004, False),
        ("near, moving off", 0.34, -0.1, False),
        ("far, however fast", 0.10, 0.5, False),
        ("already told", 0.36, 0.1, False),
    ],
)
def test_early_escalation(why: str, risk: float, rate: float, early: bool) -> None:
    assert enters_early(risk, rate, THRESHOLDS, horizon_s=10.0) is early, why
