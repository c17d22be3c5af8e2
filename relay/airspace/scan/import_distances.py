"""How many imports lie between files: the dependency graph over integers, searched 64 files at a time.

Invariant: a hop count is exact up to the limit asked for, and FAR beyond it. One search carries one bit for
each file it starts from, so a level of it costs one pass over the arcs, not one pass a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]
#: Hop counts, in one byte each.
Hops = npt.NDArray[np.uint8]

#: Not reachable, or further than was looked.
FAR = 255
#: The farthest that is counted: gamma^253 (equation 4) is 0 beside 1 in a float, so no risk knows of it.
FARTHEST = 254
#: Files a search starts from at once: the bits of a machine word.
WORD = 64
#: Up to so many files it is cheaper to search from each on its own; measured, 5,000 nodes.
ALONE = 3
#: A frontier of less than one node in so many is followed by its own arcs; measured, 5,000 and 50,000 nodes.
SPARSE = 20


@dataclass(frozen=True, slots=True)
class Arcs:
    """The neighbours of node n are `ends[starts[n]:starts[n + 1]]` (compressed sparse rows); `filled`: the nodes
    that have any, `begins`: where theirs begin."""

    starts: Ints
    ends: Ints
    filled: Ints
    begins: Ints

    @classmethod
    def of(cls, nodes: int, tails: Ints, heads: Ints) -> Arcs:
        """From arcs tail -> head, in any order; doubled ones and loops go."""
        keys = np.unique(tails * max(nodes, 1) + heads)
        tails, heads = keys // max(nodes, 1), keys % max(nodes, 1)
        keep = tails != heads
        tails, heads = tails[keep], heads[keep]
        counts = np.bincount(tails, minlength=nodes)
        starts = np.zeros(nodes + 1, dtype=np.int64)
        np.cumsum(counts, out=starts[1:])
        filled = np.flatnonzero(counts)
        return cls(starts, heads, filled, starts[filled])

    def heads(self, frontier: Ints) -> Ints:
        """The neighbours of these nodes, node after node."""
        begin = self.starts[frontier]
        counts = self.starts[frontier + 1] - begin
        after = np.cumsum(counts)
        first = np.repeat(begin - after + counts, counts)
        first += np.arange(len(first))
        return self.ends.take(first)

    def push(self, frontier: Ints, bits: Bits) -> Bits:
        """A word for each node: the bits of those in the frontier that have an arc to it. Looks at the
        frontier's arcs only, and sorts them."""
        reached = np.zeros(len(bits), dtype=np.uint64)
        heads = self.heads(frontier)
        if not len(heads):
            return reached
        counts = self.starts[frontier + 1] - self.starts[frontier]
        order = np.argsort(heads)
        heads = heads[order]
        runs = np.flatnonzero(np.concatenate(([True], heads[1:] != heads[:-1])))
        reached[heads[runs]] = np.bitwise_or.reduceat(np.repeat(bits[frontier], counts)[order], runs)
        return reached

    def pull(self, bits: Bits) -> Bits:
        """A word for each node: the bits of those that it has an arc to. Looks at every arc, and sorts none."""
        reached = np.zeros(len(bits), dtype=np.uint64)
        if len(self.filled):
            reached[self.filled] = np.bitwise_or.reduceat(bits.take(self.ends), self.begins)
        return reached


@dataclass(frozen=True, slots=True)
class _Searchable:
    """The arcs both ways, and each way; `against` is the reverse of `along`."""

    both: Arcs
    along: Arcs
    against: Arcs


class Dependencies:
    """The dependency graph: edge f -> g iff f imports g (000, section 2, channel 2)."""

    def __init__(self, adjacency: Mapping[str, Iterable[str]] | None = None) -> None:
        self._node: dict[str, int] = {}
        self._paths: list[str] = []
        self._imports: dict[int, tuple[int, ...]] = {}
        self._searchable: _Searchable | None = None
        #: Counts the changes, for those that keep distances.
        self.version = 0
        for path, imported in (adjacency or {}).items():
            self.patch(path, imported)

    def __len__(self) -> int:
        return len(self._paths)

    def node(self, path: str) -> int | None:
        return self._node.get(path)

    def patch(self, path: str, imported: Iterable[str]) -> bool:
        """What one file imports now; False when nothing changed by it."""
        nodes = len(self)
        node = self._numbered(path)
        now = tuple(sorted({self._numbered(target) for target in imported} - {node}))
        if self._imports.get(node, ()) == now and nodes == len(self):
            return False
        self._imports[node] = now
        self._searchable = None
        self.version += 1
        return True

    def _numbered(self, path: str) -> int:
        node = self._node.setdefault(path, len(self._paths))
        if node == len(self._paths):
            self._paths.append(path)
        return node

    def neighbours(self, path: str) -> list[str]:
        """What the file imports and what imports it."""
        node = self._node.get(path)
        if node is None:
            return []
        arcs = self._arcs().both
        return [self._paths[end] for end in arcs.ends[arcs.starts[node] : arcs.starts[node + 1]].tolist()]

    def _arcs(self) -> _Searchable:
        if self._searchable is None:
            sizes = [len(ends) for ends in self._imports.values()]
            tails = np.repeat(np.fromiter(self._imports, np.int64, len(sizes)), sizes)
            heads = np.fromiter(
                (end for ends in self._imports.values() for end in ends), np.int64, sum(sizes)
            )
            nodes = len(self)
            self._searchable = _Searchable(
                Arcs.of(nodes, np.concatenate((tails, heads)), np.concatenate((heads, tails))),
                Arcs.of(nodes, tails, heads),
                Arcs.of(nodes, heads, tails),
            )
        return self._searchable

    def hops(self, sources: Ints, targets: Ints, limit: int | None = None) -> Hops:
        """d_G, direction-agnostic (equation 4): a row for each source, a column for each target."""
        arcs = self._arcs()
        return _hops(arcs.both, arcs.both, sources, targets, limit)

    def directed_hops(self, sources: Ints, targets: Ints, limit: int | None) -> Hops:
        """The smaller of the two directed distances."""
        arcs = self._arcs()
        along = _hops(arcs.along, arcs.against, sources, targets, limit)
        against = _hops(arcs.against, arcs.along, sources, targets, limit)
        return np.minimum(along, against, out=along)


def _hops(arcs: Arcs, back: Arcs, sources: Ints, targets: Ints, limit: int | None) -> Hops:
    """Along `arcs`, whose reverse is `back`."""
    farthest = FARTHEST if limit is None else limit
    if len(sources) <= ALONE:
        rows = [_search_one(arcs, source, targets, farthest) for source in sources.tolist()]
        return np.stack(rows) if rows else np.empty((0, len(targets)), dtype=np.uint8)
    parts = [
        _search(arcs, back, sources[at : at + WORD], targets, farthest) for at in range(0, len(sources), WORD)
    ]
    return np.concatenate(parts)


def _search_one(arcs: Arcs, source: int, targets: Ints, limit: int) -> Hops:
    """Breadth first from one node; each arc is looked at once."""
    hops = np.full(len(arcs.starts) - 1, FAR, dtype=np.uint8)
    hops[source] = 0
    frontier, level = np.array([source]), 0
    while len(frontier) and level < limit:
        level += 1
        reached = np.zeros(len(hops), dtype=np.bool_)
        reached[arcs.heads(frontier)] = True
        reached &= hops == FAR
        frontier = np.flatnonzero(reached)
        hops[frontier] = level
    return hops[targets]


def _search(arcs: Arcs, back: Arcs, sources: Ints, targets: Ints, limit: int) -> Hops:
    """Breadth first from at most 64 distinct nodes; each carries its own bit."""
    nodes, count = len(arcs.starts) - 1, len(sources)
    seen = np.zeros(nodes, dtype=np.uint64)
    seen[sources] = np.uint64(1) << np.arange(count, dtype=np.uint64)
    fresh, frontier, level = seen.copy(), np.sort(sources), 0
    #: The hop counts by their binary digits, the lowest first: a word for each target.
    digits: list[Bits] = []
    while len(frontier) and level < limit:
        level += 1
        few = len(frontier) * SPARSE < nodes
        fresh = (arcs.push(frontier, fresh) if few else back.pull(fresh)) & ~seen
        seen |= fresh
        frontier = np.flatnonzero(fresh)
        if level.bit_length() > len(digits):
            digits.append(np.zeros(len(targets), dtype=np.uint64))
        reached = fresh.take(targets)
        for at in range(len(digits)):
            if level >> at & 1:
                digits[at] |= reached
    hops = _bits(~seen[targets], count) * np.uint8(FAR)
    for at, digit in enumerate(digits):
        hops |= _bits(digit, count) << np.uint8(at)
    return np.ascontiguousarray(hops.T)


def _bits(words: Bits, count: int) -> Hops:
    """A row for each word: its lowest bits, 0 or 1."""
    return np.unpackbits(words.view(np.uint8).reshape(-1, 8), axis=1, count=count, bitorder="little")
