"""How one definition reaches another by calls, in the files of one tree.

Invariant: a step is a call that is resolved to one definition (relay.code.call_graph), or of a method whose name
only one definition in all files has. A search ends at `STEPS`, and does not go on from a hub.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from relay.code.call_graph import COMMON, CallGraph, Node
from relay.code.code_graph import CodeGraph
from relay.code.read.facts import Call, FileSymbols

#: Calls between two definitions beyond which what the one does says little about the other.
STEPS = 3
#: Definitions that one search visits.
VISITED = 300
_CONSTRUCTORS = ("__init__", "__new__", "constructor", "new", "New")
_CLASSES = frozenset({"class", "type"})


class Reach:
    """Searches one tree: `graph` has the files that matter, `symbols` what the searched side's own files say."""

    def __init__(self, graph: CodeGraph) -> None:
        self.graph = graph
        self.calls = CallGraph(graph)

    @cached_property
    def _owners(self) -> Mapping[str, tuple[Node, ...]]:
        """By name, all definitions in the graph that can be called."""
        owners: dict[str, list[Node]] = {}
        for path in self.graph.adjacency():
            for definition in self.graph.symbols(path).definitions:
                if definition.kind in ("function", "method", "class", "type"):
                    owners.setdefault(definition.name, []).append((path, definition.qualified))
        return {name: tuple(dict.fromkeys(nodes)) for name, nodes in owners.items()}

    def target(self, path: str, call: Call) -> Node | None:
        """The definition that a call in a file means; None: not known."""
        symbols = self.graph.symbols(path)
        found = self.calls.target(path, symbols, call)
        if found is not None:
            return found
        if call.receiver and call.name not in COMMON:
            owners = self._owners.get(call.name, ())
            return owners[0] if len(owners) == 1 else None
        return None

    def constructor(self, node: Node) -> Node | None:
        """The constructor of a class, where it has one of its own."""
        path, qualified = node
        symbols = self.graph.symbols(path)
        names = {definition.qualified for definition in symbols.definitions}
        for name in (*_CONSTRUCTORS, qualified.rpartition(".")[2]):
            if f"{qualified}.{name}" in names:
                return path, f"{qualified}.{name}"
        return None

    def callees(self, node: Node) -> Iterator[Node]:
        """What a definition calls, each once."""
        path, qualified = node
        symbols = self.graph.symbols(path)
        seen: set[Node] = set()
        for call in self._calls_in(path, symbols).get(qualified, ()):
            target = self.target(path, call)
            if target is not None and target not in seen and target != node:
                seen.add(target)
                yield target
        own = self.constructor(node)
        if own is not None and own not in seen and own != node:
            yield own

    def _calls_in(self, path: str, symbols: FileSymbols) -> Mapping[str, list[Call]]:
        known = self._by_definition.get(path)
        if known is None:
            known = {}
            for call in symbols.calls:
                if call.within >= 0:
                    known.setdefault(symbols.definitions[call.within].qualified, []).append(call)
            self._by_definition[path] = known
        return known

    @cached_property
    def _by_definition(self) -> dict[str, Mapping[str, list[Call]]]:
        return {}

    def paths(self, start: Node, steps: int = STEPS) -> dict[Node, tuple[Node, ...]]:
        """What is reached from a definition within so many calls: each with the shortest way there, start first."""
        ways: dict[Node, tuple[Node, ...]] = {start: (start,)}
        rim = [start]
        for _ in range(steps):
            further: list[Node] = []
            for node in rim:
                for other in self.callees(node):
                    if other not in ways:
                        ways[other] = (*ways[node], other)
                        further.append(other)
                if len(ways) > VISITED:
                    return ways
            rim = further
        return ways

    def sees(self, path: str, other: str) -> bool:
        """Whether the names of `other` can be used in `path` by themselves."""
        return path == other or other in self.calls.visible(path)

    def is_alone(self, name: str) -> bool:
        """Whether only one definition in all files has this name."""
        return len(self._owners.get(name, ())) <= 1
