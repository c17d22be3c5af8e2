"""Which agents touch: the same path, the same directories, or what one means to do and the other does.

Invariant: an agent is in the index exactly where its latest working set is, so the agents that could be near are
found without looking at the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from relay.model.working_set import WorkingSet, all_paths


@dataclass(frozen=True, slots=True)
class Places:
    """Where one agent is. `above`: for each prefix of its paths, the depth of its shallowest path below it
    (components, the file's name too); a path is a prefix of itself."""

    work: frozenset[str]
    meant: frozenset[str]
    above: Mapping[str, int]

    @classmethod
    def of(cls, working: WorkingSet) -> Places:
        work = all_paths(working.files)
        above: dict[str, int] = {}
        for path in work:
            parts = path.split("/")
            depth = len(parts)
            for length in range(1, depth + 1):
                prefix = "/".join(parts[:length])
                if above.get(prefix, depth) >= depth:
                    above[prefix] = depth
        return cls(work, all_paths(working.intent), above)

    def tree(self, other: Places) -> float:
        """r_tree of equation 6. For each common prefix of L components, the two shallowest files below it are
        the nearest: their distance by that prefix is theirs, or more than theirs."""
        mine, theirs = self.above, other.above
        if len(theirs) < len(mine):
            mine, theirs = theirs, mine
        least = 1.0
        for prefix in mine.keys() & theirs.keys():
            depths = mine[prefix] + theirs[prefix]
            least = min(least, (depths - 2 * (prefix.count("/") + 1)) / depths)
        return 1.0 - least


class Index:
    """Agents by the paths and the directories that they are in."""

    def __init__(self) -> None:
        self._work: defaultdict[str, set[str]] = defaultdict(set)
        self._meant: defaultdict[str, set[str]] = defaultdict(set)
        self._above: defaultdict[str, dict[str, int]] = defaultdict(dict)

    def add(self, agent: str, places: Places) -> None:
        for path in places.work:
            self._work[path].add(agent)
        for path in places.meant:
            self._meant[path].add(agent)
        for prefix, depth in places.above.items():
            self._above[prefix][agent] = depth

    def drop(self, agent: str, places: Places) -> None:
        for path in places.work:
            _leave(self._work, path, agent)
        for path in places.meant:
            _leave(self._meant, path, agent)
        for prefix in places.above:
            below = self._above[prefix]
            del below[agent]
            if not below:
                del self._above[prefix]

    def meeting(self, agent: str, places: Places) -> set[str]:
        """The other agents that share a path with the agent, or whose work or intent its intent meets."""
        agents: set[str] = set()
        for path in places.work:
            agents.update(self._work[path], self._meant.get(path, ()))
        for path in places.meant:
            agents.update(self._work.get(path, ()), self._meant[path])
        agents.discard(agent)
        return agents

    def trees(self, agent: str, places: Places) -> dict[str, float]:
        """r_tree to every other agent with a common prefix (`Places.tree`); that of all others is 0."""
        least = dict[str, float]()
        for prefix, depth in places.above.items():
            common = 2 * (prefix.count("/") + 1)
            for other, below in self._above[prefix].items():
                apart = (depth + below - common) / (depth + below)
                if apart < least.get(other, 1.0):
                    least[other] = apart
        least.pop(agent, None)
        return {other: 1.0 - apart for other, apart in least.items()}


def _leave(index: defaultdict[str, set[str]], path: str, agent: str) -> None:
    index[path].discard(agent)
    if not index[path]:
        del index[path]
