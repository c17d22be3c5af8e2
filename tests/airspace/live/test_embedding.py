"""Where agents and files are drawn: finite, the same each time, in the order of D, and still where nothing moves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from relay.airspace.live.embedding import (
    PULL,
    Embedding,
    Placement,
    file_coordinates,
    majorized,
    path_coordinate,
    plain,
    wanted,
)
from relay.airspace.profiles.formulas import FORMULAS
from relay.airspace.readings import Assessment, Level
from relay.airspace.scan.import_distances import Dependencies
from relay.airspace.scan.scan import Link, PairScan
from relay.model.working_set import FileTouch, WorkingSet
from tests.airspace.scan.test_scan import airspaces, graphs

NO_GRAPH = Dependencies()


def working(name: str, *paths: str, weight: float = 1.0) -> WorkingSet:
    return WorkingSet(name, tuple(FileTouch(path, weight=weight) for path in paths))


def link(a: str, b: str, distance: float) -> Link:
    return Link(a, b, Assessment(1.0 - distance, Level.CLEAR))


def apart(placed: Placement, a: str, b: str) -> float:
    return math.dist(placed.positions[a], placed.positions[b])


# -- the source's embedding


def test_a_long_common_prefix_is_most_of_the_coordinate() -> None:
    base = path_coordinate("src/core/auth/session.py")
    same_folder = np.abs(base - path_coordinate("src/core/auth/token.py")).max()
    # The fourth component is all that differs, and it counts an eighth: at most 2 / 8.
    assert 0 < same_folder <= 0.25
    assert np.abs(base - path_coordinate("src/web/page.py")).max() > 0.25
    assert np.array_equal(base, path_coordinate("src/core/auth/session.py"))


def test_a_file_is_pulled_to_the_middle_of_its_neighbours() -> None:
    graph = Dependencies({"a.py": ["b.py", "c.py"], "d.py": ["a.py"]})
    own = {name: path_coordinate(f"{name}.py") for name in "abcd"}
    found = file_coordinates(["a.py", "b.py", "e.py"], graph)
    middle = (own["b"] + own["c"] + own["d"]) / 3
    assert found["a.py"] == pytest.approx((1 - PULL) * own["a"] + PULL * middle)
    assert found["b.py"] == pytest.approx((1 - PULL) * own["b"] + PULL * own["a"])
    assert found["e.py"] == pytest.approx(path_coordinate("e.py"))


def test_an_agent_is_at_the_weighted_centroid() -> None:
    agent = WorkingSet("A", (FileTouch("x.py", weight=0.75), FileTouch("y.py", weight=0.25)))
    placed = plain([agent], NO_GRAPH)
    wanted_at = 0.75 * path_coordinate("x.py") + 0.25 * path_coordinate("y.py")
    assert placed.positions["A"] == pytest.approx(tuple(wanted_at), abs=1e-6)
    assert placed.files["x.py"] == pytest.approx(tuple(path_coordinate("x.py")), abs=1e-6)


# -- ours


@given(agents=airspaces, graph=graphs)
@settings(max_examples=60, deadline=None)
def test_it_is_finite_and_the_same_each_time(
    agents: tuple[WorkingSet, ...], graph: dict[str, list[str]]
) -> None:
    space = PairScan()
    space.set_graph(graph)
    for one in agents:
        space.update(one)
    links = space.scan(FORMULAS["seed"]).links
    lasting = Embedding()
    first = lasting.place(agents, links, space.graph)
    assert first == Embedding().place(tuple(reversed(agents)), tuple(reversed(links)), space.graph)
    assert first == lasting.place(agents, links, space.graph), "nothing changed, nobody moves"
    assert first.positions.keys() == {one.agent for one in agents}
    assert first.files.keys() == {path for one in agents for file in one.files for path in file.paths}
    for at in itertools.chain(first.positions.values(), first.files.values()):
        assert all(math.isfinite(one) for one in at)


def test_nobody_and_one_agent_and_one_without_files() -> None:
    assert Embedding().place([], [], NO_GRAPH) == Placement({}, {})
    alone = Embedding().place([working("A", "x.py")], [], NO_GRAPH)
    assert alone.positions["A"] == alone.files["x.py"]
    empty = Embedding().place([working("A"), working("B"), working("C", "x.py")], [], NO_GRAPH)
    assert all(math.isfinite(one) for at in empty.positions.values() for one in at)
    assert apart(empty, "A", "B") > 0.5, "D = 1 is far, wherever they start"


def test_identical_agents_are_in_one_place() -> None:
    agents = [working(name, "src/x.py") for name in "ABC"] + [working("D", "lib/y.py")]
    links = [link(a, b, 0.0) for a, b in itertools.combinations("ABC", 2)]
    placed = Embedding().place(agents, links, NO_GRAPH)
    near = max(apart(placed, a, b) for a, b in itertools.combinations("ABC", 2))
    assert near < 0.25 * min(apart(placed, a, "D") for a in "ABC")


def test_two_agents_crawl_toward_each_other() -> None:
    agents, lasting = [working("A", "x/a.py"), working("B", "y/b.py")], Embedding()
    seen = []
    for distance in (1.0, 0.8, 0.5, 0.2, 0.05):
        placed = lasting.place(agents, [link("A", "B", distance)], NO_GRAPH)
        seen.append(apart(placed, "A", "B"))
    assert seen == sorted(seen, reverse=True)
    assert seen[0] > 0.9 and seen[-1] < 0.3


def test_an_agent_is_in_the_middle_of_the_files_that_are_its_own() -> None:
    agents = [working("A", "x/a.py", "x/b.py"), working("B", "y/c.py"), working("C", "z/d.py", "z/e.py")]
    placed = Embedding().place(agents, [link("A", "B", 0.3)], NO_GRAPH)
    for one in agents:
        middle = np.mean([placed.files[file.path] for file in one.files], axis=0)
        assert placed.positions[one.agent] == pytest.approx(tuple(middle), abs=1e-5)


def clustered(seed: int, count: int) -> tuple[list[WorkingSet], list[Link]]:
    """Agents in three groups: near inside, far outside, by chance how near."""
    chance = np.random.default_rng(seed)
    names = [f"A{at:02}" for at in range(count)]
    links = []
    for (i, a), (j, b) in itertools.combinations(enumerate(names), 2):
        if i % 3 == j % 3:
            links.append(link(a, b, float(chance.uniform(0.1, 0.6))))
    return [working(name, f"g{at % 3}/f{at}.py") for at, name in enumerate(names)], links


def correlation(placed: Placement, agents: Sequence[WorkingSet], links: Sequence[Link]) -> float:
    known = {(one.a, one.b): one.assessment.distance for one in links}
    pairs = list(itertools.combinations([one.agent for one in agents], 2))
    from scipy.stats import spearmanr  # late: each worker imports this module to collect the tests

    told = spearmanr([apart(placed, *pair) for pair in pairs], [known.get(pair, 1.0) for pair in pairs])
    return float(told.statistic)


def test_distances_are_in_the_order_of_d() -> None:
    agents, links = clustered(1, 12)
    ours = correlation(Embedding().place(agents, links, NO_GRAPH), agents, links)
    assert ours >= 0.70, "the issue's reach"
    assert ours > correlation(plain(agents, NO_GRAPH), agents, links)


def test_one_agents_move_does_not_turn_the_cloud() -> None:
    agents, links = clustered(2, 15)
    lasting = Embedding()
    before = lasting.place(agents, links, NO_GRAPH)
    # A00 leaves its group for the next one.
    elsewhere = [one for one in links if one.a != "A00"] + [
        link("A00", f"A{at:02}", 0.3) for at in (1, 4, 7, 10, 13)
    ]
    after = lasting.place(
        [replace(agents[0], files=(FileTouch("g1/f0.py"),)), *agents[1:]], elsewhere, NO_GRAPH
    )
    moves = {name: math.dist(before.positions[name], after.positions[name]) for name in before.positions}
    others = [moved for name, moved in moves.items() if name != "A00"]
    assert moves["A00"] > 3 * float(np.median(others)), "it is seen to go"
    assert float(np.median(others)) < 0.1
    assert correlation(after, agents, elsewhere) >= 0.70


def test_who_comes_and_goes_leaves_the_others_about_where_they_were() -> None:
    agents, links = clustered(3, 9)
    lasting = Embedding()
    before = lasting.place(agents[:-1], links, NO_GRAPH)
    more = lasting.place(agents, links, NO_GRAPH)
    less = lasting.place(agents[:-1], links, NO_GRAPH)
    assert set(less.positions) == set(before.positions)
    for name in before.positions:
        assert math.dist(before.positions[name], more.positions[name]) < 0.25
        assert math.dist(before.positions[name], less.positions[name]) < 0.25


# -- its parts


def test_wanted_distances_keep_the_order_and_the_ties() -> None:
    given_ = np.array([[0, 0.2, 1, 1], [0.2, 0, 1, 0.6], [1, 1, 0, 1], [1, 0.6, 1, 0]], dtype=float)
    drawn = wanted(given_)
    assert np.array_equal(drawn, drawn.T) and not drawn.diagonal().any()
    assert drawn[0, 1] < drawn[1, 3] < drawn[0, 2] == drawn[0, 3] == drawn[1, 2]


def test_a_lone_distance_is_drawn_as_it_is() -> None:
    assert wanted(np.array([[0, 0.4], [0.4, 0]]))[0, 1] == pytest.approx(0.4)


def test_majorization_draws_what_can_be_drawn() -> None:
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])
    drawn = np.sqrt(((corners[:, None] - corners) ** 2).sum(axis=2))
    chance = np.random.default_rng(0)
    at = majorized(drawn, corners + chance.normal(0, 0.3, (4, 3)), np.zeros(4))
    found = np.sqrt(((at[:, None] - at) ** 2).sum(axis=2))
    assert np.abs(found - drawn).max() < 0.05
