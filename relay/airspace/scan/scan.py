"""The scan: the risk between all pairs of agents that touch, and of no other pair.

Invariant: a link says what the profile says of the two working sets and of everything that lies between them,
exactly as if each pair of files had been searched on its own; what did not change is not computed again. Pairs
that do not touch are not looked at: without a shared path, a meeting intent, a merge or like words, and farther in
the tree and in the graph than `_Bounds` says, no channel that is about two places lifts a pair above the floor. (The
calibrated profile reads churn and size of any two sets. Alone they stay below a traffic advisory, so no level is
missed: a pair of which nothing else is known is left out as clear.)

A `PairScan` belongs to one thread at a time. What it gives out is frozen.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

from relay.airspace.pair_facts import Coupling, Likeness, PairFacts, SymbolFindings
from relay.airspace.profiles.formulas import DEPENDENCY, TREE, Profile, coefficient
from relay.airspace.readings import Assessment, Level
from relay.airspace.scan.candidate_pairs import Index, Places
from relay.airspace.scan.coupling import Couplings
from relay.airspace.scan.import_distances import Dependencies
from relay.airspace.scan.symbol_hazards import SymbolFacts
from relay.airspace.text_similarity import ALIKE
from relay.base.gc_pause import held_back
from relay.git.trial_merge import Merge
from relay.model.working_set import Pair, WorkingSet, pair_of


class Link(NamedTuple):
    """One pair, a < b by id."""

    a: str
    b: str
    assessment: Assessment

    @property
    def risk(self) -> float:
        return self.assessment.risk

    @property
    def level(self) -> Level:
        return self.assessment.level


@dataclass(frozen=True, slots=True)
class Scan:
    """All links at or above the floor, the greatest risk first, then by ids; `looked_at`: pairs that touch."""

    profile: str
    agents: tuple[str, ...]
    links: tuple[Link, ...]
    looked_at: int


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Below both of these, a pair that shares nothing stays below the floor: it has
    R < 1 - (1 - TREE tree)(1 - DEPENDENCY share) = floor."""

    tree: float
    share: float

    @classmethod
    def of(cls, floor: float) -> _Bounds:
        each = 1.0 - math.sqrt(1.0 - floor)
        return cls(each / TREE, each / DEPENDENCY)


@dataclass(slots=True)
class _TrackedSet:
    working: WorkingSet
    places: Places
    work: list[tuple[Any, ...]]


@dataclass(slots=True)
class _PairState:
    """What is known about a pair; None = to be asked."""

    tree: float
    #: It shares a path, meets an intent or is near in the tree; or its coupling is strong enough.
    touches: bool = False
    coupled: bool = False
    facts: SymbolFindings | None = None
    #: `PairFacts.kept`
    kept: dict[str, Any] = field(default_factory=dict)


class PairScan:
    """The state of the scan, kept warm between scans.

    `floor`: links below this risk are left out, and pairs that cannot reach it are not looked at; 0 = all pairs.
    `reach`: imports that `PairFacts.coupling` counts at most; None = any number (equation 4). A reach of n leaves out
    less than 0.9 x 0.5^n of R.
    """

    def __init__(self, *, floor: float = 0.0, reach: int | None = None) -> None:
        if not 0.0 <= floor < 1.0:
            raise ValueError(f"a floor is a risk from 0 to less than 1, not {floor}")
        self.floor = floor
        self._bounds = _Bounds.of(floor) if floor > 0 else None
        self._waiting: dict[str, WorkingSet | None] = {}
        self._held: dict[str, _TrackedSet] = {}
        self._index = Index()
        self._pairs: dict[Pair, _PairState] = {}
        #: The pairs that touch.
        self._touching: set[Pair] = set()
        #: The links of the last scan, and of which of them something changed since.
        self._links: dict[Pair, Link] = {}
        self._stale: set[Pair] = set()
        #: Those above the floor, the greatest risk first, then by ids.
        self._ranked: list[tuple[float, Pair, Link]] = []
        #: The last scan, None when other agents are there; it stands while nothing changes.
        self._seen: Scan | None = None
        self._last: tuple[Profile | None, Mapping[Pair, Merge], Mapping[Pair, Likeness]] = (None, {}, {})
        self._partners: defaultdict[str, set[str]] = defaultdict(set)
        self._reach = reach
        #: By the distances that the profile reads.
        self._couplings = Couplings(Dependencies(), reach)
        self._symbols: SymbolFacts | None = None

    # -- what changed: noted here, taken in by the next scan

    def update(self, working: WorkingSet) -> None:
        """The agent's working set is now this one."""
        self._waiting[working.agent] = working

    def remove(self, agent: str) -> None:
        """The agent is gone; an unknown one is gone already."""
        self._waiting[agent] = None

    def set_graph(self, adjacency: Mapping[str, Iterable[str]]) -> None:
        """Another graph altogether: file -> the files that it imports."""
        self._measure_by(Dependencies(adjacency), directed=self._couplings.directed)
        self._forget_facts()

    def patch_graph(self, path: str, imported: Iterable[str]) -> None:
        """What one file imports now; nothing, when it is gone."""
        if self._couplings.graph.patch(path, imported):
            self._forget_facts()

    def set_symbols(self, symbols: SymbolFacts | None) -> None:
        """Where hazards are asked; set anew when the symbols changed, all pairs are asked again."""
        self._symbols = symbols
        self._forget_facts()

    def _measure_by(self, graph: Dependencies, *, directed: bool) -> None:
        """Search anew, at the next scan."""
        self._stale.update(pair for pair in self._pairs if self._couplings.strongest(pair))
        self._couplings = Couplings(graph, self._reach, directed=directed)
        for pair in [pair for pair, between in self._pairs.items() if between.coupled]:
            self._couple(pair)

    def _forget_facts(self) -> None:
        for between in self._pairs.values():
            between.facts = None
        self._stale.update(self._pairs)

    @property
    def graph(self) -> Dependencies:
        """The dependency graph now; for `Embedding.place`."""
        return self._couplings.graph

    def working_sets(self) -> tuple[WorkingSet, ...]:
        """The working sets of all agents, by id, as of the last scan."""
        return tuple(self._held[agent].working for agent in sorted(self._held))

    # -- the scan

    def scan(
        self,
        profile: Profile,
        merges: Mapping[Pair, Merge] | None = None,
        words: Mapping[Pair, Likeness] | None = None,
    ) -> Scan:
        """All links now. `merges`: speculative merges by (a, b), a < b by id; `words`: likenesses, the same way."""
        with held_back():
            return self._scan(profile, merges or {}, words or {})

    def _scan(self, profile: Profile, merges: Mapping[Pair, Merge], words: Mapping[Pair, Likeness]) -> Scan:
        # Each profile reads one of the two distances: the other is not searched for.
        if self._couplings.directed != (directed := profile.assess is coefficient):
            self._measure_by(self.graph, directed=directed)
        self._take_in()
        before, self._last = self._last, (profile, dict(merges), dict(words))
        if before[0] is not profile:
            self._links.clear()
            self._seen = None
        for now, then in ((merges, before[1]), (words, before[2])):
            if now != then:
                self._stale.update(
                    pair for pair in now.keys() | then.keys() if now.get(pair) != then.get(pair)
                )
        links = self._links
        more = [*merges, *(pair for pair, likeness in words.items() if likeness.cosine >= ALIKE)]
        pairs = self._touching.union(pair for pair in more if self._held.keys() >= set(pair))
        gone = self._stale | (links.keys() - pairs)
        self._stale = set()
        for pair in gone:
            links.pop(pair, None)
        new = [
            self._link(pair, profile, merges.get(pair), words.get(pair))
            for pair in sorted(pairs - links.keys())
        ]
        if self._seen is not None and not new and not gone:
            return self._seen
        above = [entry for entry in self._ranked if links.get(entry[1]) is entry[2]]
        above += [(-link.risk, (link.a, link.b), link) for link in new if link.risk >= self.floor]
        above.sort()
        self._ranked = above
        agents = tuple(sorted(self._held))
        self._seen = Scan(profile.name, agents, tuple([entry[2] for entry in above]), len(pairs))
        return self._seen

    def near(self, a: str, b: str) -> PairFacts:
        """Everything known about a pair a < b, whether they touch or not; without its merge."""
        self._take_in()
        sets = self._held[a].working, self._held[b].working
        coupling, directed = _couplings(*sets, self.graph, self._reach)
        return self._near((a, b), None, None)._replace(coupling=coupling, directed=directed, kept=None)

    def _link(self, pair: Pair, profile: Profile, merge: Merge | None, words: Likeness | None) -> Link:
        near = self._near(pair, merge, words)
        assessment = profile.assess(self._held[pair[0]].working, self._held[pair[1]].working, near)
        link = self._links[pair] = Link(*pair, assessment)
        return link

    def _near(self, pair: Pair, merge: Merge | None, words: Likeness | None) -> PairFacts:
        between = self._between(pair)
        a, b = self._held[pair[0]].working, self._held[pair[1]].working
        facts = between.facts
        if facts is None:
            facts = between.facts = SymbolFindings() if self._symbols is None else self._symbols.facts(a, b)
        coupling = self._couplings.strongest(pair)
        return PairFacts(
            None if self._couplings.directed else coupling,
            coupling if self._couplings.directed else None,
            between.tree,
            facts.hazards,
            facts.calls,
            facts.tests,
            merge,
            words,
            between.kept,
        )

    # -- taking in what changed

    def _take_in(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for agent in [agent for agent, working in waiting.items() if self._replace(agent, working)]:
            self._meet(agent)
        for pair in self._couplings.take_in(
            {agent: tracked.working.files for agent, tracked in self._held.items()}
        ):
            self._couple(pair)

    def _replace(self, agent: str, working: WorkingSet | None) -> bool:
        """Take the set in. True when the agent is at other places than before."""
        before = self._held.get(agent)
        if before is not None and before.working == working:
            return False
        if working is None:
            if before is not None:
                self._forget(agent, before)
            return False
        work = _work(working)
        worked = before is None or before.work != work
        same = before is not None and _where(before.working) == _where(working)
        places = before.places if before is not None and same else Places.of(working)
        self._held[agent] = _TrackedSet(working, places, work)
        for other in self._partners[agent]:
            pair = pair_of(agent, other)
            self._stale.add(pair)
            if worked:
                self._pairs[pair].facts, self._pairs[pair].kept = None, {}
        if same:
            return False
        if before is None:
            self._seen = None
            if self._bounds is None:
                self._touching |= {pair_of(agent, other) for other in self._held if other != agent}
        else:
            self._index.drop(agent, before.places)
        self._index.add(agent, places)
        return True

    def _forget(self, agent: str, held: _TrackedSet) -> None:
        del self._held[agent]
        self._seen = None
        if self._bounds is None:
            self._touching = {pair for pair in self._touching if agent not in pair}
        self._index.drop(agent, held.places)
        for other in list(self._partners[agent]):
            self._part(pair_of(agent, other))

    def _meet(self, agent: str) -> None:
        """The agent has moved: find the agents near it now."""
        places, bounds = self._held[agent].places, self._bounds
        trees = self._index.trees(agent, places)
        near = set[str]()
        if bounds is not None:
            near = self._index.meeting(agent, places)
            near.update(other for other, tree in trees.items() if tree >= bounds.tree)
        for other in near | self._partners[agent]:
            between = self._between(pair := pair_of(agent, other))
            between.tree = trees.get(other, 0.0)
            if bounds is None:
                continue
            between.touches = other in near
            self._settle(pair, between)

    def _couple(self, pair: Pair) -> None:
        """The pair's couplings may have changed."""
        if pair[0] not in self._held or pair[1] not in self._held:
            return
        coupling = self._couplings.strongest(pair)
        coupled = bool(self._bounds and coupling and coupling.share >= self._bounds.share)
        between = self._between(pair) if coupled else self._pairs.get(pair)
        if between is not None:
            self._stale.add(pair)
            between.coupled = coupled
            if self._bounds is not None:
                self._settle(pair, between)

    def _settle(self, pair: Pair, between: _PairState) -> None:
        """Whether the pair touches may have changed."""
        if between.touches or between.coupled:
            self._touching.add(pair)
        else:
            self._part(pair)

    def _between(self, pair: Pair) -> _PairState:
        known = self._pairs.get(pair)
        if known is None:
            a, b = pair
            known = self._pairs[pair] = _PairState(self._held[a].places.tree(self._held[b].places))
            self._partners[a].add(b)
            self._partners[b].add(a)
        return known

    def _part(self, pair: Pair) -> None:
        a, b = pair
        del self._pairs[pair]
        self._touching.discard(pair)
        self._stale.add(pair)
        self._partners[a].discard(b)
        self._partners[b].discard(a)


def facts_between(a: WorkingSet, b: WorkingSet, adjacency: Mapping[str, Iterable[str]]) -> PairFacts:
    """What lies between two sets alone, a's side first: distances and the tree, no symbols and no merge."""
    coupling, directed = _couplings(a, b, Dependencies(adjacency), None)
    return PairFacts(coupling, directed, Places.of(a).tree(Places.of(b)))


def _couplings(
    a: WorkingSet, b: WorkingSet, graph: Dependencies, reach: int | None
) -> tuple[Coupling | None, Coupling | None]:
    """Of one pair alone, by both distances."""
    ways = Couplings(graph, reach), Couplings(graph, directed=True)
    for couplings in ways:
        couplings.take_in({"a": a.files, "b": b.files})
    return ways[0].strongest(("a", "b")), ways[1].strongest(("a", "b"))


def _where(working: WorkingSet) -> tuple[list[tuple[str, str | None]], ...]:
    return tuple(
        [(touch.path, touch.new_path) for touch in files] for files in (working.files, working.intent)
    )


#: Everything about a file but its weight.
_IN_HAND = attrgetter("path", "change", "lines", "new_path", "binary", "churn", "length")


def _work(working: WorkingSet) -> list[tuple[Any, ...]]:
    """What symbols are asked about, and what `PairFacts.kept` stands on."""
    return list(map(_IN_HAND, working.files))
