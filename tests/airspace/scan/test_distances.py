"""The search of many files at once is the search of each, and the strongest pair is the strongest of all."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay.airspace.scan.coupling import strongest
from relay.airspace.scan.import_distances import FAR, Dependencies


def made(seed: int, nodes: int, edges: int) -> dict[str, list[str]]:
    """With loops, doubled edges and files that nothing leads to."""
    chance = random.Random(seed)
    found: dict[str, list[str]] = {f"f{at}": [] for at in range(nodes)}
    for _ in range(edges):
        found[f"f{chance.randrange(nodes)}"].append(f"f{chance.randrange(nodes)}")
    return found


def searched(adjacency: Mapping[str, Sequence[str]], start: str) -> dict[str, int]:
    found, level = {start: 0}, [start]
    while level:
        level = [end for path in level for end in adjacency.get(path, ()) if end not in found
                 and found.setdefault(end, found[path] + 1)]  # fmt: skip
    return found


def reverse(adjacency: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path, imported in adjacency.items():
        for end in imported:
            found.setdefault(end, []).append(path)
    return found


@pytest.mark.parametrize("limit", [None, 1, 3])
@pytest.mark.parametrize("count", [1, 3, 4, 64, 65, 150])
@pytest.mark.parametrize(("nodes", "edges"), [(300, 900), (300, 200), (40, 0)])
def test_hops(nodes: int, edges: int, count: int, limit: int | None) -> None:
    adjacency = made(nodes + edges, nodes, edges)
    back = reverse(adjacency)
    both = {path: [*adjacency[path], *back.get(path, ())] for path in adjacency}
    graph = Dependencies(adjacency)
    chance = random.Random(count)
    sources = chance.sample(sorted(adjacency), min(count, nodes))
    targets = chance.sample(sorted(adjacency), nodes // 2)
    rows, columns = (np.array([graph.node(path) for path in paths]) for paths in (sources, targets))
    far = 254 if limit is None else limit
    any_, directed = graph.hops(rows, columns, limit), graph.directed_hops(rows, columns, limit)
    for row, source in enumerate(sources):
        around, along, against = (searched(one, source) for one in (both, adjacency, back))
        for column, target in enumerate(targets):
            hops = around.get(target, FAR)
            assert any_[row, column] == (hops if hops <= far else FAR)
            hops = min(along.get(target, FAR), against.get(target, FAR))
            assert directed[row, column] == (hops if hops <= far else FAR)


def test_a_chain_longer_than_a_byte_counts() -> None:
    graph = Dependencies({f"f{at}": [f"f{at + 1}"] for at in range(300)})
    targets = np.array([graph.node(f"f{at}") for at in (253, 254, 255, 300)])
    for count in (1, 8):  # one search a file, and many at once
        sources = np.array([graph.node(f"f{at}") for at in range(count)])
        assert graph.hops(sources, targets)[0].tolist() == [253, 254, FAR, FAR]


def test_a_graph_is_patched() -> None:
    graph = Dependencies({"a": ["b"], "b": ["c"]})
    assert (len(graph), graph.neighbours("b")) == (3, ["a", "c"])
    assert not graph.patch("a", ["b"]) and not graph.patch("a", ["b", "b", "a"]), "nothing else than before"
    assert not graph.patch("c", [])
    version = graph.version
    assert graph.patch("a", ["d"]) and graph.version > version
    assert (len(graph), graph.neighbours("a"), graph.neighbours("b")) == (4, ["d"], ["c"])
    assert graph.neighbours("nowhere") == []


cells = st.sampled_from([1, 1, 2, 3, 5, 9, 254, FAR])
weights = st.sampled_from([1.0, 0.9, 0.5, 0.15, 1e-6])


@given(st.data(), st.integers(1, 5), st.integers(1, 5))
@settings(max_examples=400, deadline=None)
def test_the_strongest(data: st.DataObject, height: int, width: int) -> None:
    block = [[data.draw(cells) for _ in range(width)] for _ in range(height)]
    rows, columns = ([data.draw(weights) for _ in range(count)] for count in (height, width))
    best = strongest(np.array(block, dtype=np.uint8), np.array(rows), np.array(columns))
    shares = {
        (row, column): 0.5 ** (hops - 1) * rows[row] * columns[column]
        for row, listed in enumerate(block)
        for column, hops in enumerate(listed)
        if hops != FAR
    }
    if not shares:
        assert best[0] == 0.0
        return
    row, column = min(shares, key=lambda at: (-shares[at], *at))
    assert best == (shares[row, column], row * width + column)
