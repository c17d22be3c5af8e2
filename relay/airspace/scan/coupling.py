"""The dependency channel over many agents: for each pair, the two files with the strongest coupling.

Invariant: after `take_in`, each pair whose agents can reach one another has the hop counts between all their
files, and `strongest` is equation 5 over them, to the last bit. A file is searched from once, when an agent takes
it up or the graph changes; weights are laid on afterwards, so their decay costs no search.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from relay.airspace.pair_facts import Coupling
from relay.airspace.profiles.formulas import GAMMA, MAX_HOPS
from relay.airspace.scan.import_distances import FAR, Dependencies, Floats, Hops, Ints
from relay.model.working_set import FileTouch, Pair, pair_of

#: Hop counts of one pair of agents: the files of the one, the files of the other. None of them is 0.
Block = npt.NDArray[np.uint8]
#: gamma^(d - 1) by hop count; nothing for what is out of reach.
_GAIN: Floats = np.array([0.0, *(GAMMA ** (d - 1) for d in range(1, FAR)), 0.0])


def strongest(block: Block, rows: Floats, columns: Floats) -> tuple[float, int, int, int] | None:
    """max w_f w_g gamma^(d-1) of one pair that has files, with its row, column and hops; None: out of reach. Of equal
    shares the first row counts, then the first column. `rows` and `columns`: the weights of both sides' files."""
    shares = _GAIN.take(block)
    shares *= rows[:, None]
    shares *= columns
    row, column = divmod(int(shares.argmax()), len(columns))
    share = float(shares[row, column])
    return (share, row, column, int(block[row, column])) if share else None


@dataclass(frozen=True, slots=True)
class _Nodes:
    """The files of one agent that are in the graph, by path."""

    files: tuple[FileTouch, ...]
    paths: tuple[str, ...]
    nodes: Ints
    weights: Floats

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
        return cls(files, paths, nodes, np.array([weights[path] for path in paths], dtype=np.float64))


class Couplings:
    """By the direction-agnostic distance (equation 4), of at most `reach` imports, None = any number; or, `directed`,
    by the smaller of the two directed distances."""

    def __init__(self, graph: Dependencies, reach: int | None = None, *, directed: bool = False) -> None:
        self.graph = graph
        self.reach = reach
        self.directed = directed
        self._version = graph.version
        self._agents: dict[str, _Nodes] = {}
        #: The lower id's files, the higher id's files. A file's distance 0 to itself is FAR here: it belongs to the
        #: overlap channel.
        self._blocks: dict[Pair, Block] = {}
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
            after = self._agents[agent] = _Nodes.of(now, self.graph, before)
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
            block = self._blocks[pair]
            axis = pair.index(agent)
            if not block.shape[axis]:
                shape = (*block.shape[:axis], len(after), *block.shape[axis + 1 :])
                block = np.full(shape, FAR, dtype=np.uint8)
            else:
                block = block.take(source, axis=axis)
            if axis == 0:
                block[fresh] = FAR
            else:
                block[:, fresh] = FAR
            self._blocks[pair] = block
        return fresh

    def _search(self, fresh: Mapping[str, Ints]) -> set[Pair]:
        """Search from the files that are new, to all that anybody holds."""
        agents = [agent for agent, held in self._agents.items() if len(held.nodes)]
        if not fresh or len(agents) < 2:
            return set()
        sizes = [len(self._agents[agent].nodes) for agent in agents]
        begin = np.cumsum([0, *sizes[:-1]])
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

    def _write(self, agent: str, rows: Ints, other: str, hops: Block) -> None:
        pair = pair_of(agent, other)
        block = self._blocks.get(pair)
        if block is None:
            shape = (len(self._agents[pair[0]].nodes), len(self._agents[pair[1]].nodes))
            block = self._blocks[pair] = np.full(shape, FAR, dtype=np.uint8)
            self._partners[agent].add(other)
            self._partners[other].add(agent)
        if pair[0] == agent:
            block[rows] = hops
        else:
            block[:, rows] = hops.T

    # -- weights

    def _weigh(self, pairs: Iterable[Pair]) -> None:
        """Equation 5 for these pairs."""
        for pair in pairs:
            block = self._blocks.get(pair)
            if block is None or not block.size:
                self._best.pop(pair, None)
                continue
            mine, theirs = self._agents[pair[0]], self._agents[pair[1]]
            best = strongest(block, mine.weights, theirs.weights)
            if best is None:
                self._best.pop(pair, None)
            else:
                share, row, column, hops = best
                self._best[pair] = Coupling(mine.paths[row], theirs.paths[column], hops, share)
