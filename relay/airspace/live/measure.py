"""The live measuring: the warm scan, its graph and its coordinates, behind one face for the observer.

Invariant: `scan` runs in a thread, one at a time; a graph that the event loop hands over meanwhile is taken in by the
next scan. Only a room in which somebody has something in hand loads numpy, and in that thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import is_not
from typing import TYPE_CHECKING

from relay.airspace.live.picture import Picture, Point
from relay.airspace.pair_facts import Likeness
from relay.airspace.profiles.calibrated import PROFILES
from relay.airspace.profiles.formulas import Profile
from relay.airspace.scan.symbol_hazards import SymbolFacts
from relay.config.airspace import AirspaceSettings
from relay.git.trial_merge import Merge
from relay.model.working_set import Pair, WorkingSet

if TYPE_CHECKING:
    from relay.airspace.live.embedding import Embedding
    from relay.airspace.scan.scan import PairScan

#: Files whose imports may differ for a graph to be patched: beyond, building it anew is quicker.
FEW = 100

#: File -> the files that it imports; and what its symbols say, None where they are not known.
Graph = tuple[Mapping[str, tuple[str, ...]], SymbolFacts | None]


class LiveMeasure:
    """The scan over working sets that change, by the profile and the floor that are set at the time."""

    def __init__(self, settings: Callable[[], AirspaceSettings]) -> None:
        self._settings = settings
        self._embedding: Embedding | None = None
        self._space: PairScan | None = None
        self._agents: set[str] = set()
        #: What the last picture was made of.
        self._seen: tuple[object, ...] = ()
        self._picture = Picture()
        #: The graph as it is now, and as the scan has it.
        self._graph: Graph = ({}, None)
        self._scanned: Graph = ({}, None)

    @property
    def profile(self) -> Profile:
        """The profile in use."""
        return PROFILES[self._settings().profile]

    def take_graph(self, adjacency: Mapping[str, tuple[str, ...]], symbols: SymbolFacts | None) -> None:
        """The graph and its symbols as they are now. From any thread."""
        self._graph = adjacency, symbols

    def scan(
        self,
        sets: Sequence[WorkingSet],
        merges: Mapping[Pair, Merge],
        words: Mapping[Pair, Likeness] | None = None,
    ) -> Picture:
        if self._space is None and not words and not any(each.files or each.intent for each in sets):
            self._picture = Picture(positions=at_rest([working_set.agent for working_set in sets]))
            return self._picture
        from relay.airspace.live.embedding import Embedding

        space = self._ready()
        for working_set in sets:
            space.update(working_set)
        agents = {working_set.agent for working_set in sets}
        for gone in self._agents - agents:
            space.remove(gone)
        self._agents = agents
        seen = space.scan(self.profile, merges, words)
        now = (seen, space.graph, space.graph.version, *space.working_sets())
        # The scan keeps what did not change, so it is told by identity.
        if len(now) != len(self._seen) or any(map(is_not, now, self._seen)):
            self._embedding = self._embedding or Embedding(self._picture.positions)
            placed = self._embedding.place(space.working_sets(), seen.links, space.graph)
            links = {(link.a, link.b): link.assessment for link in seen.links}
            self._picture, self._seen = Picture(links, placed.positions, placed.files), now
        return self._picture

    def _ready(self) -> PairScan:
        """The scan over the graph as it is now; a new one for another floor."""
        from relay.airspace.scan.scan import PairScan

        floor = self._settings().floor
        if self._space is None or self._space.floor != floor:
            self._space, self._agents, self._scanned = PairScan(floor=floor), set(), ({}, None)
        before, self._scanned = self._scanned, self._graph
        if self._scanned is not before:
            (known, _), (graph, symbols) = before, self._scanned
            changed = {path for path in graph.keys() | known.keys() if graph.get(path) != known.get(path)}
            if len(changed) > FEW:
                self._space.set_graph(graph)
            else:
                for path in changed:
                    self._space.patch_graph(path, graph.get(path, ()))
            self._space.set_symbols(symbols)
        return self._space

    def files(self) -> tuple[str, ...]:
        """The files that the graph knows."""
        return tuple(self._graph[0])


def at_rest(agents: Sequence[str]) -> dict[str, Point]:
    """Where agents are while none has anything in hand, and so each pair has D = 1: even on a sphere (by the golden
    angle), with this distance in the mean. Pure."""
    many = len(agents)
    points = []
    for at in range(many):
        turn, height = at * math.pi * (3 - math.sqrt(5)), 1 - (2 * at + 1) / many
        out = math.sqrt(1 - height**2)
        points.append((out * math.cos(turn), out * math.sin(turn), height))
    middle = [sum(axis) / many for axis in zip(*points, strict=True)]
    # Of points at 1 from a place, the mean square of their distances follows from where their middle is.
    square = 2 * many * (1 - sum(at**2 for at in middle)) / max(1, many - 1)
    unit = 1 / math.sqrt(square) if many > 1 else 1.0

    def placed(point: Point) -> Point:
        x, y, z = (round((at - about) * unit, 6) for at, about in zip(point, middle, strict=True))
        return x, y, z

    return {agent: placed(point) for agent, point in zip(agents, points, strict=True)}
