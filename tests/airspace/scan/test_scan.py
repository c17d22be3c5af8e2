"""The fast scan is the slow one: the same channels, risks and levels, whatever happened before."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay.airspace.pair_facts import PairFacts, SharedTest, SymbolFindings
from relay.airspace.profiles.calibrated import PROFILES as PROFILES_BY_NAME
from relay.airspace.profiles.formulas import FORMULAS, THRESHOLDS
from relay.airspace.readings import Assessment, Level, Reading, assess
from relay.airspace.scan.scan import PairScan, Scan, facts_between
from relay.git.trial_merge import Merge
from relay.model.working_set import Change, FileTouch, Span, WorkingSet
from tests.airspace.scan import oracle

PATHS = [
    "a.py", "b.py", "src/x.py", "src/y.py", "src/core/x.py", "src/core/deep/z.py", "src/core/deep/y.py",
    "lib/x.py", "lib/util/q.py", "docs/one.md", "a/b/c/d/e/f.py",
]  # fmt: skip
NAMES = ["ADA", "BOB", "CY", "DEE", "EVE"]
PROFILES = sorted(FORMULAS)

spans = st.tuples(st.integers(1, 12), st.integers(-1, 5)).map(lambda one: Span(one[0], one[0] + one[1]))
touches = st.builds(
    FileTouch,
    path=st.sampled_from(PATHS),
    lines=st.lists(spans, max_size=3).map(tuple),
    weight=st.sampled_from([1.0, 0.9, 0.73, 0.5, 0.3, 0.15]),
    new_path=st.one_of(st.none(), st.none(), st.sampled_from(PATHS)),
)


def unique(files: Sequence[FileTouch]) -> tuple[FileTouch, ...]:
    return tuple({one.path: one for one in files}.values())


files = st.lists(touches, max_size=5).map(unique)
intents = st.lists(st.builds(FileTouch, path=st.sampled_from(PATHS)), max_size=2).map(unique)
graphs = st.dictionaries(
    st.sampled_from(PATHS), st.lists(st.sampled_from(PATHS), max_size=3, unique=True), max_size=8
)


def working(name: str) -> st.SearchStrategy[WorkingSet]:
    return st.builds(WorkingSet, agent=st.just(name), files=files, intent=intents)


airspaces = st.tuples(*(working(name) for name in NAMES))


def scanned(space: PairScan, profile: str) -> Scan:
    return space.scan(FORMULAS[profile])


def expect(scan: Scan, agents: Sequence[WorkingSet], graph: oracle.Graph, floor: float = 0.0) -> None:
    wanted = {}
    for a, b in itertools.combinations(sorted(agents, key=lambda one: one.agent), 2):
        channels = oracle.channels(scan.profile, a, b, graph)
        if (risk := oracle.risk(channels)) >= floor:
            wanted[a.agent, b.agent] = (channels, risk, oracle.level(risk))
    told = {
        (link.a, link.b): (
            {name: one.risk for name, one in link.assessment.channels.items()},
            link.risk,
            link.level.word,
        )
        for link in scan.links
    }
    assert told == wanted


def filled(agents: Sequence[WorkingSet], graph: oracle.Graph, floor: float = 0.0) -> PairScan:
    space = PairScan(floor=floor)
    space.set_graph(graph)
    for one in agents:
        space.update(one)
    return space


@pytest.mark.parametrize("profile", PROFILES)
@given(agents=airspaces, graph=graphs)
@settings(max_examples=150, deadline=None)
def test_it_is_the_oracle(profile: str, agents: tuple[WorkingSet, ...], graph: dict[str, list[str]]) -> None:
    expect(scanned(filled(agents, graph), profile), agents, graph)


@pytest.mark.parametrize("profile", PROFILES)
@given(agents=airspaces, graph=graphs, floor=st.sampled_from([0.01, 0.05, 0.2, 0.5]))
@settings(max_examples=150, deadline=None)
def test_with_a_floor_nothing_above_it_is_missed(
    profile: str, agents: tuple[WorkingSet, ...], graph: dict[str, list[str]], floor: float
) -> None:
    expect(scanned(filled(agents, graph, floor), profile), agents, graph, floor)


@given(agents=airspaces, graph=graphs, floor=st.sampled_from([0.0, 0.05, 0.2]))
@settings(max_examples=150, deadline=None)
def test_the_calibrated_profile_is_given_what_lies_between(
    agents: tuple[WorkingSet, ...], graph: dict[str, list[str]], floor: float
) -> None:
    profile = PROFILES_BY_NAME["calibrated"]
    space = filled(agents, graph, floor)
    told = {(one.a, one.b): one.assessment for one in space.scan(profile).links}
    for a, b in itertools.combinations(sorted(agents, key=lambda one: one.agent), 2):
        pair, wanted = (a.agent, b.agent), profile.assess(a, b, facts_between(a, b, graph))
        assert told.get(pair, wanted) == wanted
        if floor == 0.0 or wanted.level is not Level.CLEAR:
            assert pair in told, "a level is never missed"


changes = st.lists(
    st.one_of(
        st.sampled_from(NAMES).flatmap(working),
        st.sampled_from(NAMES),
        st.tuples(st.sampled_from(PATHS), st.lists(st.sampled_from(PATHS), max_size=3, unique=True)),
        graphs,
        st.tuples(st.sampled_from(NAMES), st.sampled_from([1.0, 0.6, 0.2])),
    ),
    max_size=6,
)


@given(agents=airspaces, graph=graphs, then=st.lists(changes, max_size=3), floor=st.sampled_from([0.0, 0.05]))
@settings(max_examples=200, deadline=None)
def test_after_any_changes_it_is_what_a_new_one_would_say(
    agents: tuple[WorkingSet, ...], graph: dict[str, list[str]], then: list[list[object]], floor: float
) -> None:
    space = filled(agents, graph, floor)
    now = {one.agent: one for one in agents}
    for changed in [[], *then]:
        for change in changed:
            match change:
                case WorkingSet():
                    now[change.agent] = change
                    space.update(change)
                case str():
                    now.pop(change, None)
                    space.remove(change)
                case dict():
                    graph = change
                    space.set_graph(graph)
                case (str() as name, float() as weight):
                    if name in now:  # as recency decays
                        older = tuple(replace(one, weight=weight) for one in now[name].files)
                        now[name] = replace(now[name], files=older)
                        space.update(now[name])
                case (str() as path, list() as imported):
                    graph = {**graph, path: imported}
                    space.patch_graph(path, imported)
        for profile in PROFILES:
            expect(scan := scanned(space, profile), list(now.values()), graph, floor)
            assert scan.links == scanned(filled(list(now.values()), graph, floor), profile).links, (
                "evidence too"
            )


@given(agents=airspaces, graph=graphs, reach=st.sampled_from([None, 1, 2]))
@settings(max_examples=100, deadline=None)
def test_what_lies_between_two_is_the_same_alone_and_among_others(
    agents: tuple[WorkingSet, ...], graph: dict[str, list[str]], reach: int | None
) -> None:
    space = PairScan(reach=reach)
    space.set_graph(graph)
    for one in agents:
        space.update(one)
    for a, b in itertools.combinations(agents, 2):
        assert oracle.read(space.near(a.agent, b.agent)) == oracle.near(a, b, graph, reach)
        if reach is None:
            assert facts_between(a, b, graph) == space.near(a.agent, b.agent)
            assert oracle.read(facts_between(b, a, graph)) == oracle.near(a, b, graph)


@given(agents=airspaces, graph=graphs, order=st.permutations(range(len(NAMES))), seed=st.randoms())
@settings(max_examples=60, deadline=None)
def test_the_order_of_the_input_does_not_matter(
    agents: tuple[WorkingSet, ...], graph: dict[str, list[str]], order: list[int], seed: object
) -> None:
    def shuffled(one: WorkingSet) -> WorkingSet:
        return replace(one, files=tuple(sorted(one.files, key=lambda _: seed.random())))  # type: ignore[attr-defined]

    other = {path: list(reversed(graph[path])) for path in reversed(list(graph))}
    for profile in PROFILES:
        one = scanned(filled(agents, graph), profile)
        two = scanned(filled([shuffled(agents[at]) for at in order], other), profile)
        assert one == two, "evidence too"


@pytest.mark.parametrize("profile", PROFILES)
def test_the_strongest_coupling_is_found_where_the_nearest_files_fade(profile: str) -> None:
    """What is kept of a pair to weigh it again are its nearest files; then a farther one is stronger, then not."""
    graph = {"n.py": ["near.py"], "f.py": ["m1.py"], "m1.py": ["m2.py"], "m2.py": ["far.py"]}
    there = set_of("B", "near.py", "far.py")
    space = filled([set_of("A", "n.py", "f.py"), there], graph)
    for near, far in ((1.0, 1.0), (0.9, 0.9), (0.15, 1.0), (0.15, 0.9), (0.9, 0.2), (0.25, 1.0)):
        weights = {"n.py": near, "f.py": far}
        here = set_of("A", "n.py", "f.py")
        here = replace(here, files=tuple(replace(one, weight=weights[one.path]) for one in here.files))
        space.update(here)
        expect(scan := scanned(space, profile), [here, there], graph)
        assert scan.links == scanned(filled([here, there], graph), profile).links, "evidence too"


def test_a_merge_is_handed_to_the_profile_and_makes_a_pair_touch() -> None:
    space = filled([set_of("A", "x/a.py"), set_of("B", "y/b.py"), set_of("C", "z/c.py")], {}, floor=0.05)
    assert space.scan(MERGES).looked_at == 0
    scan = space.scan(MERGES, {("A", "C"): Merge(("x/a.py",)), ("A", "GONE"): Merge()})
    assert [(one.a, one.b, one.level.word) for one in scan.links] == [("A", "C", "resolution")]
    assert space.scan(MERGES).links == (), "it is not remembered"
    assert [one.risk for one in space.scan(MERGES, {("A", "C"): Merge()}).links] == []


def test_intent_makes_a_pair_touch() -> None:
    a, b = set_of("A", "x/a.py"), WorkingSet("B", intent=(FileTouch("x/a.py"),))
    c = WorkingSet("C", intent=(FileTouch("x/a.py"), FileTouch("q/w.py")))
    space = filled([a, b, c, WorkingSet("D", intent=(FileTouch("r.py"),))], {}, floor=0.05)
    assert space.scan(MERGES).looked_at == 3
    space.update(replace(b, intent=()))
    assert space.scan(MERGES).looked_at == 1


def test_symbols_are_asked_once_until_something_changes() -> None:
    asked: list[tuple[str, str]] = []

    class Known:
        def facts(self, a: WorkingSet, b: WorkingSet) -> SymbolFindings:
            asked.append((a.agent, b.agent))
            return SymbolFindings(tests=(SharedTest("t.py", "src/x.py", "src/x.py"),))

    a, b = set_of("A", "src/x.py"), set_of("B", "src/x.py")
    space = filled([b, a, set_of("C", "far/z.py")], {}, floor=0.05)
    space.set_symbols(Known())
    for _ in range(2):
        assert [one.risk for one in space.scan(TESTS).links] == [0.5]
    assert asked == [("A", "B")]
    space.update(replace(a, files=(replace(a.files[0], weight=0.5),)))
    space.scan(TESTS)
    assert asked == [("A", "B")], "weights are none of their business"
    space.update(replace(a, files=(replace(a.files[0], lines=(Span(1, 2),)),)))
    space.scan(TESTS)
    assert asked == [("A", "B")] * 2
    space.patch_graph("src/x.py", ["far/z.py"])
    space.scan(TESTS)
    assert sorted(asked[2:]) == [("A", "B"), ("A", "C"), ("B", "C")]


def test_what_did_not_change_is_not_assessed_again() -> None:
    calls: list[tuple[str, str]] = []

    class Counting:
        name, thresholds = "counting", THRESHOLDS

        def assess(self, a: WorkingSet, b: WorkingSet, near: PairFacts) -> Assessment:
            calls.append((a.agent, b.agent))
            return FORMULAS["seed"].assess(a, b, near)

    profile = Counting()
    space = filled([set_of(name, "src/x.py") for name in "ABCD"], {})
    assert len(space.scan(profile).links) == 6 == len(calls)
    space.update(set_of("A", "src/x.py"))
    space.scan(profile)
    assert len(calls) == 6, "an equal set is no change"
    space.update(set_of("A", "src/y.py"))
    space.scan(profile)
    assert calls[6:] == [("A", "B"), ("A", "C"), ("A", "D")]


def test_no_agent_and_one_agent_have_no_links() -> None:
    assert scanned(PairScan(), "seed") == Scan("seed", (), (), 0)
    assert scanned(filled([set_of("A", "a.py")], {}), "seed") == Scan("seed", ("A",), (), 0)


def test_both_leave_the_folder_they_shared_in_one_step() -> None:
    space = filled([set_of("A", "src/x.py"), set_of("B", "src/y.py")], {})
    assert [one.assessment.channels["tree"].risk for one in scanned(space, "seed").links] == [0.5]
    space.update(set_of("A", "lib/x.py"))
    space.update(set_of("B", "doc/y.py"))
    assert [one.risk for one in scanned(space, "seed").links] == [0.0]


@pytest.mark.parametrize("floor", [-0.1, 1.0, 2.0])
def test_a_floor_is_a_risk(floor: float) -> None:
    with pytest.raises(ValueError, match="floor"):
        PairScan(floor=floor)


def set_of(name: str, *paths: str) -> WorkingSet:
    return WorkingSet(name, tuple(FileTouch(path, Change.MODIFIED) for path in paths))


class _Merges:
    name, thresholds = "merges", THRESHOLDS

    def assess(self, a: WorkingSet, b: WorkingSet, near: PairFacts) -> Assessment:
        return assess({"merge": Reading(float(near.merge is not None and not near.merge.clean))}, THRESHOLDS)


class _Tests:
    name, thresholds = "tests", THRESHOLDS

    def assess(self, a: WorkingSet, b: WorkingSet, near: PairFacts) -> Assessment:
        return assess({"tests": Reading(float(bool(near.tests)), 0.5)}, THRESHOLDS)


MERGES, TESTS = _Merges(), _Tests()
