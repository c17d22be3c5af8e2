"""The dependency channel over many agents: for each pair, the two files with the strongest coupling.

Invariant: after `take_in`, each pair whose agents can reach one another has the hop counts between all their
files, and `strongest` is equation 5 over them, to the last bit. A file is searched from once, when an agent takes
it up or the graph changes; weights are laid on afterwards, so their decay costs no search.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from relay.airspace.pair_facts import Coupling
from relay.airspace.profiles.formulas import GAMMA, MAX_HOPS
from relay.airspace.scan.import_distances import FAR, Dependencies, Floats, Hops, Ints
from relay.model.working_set import FileTouch, Pair, pair_of

#: gamma^(d - 1) by hop count; nothing for what is out of reach. Powers of two: a product with one is exact, so the
#: order of the factors of equation 5 does not matter.
_GAIN: Floats = np.array([0.0, *(GAMMA ** (d - 1) for d in range(1, FAR)), 0.0])


def strongest(hops: Hops, rows: Floats, columns: Floats) -> tuple[float, int]:
    """max w_f w_g gamma^(d-1) of one pair, 0: out of reach; and where in `hops` it is, row by row. Of equal shares
    the first row counts, then the first column. `rows` and `columns`: the weights of both sides' files."""
    shares = _GAIN.take(hops)
    shares *= rows[:, None]
    shares *= columns
    at = int(shares.argmax())
    return float(shares.item(at)), at


class _Nearest(NamedTuple):
    """The files of a pair that are fewest imports apart, or one more: nearly always the strongest is one of them.
    `at`: where in the block, row by row; `beyond`: the gain of all others at most."""

    at: Ints
    hops: Hops
    beyond: float

    @classmethod
    def of(cls, hops: Hops) -> _Nearest:
        flat = hops.ravel()
        least = int(flat.min()) if len(flat) else FAR
        if least == FAR:
            return cls(np.empty(0, dtype=np.int64), flat[:0], 0.0)
        (at,) = (flat <= least + 1).nonzero()
        return cls(at, flat.take(at), float(_GAIN[min(least + 2, FAR)]))


@dataclass(slots=True)
class _Block:
    """`hops`: of the files of the lower id and those of the higher id. A file's distance 0 to itself is FAR here: it
    belongs to the overlap channel. `weighed`: since they changed; then `nearest` may be made of them."""

    hops: Hops
    weighed: bool = False
    nearest: _Nearest | None = None


@dataclass(frozen=True, slots=True)
class _Nodes:
    """The files of one agent that are in the graph, by path."""

    files: tuple[FileTouch, ...]
    paths: tuple[str, ...]
    nodes: Ints
    weights: Floats
    heaviest: float

    @classmethod
    def of(cls, files: tuple[FileTouch, ...], graph: Dependencies, before: _Nodes | None = None) -> _Nodes:
        weights: dict[str, float] = {}
        for touch in files:
            for path in touch.paths:
                weights[path] = max(touch.weight, weights.get(path, 0.0))
        paths = tuple(path for path in sorted(weights) if graph.node(path) is not None)
        if before is not None and before.paths == paths:
            nodes = before.nodes
        else:
            nodes = np.array([graph.node(path) for path in paths], dtype=np.int64)
        of_paths = [weights[path] for path in paths]
        return cls(files, paths, nodes, np.array(of_paths, dtype=np.float64), max(of_paths, default=0.0))


class Couplings:
    """By the direction-agnostic distance (equation 4), of at most `reach` imports, None = any number; or, `directed`,
    by the smaller of the two directed distances."""

    def __init__(self, graph: Dependencies, reach: int | None = None, *, directed: bool = False) -> None:
        self.graph = graph
        self.reach = reach
        self.directed = directed
        self._version = graph.version
        self._agents: dict[str, _Nodes] = {}
        self._blocks: dict[Pair, _Block] = {}
        self._partners: defaultdict[str, set[str]] = defaultdict(set)
        self._best: dict[Pair, Coupling] = {}

    def strongest(self, pair: Pair) -> Coupling | None:
        """The strongest coupling of a pair a < b, a's file first; None: out of reach."""
        return self._best.get(pair)

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
        for agent, now in files.items():
            before = self._agents.get(agent)
            if before is not None and before.files is now:
                continue
            after = _Nodes.of(now, self.graph, before)
            if before is not None and set(before.paths).isdisjoint(after.paths):
                changed |= self._drop(agent)
                before = None
            self._agents[agent] = after
            if before is None:
                fresh[agent] = np.arange(len(after.nodes))
            elif before.nodes is not after.nodes:
                fresh[agent] = self._reshape(agent, before.nodes, after.nodes)
            elif np.array_equal(before.weights, after.weights):
                continue
            changed |= self._of(agent)
        changed |= self._search({agent: rows for agent, rows in fresh.items() if len(rows)})
        self._weigh(changed)
        return changed

    def _of(self, agent: str) -> set[Pair]:
        return {pair_of(agent, other) for other in self._partners[agent]}

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
        # Where each row was; a fresh file takes any row for now.
        source = np.zeros(len(after), dtype=np.int64)
        source[new] = old
        for other in self._partners[agent]:
            pair = pair_of(agent, other)
            hops = self._blocks[pair].hops
            axis = pair.index(agent)
            if not hops.shape[axis]:
                shape = (*hops.shape[:axis], len(after), *hops.shape[axis + 1 :])
                hops = np.full(shape, FAR, dtype=np.uint8)
            else:
                hops = hops.take(source, axis=axis)
            if axis == 0:
                hops[fresh] = FAR
            else:
                hops[:, fresh] = FAR
            self._blocks[pair] = _Block(hops)
        return fresh

    def _search(self, fresh: Mapping[str, Ints]) -> set[Pair]:
        """Search from the files that are new, to all that anybody holds."""
        agents = [agent for agent, held in self._agents.items() if len(held.nodes)]
        if not fresh or len(agents) < 2:
            return set()
        sizes = [len(self._agents[agent].nodes) for agent in agents]
        begin = _begins(sizes)
        targets = np.concatenate([self._agents[agent].nodes for agent in agents])
        pairs: set[Pair] = set()
        # Hop counts are symmetric: an agent whose files were all searched from is not searched for again. The last
        # agent may have none left to search for, so it is the one with the most files.
        done: set[str] = set()
        for agent, rows in sorted(fresh.items(), key=lambda entry: len(entry[1])):
            if len(done | {agent}) == len(agents):
                break
            sources = self._agents[agent].nodes[rows]
            hops = self._hops(sources, targets)
            hops[hops == 0] = FAR
            reached = np.logical_or.reduceat(hops.min(axis=0) != FAR, begin)
            for at in np.flatnonzero(reached).tolist():
                if (other := agents[at]) != agent and other not in done:
                    self._write(agent, rows, other, hops[:, begin[at] : begin[at] + sizes[at]])
                    pairs.add(pair_of(agent, other))
            if len(rows) == len(self._agents[agent].nodes):
                done.add(agent)
        return pairs

    def _hops(self, sources: Ints, targets: Ints) -> Hops:
        if self.directed:
            return self.graph.directed_hops(sources, targets, MAX_HOPS)
        return self.graph.hops(sources, targets, self.reach)

    def _write(self, agent: str, rows: Ints, other: str, hops: Hops) -> None:
        pair = pair_of(agent, other)
        block = self._blocks.get(pair)
        if block is None:
            shape = (len(self._agents[pair[0]].nodes), len(self._agents[pair[1]].nodes))
            block = self._blocks[pair] = _Block(np.full(shape, FAR, dtype=np.uint8))
            self._partners[agent].add(other)
            self._partners[other].add(agent)
        block.weighed, block.nearest = False, None
        if pair[0] == agent:
            block.hops[rows] = hops
        else:
            block.hops[:, rows] = hops.T

    # -- weights

    def _weigh(self, pairs: Iterable[Pair]) -> None:
        """Equation 5 for these pairs: of those of which only weights changed, all at once."""
        again: list[tuple[Pair, _Nearest]] = []
        for pair in pairs:
            self._best.pop(pair, None)
            block = self._blocks.get(pair)
            if block is None:
                continue
            if not block.weighed:
                self._weigh_whole(pair, block)
                continue
            nearest = block.nearest = block.nearest or _Nearest.of(block.hops)
            if len(nearest.at):
                again.append((pair, nearest))
        if not again:
            return
        for (pair, nearest), (share, at) in zip(again, _strongest(again, self._agents), strict=True):
            mine, theirs = self._agents[pair[0]], self._agents[pair[1]]
            if share > nearest.beyond * (mine.heaviest * theirs.heaviest):
                self._put(pair, self._blocks[pair].hops, share, at)
            else:
                self._weigh_whole(pair, self._blocks[pair])

    def _weigh_whole(self, pair: Pair, block: _Block) -> None:
        block.weighed = True
        if block.hops.size:
            mine, theirs = self._agents[pair[0]], self._agents[pair[1]]
            share, at = strongest(block.hops, mine.weights, theirs.weights)
            if share:
                self._put(pair, block.hops, share, at)

    def _put(self, pair: Pair, hops: Hops, share: float, at: int) -> None:
        row, column = divmod(at, hops.shape[1])
        paths, others = self._agents[pair[0]].paths, self._agents[pair[1]].paths
        self._best[pair] = Coupling(paths[row], others[column], hops.item(at), share)


def _strongest(
    found: Sequence[tuple[Pair, _Nearest]], agents: Mapping[str, _Nodes]
) -> Iterable[tuple[float, int]]:
    """`strongest` of each pair, among its nearest files: few of all, and no call of numpy for each pair."""
    there = {agent: agents[agent] for pair, _ in found for agent in pair}
    begins = _begins([len(held.nodes) for held in there.values()]).tolist()
    begin = dict(zip(there, begins, strict=True))
    weights = np.concatenate([held.weights for held in there.values()])
    # Of each pair: where the weights of both begin, how many files the second has, how many are nearest.
    mine, theirs, width, count = np.array(
        [(begin[a], begin[b], len(there[b].nodes), len(nearest.at)) for (a, b), nearest in found]
    ).T
    at = np.concatenate([nearest.at for _, nearest in found])
    rows, columns = np.divmod(at, np.repeat(width, count))
    shares = _GAIN.take(np.concatenate([nearest.hops for _, nearest in found]))
    shares *= weights.take(rows + np.repeat(mine, count))
    shares *= weights.take(columns + np.repeat(theirs, count))
    starts = _begins(count)
    most = np.maximum.reduceat(shares, starts)
    equal = np.flatnonzero(shares == np.repeat(most, count))
    first = at[equal[np.searchsorted(equal, starts)]]
    return zip(most.tolist(), first.tolist(), strict=True)


def _begins(sizes: Sequence[int] | Ints) -> Ints:
    """Where each part begins when they stand one after the other."""
    counts: Ints = np.asarray(sizes, dtype=np.int64)
    begins: Ints = np.cumsum(counts) - counts
    return begins
