"""The live measuring: the warm scan, its graph and its coordinates, behind one door for the scanner.

Invariant: `scan` runs in a thread, one at a time; what the event loop tells it meanwhile (the graph, a file of it)
waits for the next scan, and nothing of it is lost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from relay.airspace.live.embedding import Embedding
from relay.airspace.live.picture import Picture
from relay.airspace.pair_facts import Likeness
from relay.airspace.profiles.formulas import Profile
from relay.airspace.readings import Thresholds
from relay.airspace.scan.scan import PairScan
from relay.airspace.scan.symbol_hazards import SymbolFacts
from relay.git.trial_merge import Merge
from relay.model.working_set import Pair, WorkingSet

#: Files whose imports may differ for a graph to be patched: beyond, building it anew is quicker.
FEW = 100


class LiveMeasure:
    """The scan over working sets that change. `profile` and `floor` are asked anew
    each scan."""

    def __init__(
        self,
        profile: Callable[[], Profile],
        floor: Callable[[], float],
        *,
        graph_state: Callable[[], dict[str, Any]] | None = None,
    ) -> None:
        self._profile = profile
        self._floor = floor
        self._embedding = Embedding()
        self._graph_state = graph_state
        self._space = PairScan(floor=floor())
        self._agents: set[str] = set()
        self._graph: dict[str, tuple[str, ...]] = {}
        self._symbols: SymbolFacts | None = None
        self._lock = threading.Lock()
        self._waiting: list[Callable[[PairScan], None]] = []

    @property
    def thresholds(self) -> Thresholds:
        return self._profile().thresholds

    def set_graph(self, adjacency: Mapping[str, Iterable[str]]) -> None:
        """Another graph altogether: file -> the files that it imports."""
        graph = {path: tuple(imported) for path, imported in adjacency.items()}

        def work(space: PairScan) -> None:
            self._graph = graph
            space.set_graph(graph)

        self._later(work)

    def take_graph(self, adjacency: Mapping[str, tuple[str, ...]]) -> None:
        """The graph as it is now; where little differs from the last one, only that is taken in."""

        def work(space: PairScan) -> None:
            before, self._graph = self._graph, dict(adjacency)
            changed = {path for path, now in self._graph.items() if before.get(path) != now}
            changed |= before.keys() - self._graph.keys()
            if len(changed) > FEW:
                space.set_graph(self._graph)
                return
            for path in changed:
                space.patch_graph(path, self._graph.get(path, ()))

        self._later(work)

    def patch_graph(self, path: str, imported: Iterable[str]) -> None:
        """What one file imports now; nothing, when it is gone."""
        now = tuple(imported)

        def work(space: PairScan) -> None:
            self._graph[path] = now
            space.patch_graph(path, now)

        self._later(work)

    def set_symbols(self, symbols: SymbolFacts | None) -> None:
        """Whoever knows the symbols; once more when they changed."""

        def work(space: PairScan) -> None:
            self._symbols = symbols
            space.set_symbols(symbols)

        self._later(work)

    def _later(self, work: Callable[[PairScan], None]) -> None:
        with self._lock:
            self._waiting.append(work)

    def scan(
        self,
        sets: Sequence[WorkingSet],
        merges: Mapping[Pair, Merge],
        words: Mapping[Pair, Likeness] | None = None,
    ) -> Picture:
        space = self._ready()
        for working_set in sets:
            space.update(working_set)
        for gone in self._agents - {working_set.agent for working_set in sets}:
            space.remove(gone)
        self._agents = {working_set.agent for working_set in sets}
        found = space.scan(self._profile(), merges, words)
        placed = self._embedding.place(space.working_sets(), found.links, space.graph)
        return Picture(
            {(link.a, link.b): link.assessment for link in found.links},
            placed.positions,
            placed.files,
            len(placed.files),
        )

    def _ready(self) -> PairScan:
        """The scan with all that was told since the last one."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for work in waiting:
            work(self._space)
        if self._space.floor != self._floor():
            self._space = PairScan(floor=self._floor())
            self._agents = set()
            self._space.set_graph(self._graph)
            self._space.set_symbols(self._symbols)
        return self._space

    def files(self) -> tuple[str, ...]:
        """The files that the graph knows."""
        return tuple(self._graph)

    def graph(self) -> dict[str, Any]:
        if self._graph_state is not None:
            return self._graph_state()
        edges = sum(len(imported) for imported in self._graph.values())
        return {"files": len(self._graph), "edges": edges, "failed": [], "building": False}
