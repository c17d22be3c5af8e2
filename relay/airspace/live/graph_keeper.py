"""The graph of the main checkout, kept up to date for the measuring.

Invariant: building and reading happen in other processes; a graph that cannot be built is logged and tried again, and
the airspace goes on without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from relay.airspace.live.measure import LiveMeasure
from relay.airspace.live.scanner import Scanner
from relay.airspace.scan.symbol_hazards import SymbolFacts
from relay.airspace.worktrees.working_sets import WorkingSetSource
from relay.code.code_graph import CodeGraph
from relay.code.read.extract import extract, unfit
from relay.code.read.grammar import language_of
from relay.code.service import GraphError, GraphService
from relay.store.ports import Store

if TYPE_CHECKING:
    from relay.airspace.live.embedding import Position

log = structlog.get_logger(__name__)
#: Seconds that changes of the main checkout are gathered: a merge or a checkout writes many files.
GATHER_S = 0.2
#: Seconds until a graph that could not be built is tried again.
AGAIN_S = 30.0


class GraphKeeper:
    """Keeps the graph of one checkout. `measure` takes each new one, with the symbols of the agents' own texts in
    `worktrees`; then the scanner looks."""

    def __init__(
        self, store: Store, measure: LiveMeasure, worktrees: WorkingSetSource, scanner: Scanner
    ) -> None:
        self._service = GraphService(store)
        self._measure, self._worktrees, self._scanner = measure, worktrees, scanner
        self._changed: set[str] = set()
        self._all = False
        self._wake = asyncio.Event()
        self._cloud: tuple[Mapping[str, tuple[str, ...]], Mapping[str, Position]] = ({}, {})
        #: Why there is no graph; empty when there is one.
        self.trouble = ""
        self._service.on_change = self._take

    def changed(self, paths: frozenset[str] | None) -> None:
        """Files of the checkout changed; None: anything may have."""
        if paths is None:
            self._all = True
        else:
            self._changed |= paths
        self._wake.set()

    async def run(self, top: Path) -> None:
        """Build the graph and keep it. Runs for ever."""
        self._all = True
        while True:
            try:
                await self._keep(top)
                self.trouble = ""
            except GraphError as error:
                self.trouble = str(error)
                log.warning("no graph", reason=self.trouble, again_in_s=AGAIN_S)
                self._all = True
                await asyncio.sleep(AGAIN_S)
                continue
            await self._wake.wait()
            await asyncio.sleep(GATHER_S)

    async def _keep(self, top: Path) -> None:
        whole, paths = self._all, self._changed
        self._all, self._changed = False, set()
        self._wake.clear()
        if whole:
            await self._service.start(top)
        elif paths:
            await self._service.changed(paths)

    async def close(self) -> None:
        await self._service.close()

    async def _take(self, graph: CodeGraph) -> None:
        self._measure.take_graph(graph.adjacency(), SymbolFacts(graph, self._worktrees.text))
        self._scanner.poke()

    def state(self) -> dict[str, Any]:
        """As docs/airspace.md has it."""
        graph = self._service.graph
        counts = graph.counts
        return {
            "files": counts.files,
            "edges": counts.edges,
            "failed": sorted(graph.failed),
            "building": self._service.building,
            "trouble": self.trouble,
        }

    async def cloud(self) -> Mapping[str, Position]:
        """Where all files are; worked out once for each graph."""
        adjacency = self._service.graph.adjacency()
        if self._cloud[0] is not adjacency:
            self._cloud = adjacency, await asyncio.to_thread(_cloud, adjacency)
        return self._cloud[1]


def _cloud(adjacency: Mapping[str, tuple[str, ...]]) -> Mapping[str, Position]:
    """Blocking: it also loads numpy."""
    from relay.airspace.live.embedding import cloud

    return cloud(adjacency)


def outline(path: str, data: bytes) -> list[tuple[int, int]]:
    """First and last lines of the definitions in a text, for `relay.git.diff.Differ`; nothing for a text that
    is not read. Called in a thread."""
    if language_of(path) is None or unfit(path, data):
        return []
    return [(definition.start, definition.end) for definition in extract(path, data).symbols.definitions]
