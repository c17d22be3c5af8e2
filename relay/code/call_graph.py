"""Which definition a call means, and how many calls lie between two definitions.

Invariant: a call is resolved to one definition or to none. In the order of certainty: a name of the own file, of
an imported file (through a package's own file, which re-exports, too), a module or type named before the dot, a
method of the class around. A method of an object whose type is not known counts only if one definition alone in
the file and its imports has that name and it is no common word of containers and streams. Where several would
do, none does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from relay.code.code_graph import CodeGraph
from relay.code.read.facts import Call, Definition, FileSymbols

#: (path, qualified name).
Node = tuple[str, str]
#: Files that pass on what they import.
_PASSING = frozenset({"__init__.py", "__init__.pyi", "mod.rs", "lib.rs", "prelude.rs"})
_SELVES = frozenset({"self", "this", "cls", "Self", "super()", "super", "*this"})
#: Methods of the standard containers, strings, files and futures of the eight languages.
_CONTAINERS = (
    "add append apply as_ref call clear clone close contains copy count create delete each end equals "
    "exists extend filter find first flush forEach format from get has hash hasNext index indexOf init "
    "insert into is_empty isEmpty items iter join keys last len length list load lock log main map match "
    "max min name new next of open parse pop print push put query read readline recv reduce remove render "
    "replace reset resolve run save send set size sleep slice sort splice split start stop strip submit "
    "test then toString trim type unwrap update value values wait with write"
)
COMMON = frozenset(_CONTAINERS.split())
_LAST = re.compile(r"([^\W\d]\w*)\W*$")
#: Files that import one, and callers of one definition, beyond which its callers are not followed: it is a hub,
#: and two changes near a hub are not near each other. In kafka 5 % of the files have more importers than this.
HUB = 40
#: Definitions that one search visits: what 40 files change has some 150 neighbours; a search is cut off, nearest
#: first, so that no side costs more than about a second.
VISITED = 400
#: Name -> (file, definition, whether it stands at the top).
_Outside = Mapping[str, Sequence[tuple[str, Definition, bool]]]
_APART = frozenset({"namespace", "implementation", "declaration"})


class CallGraph:
    """Resolves the calls of one graph; keeps what it has resolved. Not for several threads at once."""

    def __init__(self, graph: CodeGraph) -> None:
        self.graph = graph
        self._resolved: dict[str, tuple[tuple[str, Node], ...]] = {}
        self._visible: dict[str, tuple[str, ...]] = {}
        self._outside: dict[str, tuple[FileSymbols, _Outside]] = {}

    def visible(self, path: str) -> tuple[str, ...]:
        """The files whose names a file can use: what it imports, and what a package's own file passes on."""
        paths = self._visible.get(path)
        if paths is None:
            seen = dict.fromkeys(self.graph.imports(path))
            for seen_path in tuple(seen):
                if passes_on(seen_path):
                    seen.update(dict.fromkeys(self.graph.imports(seen_path)))
            seen.pop(path, None)
            paths = self._visible[path] = tuple(seen)
        return paths

    def outside(self, path: str, symbols: FileSymbols) -> _Outside:
        """The definitions in other files that the calls of a file can mean."""
        cached = self._outside.get(path)
        if cached is not None and cached[0] is symbols:
            return cached[1]
        definitions: dict[str, list[tuple[str, Definition, bool]]] = {}
        for other in self.visible(path):
            theirs = self.graph.symbols(other)
            for name in symbols.called & theirs.by_name.keys():
                definitions.setdefault(name, []).extend(
                    (other, definition, _is_top(definition, theirs))
                    for definition in theirs.by_name[name]
                    if definition.kind not in _APART
                )
        self._outside[path] = (symbols, definitions)
        return definitions

    def target(self, path: str, symbols: FileSymbols, call: Call) -> Node | None:
        """The definition that a call in a file means, None = not known."""
        if not call.receiver:
            return self._plain(path, symbols, call)
        if call.receiver in _SELVES:
            return _of_class(path, symbols, call)
        return self._dotted(path, symbols, call)

    def _plain(self, path: str, symbols: FileSymbols, call: Call) -> Node | None:
        own = _own(symbols, call)
        top = [definition for definition in own if definition.kind != "method"]
        if len({definition.qualified for definition in top}) == 1:
            return path, top[0].qualified
        if own:
            return _of_class(path, symbols, call)
        outside = self.outside(path, symbols).get(call.name, ())
        candidates = {(other, definition.qualified) for other, definition, top_level in outside if top_level}
        return candidates.pop() if len(candidates) == 1 else None

    def _dotted(self, path: str, symbols: FileSymbols, call: Call) -> Node | None:
        last = _LAST.search(call.receiver)
        owner = last[1] if last else ""
        modules: set[Node] = set()
        members: set[Node] = set()
        methods: set[Node] = set()
        own = [(path, definition, False) for definition in _own(symbols, call)]
        for other, definition, top_level in (*own, *self.outside(path, symbols).get(call.name, ())):
            node = (other, definition.qualified)
            if top_level and _names(other, owner):
                modules.add(node)
            if f".{definition.qualified}".endswith(f".{owner}.{definition.name}"):
                members.add(node)
            if definition.kind == "method":
                methods.add(node)
        for candidates in (modules, members):
            if candidates:
                return candidates.pop() if len(candidates) == 1 else None
        known = len(methods) == 1 and call.name not in COMMON and not owner[:1].isupper()
        return methods.pop() if known else None

    def calls_of(self, path: str) -> tuple[tuple[str, Node], ...]:
        """(qualified name of the definition around, target) of every call of a file that is resolved."""
        resolved = self._resolved.get(path)
        if resolved is None:
            symbols = self.graph.symbols(path)
            resolved = self._resolved[path] = tuple(
                dict.fromkeys(
                    (symbols.definitions[call.within].qualified, target)
                    for call in symbols.calls
                    if call.within >= 0 and (target := self.target(path, symbols, call)) is not None
                )
            )
        return resolved

    def neighbours(self, node: Node) -> Iterator[Node]:
        """Callees and callers."""
        path, qualified = node
        for around, target in self.calls_of(path):
            if around == qualified:
                yield target
            if target == node:
                yield path, around
        name = qualified.rpartition(".")[2]
        callers = [
            (other, around)
            for other in self._users(path)
            if name in self.graph.symbols(other).called
            for around, target in self.calls_of(other)
            if target == node
        ]
        if len(callers) <= HUB:
            yield from callers

    def _users(self, path: str) -> list[str]:
        users = set(self.graph.importers(path))
        for user in tuple(users):
            if passes_on(user):
                users.update(self.graph.importers(user))
        users.discard(path)
        return sorted(users) if len(users) <= HUB else []

    def reach(self, starts: set[Node], hops: int) -> dict[Node, tuple[int, Node]]:
        """Every definition within `hops` calls, undirected: node -> (hops, the start it is nearest to)."""
        reached = {node: (0, node) for node in sorted(starts)}
        rim = list(reached)
        for hop in range(1, hops + 1):
            further: list[Node] = []
            for node in rim:
                if len(reached) >= VISITED:
                    return reached
                for other in self.neighbours(node):
                    if other not in reached:
                        reached[other] = (hop, reached[node][1])
                        further.append(other)
            rim = sorted(further)
        return reached


def passes_on(path: str) -> bool:
    """Whether a file is a package's own, which gives its importers what it imports."""
    base = path.rpartition("/")[2]
    return base in _PASSING or base.startswith("index.")


def _names(path: str, word: str) -> bool:
    """Whether a module at this path may be called by this word: its stem, or its folder's name."""
    folder, _, base = path.rpartition("/")
    return bool(word) and word in (base.partition(".")[0], folder.rpartition("/")[2])


def _own(symbols: FileSymbols, call: Call) -> list[Definition]:
    """The definitions of a call's name in its own file."""
    return [definition for definition in symbols.by_name.get(call.name, ()) if definition.kind not in _APART]


def _is_top(definition: Definition, symbols: FileSymbols) -> bool:
    return definition.kind not in ("method", *_APART) and (
        definition.parent < 0 or symbols.definitions[definition.parent].kind == "namespace"
    )


def _of_class(path: str, symbols: FileSymbols, call: Call) -> Node | None:
    """The method of the class around a call, or of a class around that."""
    outer = symbols.definitions[call.within].qualified if call.within >= 0 else ""
    named = {definition.qualified for definition in symbols.by_name.get(call.name, ())}
    while "." in outer:
        outer = outer.rpartition(".")[0]
        if f"{outer}.{call.name}" in named:
            return path, f"{outer}.{call.name}"
    return None
