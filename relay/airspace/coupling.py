"""The dependency channel over many agents: for each pair, the two files with the strongest coupling.

Invariant: after `take_in`, each pair whose agents can reach one another has the hop counts between all their
files, and `strongest` is equation 5 over them, to the last bit. A file is searched from once, when an agent takes
it up or the graph changes; weights are laid on afterwards, so their decay costs no search.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from relay.airspace.distances import FAR, Dependencies, Floats, Hops, Ints, strongest
from relay.airspace.formulas import MAX_HOPS, edits
from relay.airspace.near import Coupling
from relay.airspace.working_set import FileTouch

Pair = tuple[str, str]


class Kind(IntEnum):
    """Which distance: direction-agnostic (equation 4), or the smaller of the two directed ones."""

    ANY = 0
    DIRECTED = 1


@dataclass(frozen=True, slots=True)
class _Nodes:
    """The files of one agent that are in the graph, by path."""

    files: tuple[FileTouch, ...]
    paths: tuple[str, ...]
    nodes: Ints
    weights: Floats

    @classmethod
    def of(cls, files: tuple[FileTouch, ...], graph: Dependencies) -> _Nodes:
        found = [(path, node, edit.weight) for path, edit in sorted(edits(files).items())
                 if (node := graph.node(path)) is not None]  # fmt: skip
        return cls(
            files,
            tuple(path for path, _, _ in found),
            np.array([node for _, node, _ in found], dtype=np.int64),
            np.array([weight for _, _, weight in found], dtype=np.float64),
        )


#: Hop counts of one pair: kind, the lower id's files, the higher id's files. A file's distance 0 to itself is
#: FAR here: it belongs to the overlap channel.
Block = npt.NDArray[np.uint8]


class Couplings:
    """`reach`: imports that a direction-agnostic distance counts at most; None = any number."""

    def __init__(self, graph: Dependencies, reach: int | None = None) -> None:
        self.graph = graph
        self.reach = reach
        self._version = graph.version
        self._agents: dict[str, _Nodes] = {}
        self._blocks: dict[Pair, Block] = {}
        self._partners: defaultdict[str, set[str]] = defaultdict(set)
        self._best: dict[Pair, tuple[Coupling | None, Coupling | None]] = {}

    def replace_graph(self, graph: Dependencies) -> None:
        """Another graph; the next `take_in` searches it."""
        self.graph = graph
        self._version = -1

    def strongest(self, pair: Pair, kind: Kind) -> Coupling | None:
        """The strongest coupling of a pair a < b, a's file first; None: out of reach."""
        best = self._best.get(pair)
        return None if best is None else best[kind]

    def share(self, pair: Pair) -> float:
        """The greater share of both kinds."""
        return max((one.share for one in self._best.get(pair, ()) if one is not None), default=0.0)

    def take_in(self, files: Mapping[str, tuple[FileTouch, ...]]) -> set[Pair]:
        """All agents' files now. Gives the pairs whose couplings may have changed; some may be gone."""
        if self._version != self.graph.version:
            self._version = self.graph.version
            changed = set(self._blocks)
            self._agents.clear()
            self._blocks.clear()
            self._partners.clear()
            self._best.clear()
        else:
            changed = set()
        for agent in self._agents.keys() - files.keys():
            changed |= self._drop(agent)
        fresh: dict[str, Ints] = {}
        moved: dict[str, _Nodes | None] = {}
        for agent, now in files.items():
            before = self._agents.get(agent)
            if before is not None and before.files is now:
                continue
            after = self._agents[agent] = _Nodes.of(now, self.graph)
            if before is None:
                fresh[agent] = np.arange(len(after.nodes))
            elif not np.array_equal(before.nodes, after.nodes):
                fresh[agent] = self._reshape(agent, before.nodes, after.nodes)
            elif np.array_equal(before.weights, after.weights):
                continue
            moved[agent] = before
            changed |= self._of(agent)
        changed |= self._search({agent: rows for agent, rows in fresh.items() if len(rows)})
        if len(moved) == 1 and moved.keys() == fresh.keys():
            ((agent, before),) = moved.items()
            self._weigh(changed - self._weigh_fresh(agent, before, fresh[agent]))
        else:
            self._weigh(changed)
        return changed

    def _of(self, agent: str) -> set[Pair]:
        return {_ordered(agent, other) for other in self._partners[agent]}

    def _drop(self, agent: str) -> set[Pair]:
        gone = self._of(agent)
        del self._agents[agent]
        for other in self._partners.pop(agent):
            self._partners[other].discard(agent)
        for pair in gone:
            del self._blocks[pair]
            self._best.pop(pair, None)
        return gone

    # -- hop counts

    def _reshape(self, agent: str, before: Ints, after: Ints) -> Ints:
        """Keep what is known of the files that stay; gives the rows to be searched."""
        _, old, new = np.intersect1d(before, after, assume_unique=True, return_indices=True)
        fresh = np.setdiff1d(np.arange(len(after)), new, assume_unique=True)
        # Where each row was; what is fresh takes any row for now.
        source = np.zeros(len(after), dtype=np.int64)
        source[new] = old
        for other in self._partners[agent]:
            pair = _ordered(agent, other)
            block = self._blocks[pair]
            axis = 1 + pair.index(agent)
            if not block.shape[axis]:
                shape = (*block.shape[:axis], len(after), *block.shape[axis + 1 :])
                block = np.full(shape, FAR, dtype=np.uint8)
            else:
                block = block.take(source, axis=axis)
            if axis == 1:
                block[:, fresh, :] = FAR
            else:
                block[:, :, fresh] = FAR
            self._blocks[pair] = block
        return fresh

    def _search(self, fresh: Mapping[str, Ints]) -> set[Pair]:
        """Search from the files that are new, to all that anybody holds."""
        if not fresh:
            return set()
        agents = [agent for agent, held in self._agents.items() if len(held.nodes)]
        sizes = [len(self._agents[agent].nodes) for agent in agents]
        begin = np.cumsum([0, *sizes[:-1]])
        targets, column = np.unique(
            np.concatenate([self._agents[agent].nodes for agent in agents]), return_inverse=True
        )
        found: set[Pair] = set()
        for agent, rows in fresh.items():
            sources = self._agents[agent].nodes[rows]
            hops = np.stack(
                (
                    self.graph.hops(sources, targets, self.reach),
                    self.graph.directed_hops(sources, targets, MAX_HOPS),
                )
            )
            hops[hops == 0] = FAR
            reached = (hops.min(axis=(0, 1)) != FAR)[column]
            hit = np.flatnonzero(np.logical_or.reduceat(reached, begin)).tolist()
            if not hit:
                continue
            wide = hops[:, :, np.concatenate([column[begin[at] : begin[at] + sizes[at]] for at in hit])]
            end = 0
            for at in hit:
                start, end = end, end + sizes[at]
                if (other := agents[at]) != agent:
                    self._write(agent, rows, other, wide[:, :, start:end])
                    found.add(_ordered(agent, other))
        return found

    def _write(self, agent: str, rows: Ints, other: str, hops: Block) -> None:
        pair = _ordered(agent, other)
        block = self._blocks.get(pair)
        if block is None:
            shape = (2, len(self._agents[pair[0]].nodes), len(self._agents[pair[1]].nodes))
            block = self._blocks[pair] = np.full(shape, FAR, dtype=np.uint8)
            self._partners[agent].add(other)
            self._partners[other].add(agent)
        if pair[0] == agent:
            block[:, rows, :] = hops
        else:
            block[:, :, rows] = hops.transpose(0, 2, 1)

    # -- weights

    def _weigh(self, pairs: Iterable[Pair]) -> None:
        """Equation 5 for these pairs: an agent with many of them against all their other sides at once."""
        left: defaultdict[str, set[str]] = defaultdict(set)
        for pair in pairs:
            self._best.pop(pair, None)
            block = self._blocks.get(pair)
            if block is not None and block.size:
                left[pair[0]].add(pair[1])
                left[pair[1]].add(pair[0])
        for agent in sorted(left, key=lambda one: -len(left[one])):
            others = sorted(left.pop(agent))
            for other in others:
                left[other].discard(agent)
            if others:
                for pair, best in self._against(agent, others, None):
                    self._best[pair] = best

    def _weigh_fresh(self, agent: str, before: _Nodes | None, rows: Ints) -> set[Pair]:
        """One agent alone took up the files in `rows`: what was strongest stays so, or one of these is stronger.
        Gives the pairs that this settles: not those whose strongest files it let go of, or weighs otherwise."""
        if before is None or not len(rows):
            return set()
        weighed = dict(zip(before.paths, before.weights.tolist(), strict=True))
        now = self._agents[agent]
        fresh = set(rows.tolist())
        kept = [(path, weight) for at, (path, weight) in enumerate(zip(now.paths, now.weights.tolist(), strict=True))
                if at not in fresh]  # fmt: skip
        if any(weighed[path] != weight for path, weight in kept):
            return set()
        paths = {path for path, _ in kept}
        others = [
            other
            for other in sorted(self._partners[agent])
            if (best := self._best.get(_ordered(agent, other))) is not None
            and all(one is None or (one.path if agent < other else one.other_path) in paths for one in best)
        ]
        settled = set()
        for pair, (any_, directed) in self._against(agent, others, rows) if others else ():
            before_any, before_directed = self._best[pair]
            self._best[pair] = (_stronger(before_any, any_), _stronger(before_directed, directed))
            settled.add(pair)
        return settled

    def _against(
        self, agent: str, others: list[str], rows: Ints | None
    ) -> Iterator[tuple[Pair, tuple[Coupling | None, Coupling | None]]]:
        """The strongest of one agent's files, or of those in `rows`, with each of the others."""
        mine = self._agents[agent]
        chosen = np.arange(len(mine.nodes)) if rows is None else rows
        first = [agent < other for other in others]
        weights = [self._agents[other].weights for other in others]
        told: list[list[Coupling | None]] = []
        for kind in Kind:
            blocks: list[Hops] = [
                self._blocks[agent, other][kind] if lower else self._blocks[other, agent][kind].T
                for other, lower in zip(others, first, strict=True)
            ]
            if rows is not None:
                blocks = [block[rows] for block in blocks]
            found: list[Coupling | None] = []
            strong = strongest(mine.weights[chosen], blocks, weights, first)
            for other, lower, one in zip(others, first, strong, strict=True):
                if one is None:
                    found.append(None)
                    continue
                share, row, column, hops = one
                path, other_path = mine.paths[chosen[row]], self._agents[other].paths[column]
                if not lower:
                    path, other_path = other_path, path
                found.append(Coupling(path, other_path, hops, share))
            told.append(found)
        for other, any_, directed in zip(others, *told, strict=True):
            yield _ordered(agent, other), (any_, directed)


def _stronger(one: Coupling | None, other: Coupling | None) -> Coupling | None:
    """Of equal shares, the first by path."""
    if one is None or other is None:
        return one or other
    return min(one, other, key=lambda each: (-each.share, each.path, each.other_path))


def _ordered(one: str, other: str) -> Pair:
    return (one, other) if one < other else (other, one)
