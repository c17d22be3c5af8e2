"""Where files and agents are in space: what the view draws (000, section 4; the issue's "The view").

Invariant: the same working sets give the same positions, always finite; a scan in which nothing changed moves
nobody, and one agent's move does not turn the others' cloud.

`plain` is the source's embedding: a file where its path puts it, an agent in the middle of its files. Distances
between such agents say little of D (measured by scripts.bench.airspace), so `Embedding` starts from there and
moves agents by stress majorization until their distances are in the order of D, and takes their files along.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from relay.airspace.profiles.formulas import edits
from relay.airspace.scan.import_distances import Dependencies, Floats
from relay.airspace.scan.scan import Link
from relay.model.working_set import WorkingSet

Position = tuple[float, float, float]

#: The view is three-dimensional (000, section 4).
_AXES = 3
#: How far a file is pulled toward the middle of its dependency neighbours, "by one averaging step" (000, section
#: 4): the origin's library takes 0.35.
PULL = 0.35
#: The view's unit is D = 1. A path's coordinates reach to 2 from the middle, twice as far as agents apart.
_SCALE = 0.5
#: Distances wanted: this much the rank of D among all pairs, the rest D itself. Ranks are what a rank correlation
#: asks for; D itself keeps two lone agents crawling toward each other. Measured on the pairs of branches.
_RANKS = 0.75
#: An agent is held where it was by this share of what all others pull: so a change elsewhere does not turn it.
#: Measured: 0.3 moves bystanders less, and takes 0.01 of the correlation.
_ANCHOR = 0.1
#: Steps of majorization at most, and the part of the stress that a further step must save. A first placement
#: takes about 60 on 30 agents; a later one starts where it was.
_STEPS = 100
_SAVES = 1e-3


@dataclass(frozen=True, slots=True)
class Placement:
    """Positions of agents by id and of files by path, in units of D."""

    positions: Mapping[str, Position]
    files: Mapping[str, Position]


@lru_cache(maxsize=65_536)
def path_coordinate(path: str) -> Floats:
    """A space-filling embedding: each prefix of the path adds its own direction, half as long as the prefix
    before. So files with a long common prefix share most of their coordinate. Each component is in [-2, 2]."""
    at = np.zeros(_AXES)
    parts = path.split("/")
    for level in range(len(parts)):
        at += _direction("/".join(parts[: level + 1])) / 2**level
    at.setflags(write=False)  # it is kept
    return at


def _direction(text: str) -> Floats:
    """Components in [-1, 1), the same on every machine."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return np.frombuffer(digest[: 4 * _AXES], dtype=">u4") / 2.0**31 - 1.0


def file_coordinates(paths: Iterable[str], graph: Dependencies) -> dict[str, Floats]:
    """Each path's coordinate, pulled toward the middle of its dependency neighbours' by one averaging step."""
    coordinates = {}
    for path in paths:
        own = path_coordinate(path)
        around = [path_coordinate(neighbour) for neighbour in sorted(graph.neighbours(path))]
        coordinates[path] = (1 - PULL) * own + PULL * np.mean(around, axis=0) if around else own
    return coordinates


def plain(agents: Sequence[WorkingSet], graph: Dependencies) -> Placement:
    """The source's own embedding: an agent at the weighted centroid of its files."""
    files = file_coordinates(_paths(agents), graph)
    return Placement(
        {working_set.agent: _position(_centroid(working_set, files)) for working_set in agents},
        {path: _position(at) for path, at in files.items()},
    )


def cloud(adjacency: Mapping[str, Iterable[str]]) -> dict[str, Position]:
    """Where all files of a repository are, in the view's unit, when nobody works on them."""
    coordinates = file_coordinates(adjacency, Dependencies(adjacency))
    return {path: _position(at * _SCALE) for path, at in coordinates.items()}


def _paths(agents: Iterable[WorkingSet]) -> list[str]:
    return sorted({path for working_set in agents for path in edits(working_set.files)})


def _centroid(agent: WorkingSet, files: Mapping[str, Floats]) -> Floats:
    """The middle of everything, for an agent without files."""
    by_path = edits(agent.files)
    if not by_path:
        return np.zeros(_AXES)
    paths = sorted(by_path)
    weights = [by_path[path].weight for path in paths]
    return np.asarray(np.average([files[path] for path in paths], axis=0, weights=weights))


def _position(at: Floats) -> Position:
    x, y, z = (round(float(component), 6) for component in at)
    return x, y, z


class Embedding:
    """Positions that last from scan to scan; `start`: where agents were before the first. Belongs to one thread at a
    time."""

    def __init__(self, start: Mapping[str, Position] = MappingProxyType({})) -> None:
        self._files: dict[str, Floats] = {}
        self._graph: tuple[Dependencies, int] | None = None
        self._at: dict[str, Floats] = {name: np.array(at) for name, at in start.items()}
        self._wanted: tuple[tuple[str, ...], Floats] | None = None

    def place(self, agents: Sequence[WorkingSet], links: Iterable[Link], graph: Dependencies) -> Placement:
        """Everybody's position. A pair without a link has D = 1."""
        agents = sorted(agents, key=lambda working_set: working_set.agent)
        names = tuple(working_set.agent for working_set in agents)
        files = self._coordinates(agents, graph)
        middles = (
            np.array([_centroid(working_set, files) for working_set in agents]).reshape(-1, _AXES) * _SCALE
        )
        apart = _apart(names, links)
        if self._wanted is None or self._wanted[0] != names or not np.array_equal(self._wanted[1], apart):
            moved = self._settle(names, middles, apart)
            self._at = dict(zip(names, moved, strict=True))
            self._wanted = (names, apart)
        positions = np.array([self._at[name] for name in names]).reshape(-1, _AXES)
        return Placement(
            {name: _position(at) for name, at in zip(names, positions, strict=True)},
            _taken_along(agents, files, positions - middles),
        )

    def _coordinates(self, agents: Sequence[WorkingSet], graph: Dependencies) -> Mapping[str, Floats]:
        paths = _paths(agents)
        if self._graph != (graph, graph.version):
            self._files, self._graph = {}, (graph, graph.version)
        known = {path: self._files[path] for path in paths if path in self._files}
        new = file_coordinates([path for path in paths if path not in known], graph)
        self._files = known | new
        return self._files

    def _settle(self, names: Sequence[str], middles: Floats, apart: Floats) -> Floats:
        if len(names) < 2:
            return np.array([self._at.get(n, m) for n, m in zip(names, middles, strict=True)]).reshape(
                -1, _AXES
            )
        stayed = np.array([name in self._at for name in names])
        start = middles.copy()
        for at in np.flatnonzero(stayed).tolist():
            start[at] = self._at[names[at]]
        for at in np.flatnonzero(~stayed).tolist():
            # A new agent begins beside those that it is near to.
            near = np.where(stayed, (1.0 - apart[at]) ** 2, 0.0)
            if near.sum() > 0:
                start[at] = near @ start / near.sum()
            # Two that begin in one place could not leave it in different directions.
            start[at] += _direction(names[at]) * 1e-3
        return majorized(wanted(apart), start, np.where(stayed, _ANCHOR * len(names), 0.0))


def _apart(names: Sequence[str], links: Iterable[Link]) -> Floats:
    """D of every pair, 1 without a link; the diagonal is 0. To six decimals: what is equal is to tie."""
    row = {name: at for at, name in enumerate(names)}
    apart = np.ones((len(names), len(names)))
    np.fill_diagonal(apart, 0.0)
    for link in links:
        if link.a in row and link.b in row:
            a, b = row[link.a], row[link.b]
            apart[a, b] = apart[b, a] = round(link.assessment.distance, 6)
    return apart


def wanted(apart: Floats) -> Floats:
    """The distances to draw for D: of the same order, and spread by rank. Equal D has equal ranks."""
    upper = np.triu_indices(len(apart), 1)
    values = apart[upper]
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[which] / len(values)
    # A single distance, or one that all share, has nothing to be ranked among.
    share = _RANKS * (1.0 - (counts.max() / len(values)) ** 2)
    drawn = np.zeros_like(apart)
    drawn[upper] = share * ranks + (1.0 - share) * values
    return drawn + drawn.T


def majorized(drawn: Floats, start: Floats, anchors: Floats) -> Floats:
    """Positions x that lower sum (|x_i - x_j| - drawn_ij)^2 + sum anchor_i |x_i - start_i|^2, from `start`
    (SMACOF: de Leeuw, 1977; each step lowers it or leaves it)."""
    count = len(drawn)
    at = start
    before = np.inf
    for _ in range(_STEPS):
        lengths = _lengths(at)
        stress = float(((lengths - drawn) ** 2).sum() / 2 + (anchors[:, None] * (at - start) ** 2).sum())
        if stress >= before * (1.0 - _SAVES):
            break
        before = stress
        pull = -drawn / np.maximum(lengths, 1e-9)
        np.fill_diagonal(pull, 0.0)
        np.fill_diagonal(pull, -pull.sum(axis=1))
        at = _solved(pull @ at + anchors[:, None] * start, count + anchors)
        if not anchors.any():
            at = at + start.mean(axis=0)  # nothing else says where the cloud is
    return at


def _solved(right: Floats, diagonal: Floats) -> Floats:
    """x with (diag(d) - 1 1') x = right, by Sherman and Morrison; the least x, where d = n leaves it open."""
    inverse = 1.0 / diagonal
    scaled = inverse[:, None] * right
    rest = 1.0 - float(inverse.sum())
    if rest < 1e-12:
        return np.asarray(scaled - scaled.mean(axis=0))
    return np.asarray(scaled + inverse[:, None] * (scaled.sum(axis=0) / rest))


def _lengths(at: Floats) -> Floats:
    squares = (at**2).sum(axis=1)
    lengths: Floats = np.sqrt(np.maximum(squares[:, None] + squares - 2.0 * (at @ at.T), 0.0))
    np.fill_diagonal(lengths, 0.0)
    return lengths


def _taken_along(
    agents: Sequence[WorkingSet], files: Mapping[str, Floats], moves: Floats
) -> dict[str, Position]:
    """The files in the view's unit, each with the weighted mean of the moves of the agents that work on it: so an
    agent stays in the middle of the files that are its own."""
    moved: dict[str, Floats] = {path: np.zeros(_AXES) for path in files}
    weights = dict.fromkeys(files, 0.0)
    for agent, move in zip(agents, moves, strict=True):
        for path, edit in edits(agent.files).items():
            moved[path] += edit.weight * move
            weights[path] += edit.weight
    return {path: _position(at * _SCALE + moved[path] / weights[path]) for path, at in files.items()}
