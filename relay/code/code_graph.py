"""The dependency graph as its readers see it.

Invariant: a `CodeGraph` never changes. A patch makes a new one that shares what stayed, so a scan in another thread
can go on with its own, and results computed from a graph can be kept with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from relay.code.build.builder import Builder, Patch
from relay.code.build.listing import is_vendored
from relay.code.read.extract import extract, unfit
from relay.code.read.facts import Extract, Facts, FileSymbols, pack_symbols, unpack_symbols
from relay.code.read.grammar import language_of

#: Files whose symbols are kept unpacked: 50 agents x 40 files, the scale of the issue's first figure, and as many
#: again that they import.
UNPACKED = 4_000
_NOTHING = FileSymbols()


#: The symbols that were looked at last, by their packed bytes; `lru_cache` is safe between threads.
_unpacked = lru_cache(UNPACKED)(unpack_symbols)


@dataclass(frozen=True, slots=True)
class Counts:
    """Sizes of a graph: `edges` are importer-imported pairs of files."""

    files: int
    edges: int
    failed: int


@dataclass(frozen=True)
class CodeGraph:
    """Files and their imports. Paths are relative to the repository, with `/`."""

    _edges: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    _reverse: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    _packed: Mapping[str, bytes] = field(default_factory=dict)
    #: Path -> why the file does not parse; its edges and symbols are the last good ones.
    failed: Mapping[str, str] = field(default_factory=dict)

    def __contains__(self, path: object) -> bool:
        return path in self._edges

    def adjacency(self) -> Mapping[str, tuple[str, ...]]:
        """Importer -> imported, these in the order of the alphabet; every file has an entry."""
        return self._edges

    def imports(self, path: str) -> tuple[str, ...]:
        """The files that this one imports; () for one that is not in the graph."""
        return self._edges.get(path, ())

    def importers(self, path: str) -> tuple[str, ...]:
        """The files that import this one."""
        return self._reverse.get(path, ())

    def symbols(self, path: str) -> FileSymbols:
        """The definitions, calls and references of a file; empty for one that is not in the graph."""
        packed = self._packed.get(path)
        return _NOTHING if packed is None else _unpacked(packed)

    @property
    def counts(self) -> Counts:
        return Counts(len(self._edges), sum(map(len, self._edges.values())), len(self.failed))

    def patched(
        self,
        patch: Patch,
        symbols: Mapping[str, bytes | None] | None = None,
        failed: Mapping[str, str] | None = None,
    ) -> CodeGraph:
        """The graph after a patch. `symbols`: packed ones of files that changed, None = gone; `failed`: all
        that fail now, None = as before."""
        edges, reverse, packed = dict(self._edges), dict(self._reverse), dict(self._packed)
        importers: dict[str, set[str]] = {}
        for path, targets in patch.items():
            before, now = set(edges.get(path, ())), set(targets or ())
            for target in before - now:
                importers.setdefault(target, set(reverse.get(target, ()))).discard(path)
            for target in now - before:
                importers.setdefault(target, set(reverse.get(target, ()))).add(path)
            if targets is None:
                edges.pop(path, None)
            else:
                edges[path] = targets
        for target, sources in importers.items():
            if sources:
                reverse[target] = tuple(sorted(sources))
            else:
                reverse.pop(target, None)
        for path, packed_symbols in (symbols or {}).items():
            if packed_symbols is None:
                packed.pop(path, None)
            else:
                packed[path] = packed_symbols
        return CodeGraph(edges, reverse, packed, self.failed if failed is None else dict(failed))


def graph_of(files: Iterable[tuple[str, bytes]]) -> CodeGraph:
    """The graph of these (path, content) here and now, in this thread: for tests and small repositories."""
    return graph_of_read(
        (path, extract(path, data))
        for path, data in files
        if language_of(path) is not None and not is_vendored(path) and not unfit(path, data)
    )


def graph_of_read(files: Iterable[tuple[str, Extract]]) -> CodeGraph:
    """The graph of files that were read already."""
    return Variants(files).graph


class Variants:
    """The graph of some files, and those of trees in which a few of them are others. Not for several threads at
    once."""

    def __init__(self, files: Iterable[tuple[str, Extract]]) -> None:
        self._builder = Builder()
        self._read = dict(files)
        self.graph = self._patched(CodeGraph(), dict(self._read))

    def _patched(self, graph: CodeGraph, changes: Mapping[str, Extract | None]) -> CodeGraph:
        symbols = {
            path: None if read is None else pack_symbols(read.symbols) for path, read in changes.items()
        }
        return graph.patched(self._builder.update(_facts(changes)), symbols, self._builder.failed)

    def with_changes(self, changes: Mapping[str, Extract | None]) -> CodeGraph:
        """The graph of a tree in which these files are others; None: it is not there."""
        changed = self._patched(self.graph, changes)
        self._builder.update(_facts({path: self._read.get(path) for path in changes}))
        return changed


def _facts(changes: Mapping[str, Extract | None]) -> dict[str, tuple[Facts, str] | None]:
    return {path: None if read is None else (read.facts, read.trouble) for path, read in changes.items()}
