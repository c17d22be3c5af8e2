"""How one definition reaches another by calls, in the files of one tree.

Invariant: a step is a call that is resolved to one definition (relay.code.call_graph), or of a method whose name
only one definition in all files has. A search ends at `STEPS`, and does not go on from a hub.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from types import MappingProxyType

from relay.code.call_graph import COMMON, CallGraph, Node
from relay.code.code_graph import CodeGraph
from relay.code.read.facts import Call, FileSymbols
from relay.code.read.grammar import C_FAMILY, language_of

#: Calls between two definitions beyond which what the one does says little about the other.
STEPS = 3
#: Definitions that one search visits.
VISITED = 300
_CONSTRUCTORS = ("__init__", "__new__", "constructor", "new", "New")
NO_TYPES: Mapping[str, str] = MappingProxyType({})
_SAID = tuple(
    re.compile(pattern)
    for pattern in (
        r"\b(?P<variable>[a-z_]\w*)\s*:\s*&?(?:mut\s+)?\*?(?P<type>[A-Z]\w*)",
        r"\b(?P<type>[A-Z]\w*)(?:<[^<>]*>)?[\s*&]+(?P<variable>[a-z_]\w*)\b\s*[,;=)]",
        r"\b(?P<variable>[a-z_]\w*)\s*(?::=|=)\s*(?:new\s+|await\s+|&)*(?:\w+\.)*(?P<type>[A-Z]\w*)\s*(?:[({]|::)",
    )
)


def _owner(node: Node) -> str:
    """The class of a method, "" = it is none."""
    return node[1].rpartition(".")[0].rpartition(".")[2]


def _is_made_by(name: str, function: str) -> bool:
    """Whether a function says by its own name what it makes: `make_context` a `Context`."""
    last = name.rpartition(".")[2]
    return function.replace("_", "").lower().endswith(last.lower())


def types_said(text: str) -> dict[str, str]:
    """The types of variables that a text says: `store: Store`, `Store store`, `store = new Store(`, `let s = S::new`.
    Of one that is said twice, the last."""
    found = {}
    for pattern in _SAID:
        for match in pattern.finditer(text):
            found[match["variable"]] = match["type"]
    return found


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

    def target(self, path: str, call: Call, types: Mapping[str, str] = NO_TYPES) -> Node | None:
        """The definition that a call in a file means; None: not known. `types`: of variables, where the text around
        the call says them."""
        symbols = self.graph.symbols(path)
        found = self.calls.target(path, symbols, call)
        if found is not None:
            return found
        owners = self._owners.get(call.name, ())
        if not call.receiver:
            # C: what is called is declared in a header, and stands in a file that nobody includes.
            return owners[0] if len(owners) == 1 and language_of(path) in C_FAMILY else None
        variable = re.split(r"\W+", call.receiver.strip("()"))[-1]
        wanted = types.get(variable) or variable.replace("_", "").lower()
        named = [node for node in owners if wanted and wanted in (_owner(node), _owner(node).lower())]
        if len(named) == 1:
            return named[0]
        return owners[0] if len(owners) == 1 and call.name not in COMMON else None

    def constructor(self, node: Node) -> Node | None:
        """The constructor of a class, where it has one of its own."""
        path, qualified = node
        symbols = self.graph.symbols(path)
        names = {definition.qualified for definition in symbols.definitions}
        for name in (*_CONSTRUCTORS, qualified.rpartition(".")[2]):
            if f"{qualified}.{name}" in names:
                return path, f"{qualified}.{name}"
        return None

    def context_methods(self, node: Node) -> Iterator[Node]:
        """What `with` calls of what a definition gives: of a class its own methods, of a function those of the class
        that its file has under the name of its result."""
        path, qualified = node
        symbols = self.graph.symbols(path)
        outer = qualified.rpartition(".")[0]
        owners = [one.qualified for one in symbols.definitions if one.kind == "class"]
        likely = [
            name for name in owners if qualified == name or _is_made_by(name, qualified.rpartition(".")[2])
        ]
        names = {one.qualified for one in symbols.definitions}
        for owner in likely or ([outer] if outer in owners else []):
            yield from (
                (path, f"{owner}.{method}")
                for method in ("__enter__", "__exit__")
                if f"{owner}.{method}" in names
            )

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

    def names_in(self, node: Node) -> frozenset[str]:
        """The names that the lines of a definition use."""
        path, qualified = node
        symbols = self.graph.symbols(path)
        places = [(one.start, one.end) for one in symbols.definitions if one.qualified == qualified]
        return frozenset(
            name
            for name, lines in symbols.references.items()
            if any(start <= line <= end for line in lines for start, end in places)
        )

    def sees(self, path: str, other: str) -> bool:
        """Whether the names of `other` can be used in `path` by themselves."""
        return path == other or other in self.calls.visible(path) or other in self._included(path)

    def _included(self, path: str) -> frozenset[str]:
        """C, C++: the headers that a file includes, and those that these include."""
        known = self._headers.get(path)
        if known is None:
            seen: set[str] = set()
            waiting = [path] if language_of(path) in C_FAMILY else []
            while waiting:
                new = set(self.graph.imports(waiting.pop())) - seen
                seen |= new
                waiting += new
            known = self._headers[path] = frozenset(seen)
        return known

    @cached_property
    def _headers(self) -> dict[str, frozenset[str]]:
        return {}
