"""N agents in one file are one advisory: which pairs belong together, and who gives way to whom.

Invariants:
- the groups and their orders do not depend on the order in which pairs and agents are given;
- a pair that is part of an advisory stays part of it until the pair is clear;
- an order, once latched, only grows at its end: who had the right of way keeps it, whatever is committed later,
  unless a person says who goes first, or the main branch does not take its work any more;
- who is only near is neither held nor steered nor ahead of somebody who steers.

Pure (000, section 3: "coordinated and deterministic").
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from relay.airspace.advisories.rules.right_of_way import in_order
from relay.airspace.readings import Evidence, Level
from relay.model.working_set import Pair, WorkingSet


@dataclass(frozen=True, slots=True)
class Priority:
    """What an agent's right of way rests on, as it was when the order was latched.

    `committed`: live, files in commits since the merge base. `started_at`: Unix seconds, 0 = unknown. `by`: the
    person who said that it goes first; empty: nobody. `back`: it went behind the others, since it was set back.
    """

    agent: str
    committed: float = 0.0
    started_at: float = 0.0
    by: str = ""
    back: bool = False


def priority_of(work: WorkingSet) -> Priority:
    return Priority(work.agent, work.committed, work.started_at)


@dataclass(frozen=True, slots=True)
class Contact:
    """A pair that is not clear. `files`: the contested ones, the strongest first."""

    level: Level
    risk: float
    files: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()


def by_weight(contacts: Mapping[Pair, Contact]) -> list[Contact]:
    """The highest level first, in it the highest risk."""
    ordered = sorted(contacts.items(), key=lambda item: (-item[1].level, -item[1].risk, item[0]))
    return [contact for _, contact in ordered]


def evidence_of(contacts: Mapping[Pair, Contact]) -> tuple[Evidence, ...]:
    """All of it, that of the weightiest pair first, each once."""
    return tuple(dict.fromkeys(evidence for contact in by_weight(contacts) for evidence in contact.evidence))


@dataclass(frozen=True, slots=True)
class Group:
    """The pairs of one advisory. `id` None: a new one."""

    id: str | None
    contacts: Mapping[Pair, Contact]

    @property
    def agents(self) -> frozenset[str]:
        return frozenset(agent for pair in self.contacts for agent in pair)

    @property
    def resolved(self) -> frozenset[str]:
        """Those that are part of a pair at a resolution."""
        at_one = (pair for pair, contact in self.contacts.items() if contact.level is Level.RESOLUTION)
        return frozenset(agent for pair in at_one for agent in pair)


def group(contacts: Mapping[Pair, Contact], standing: Mapping[str, Collection[Pair]]) -> list[Group]:
    """The advisories that these pairs make. `standing`: the pairs of those that are open, by id; each of them is
    given, also one that has no pair left."""
    members = {id: {pair for pair in pairs if pair in contacts} for id, pairs in standing.items()}
    free = sorted(set(contacts) - {pair for pairs in members.values() for pair in pairs})
    free = _join(free, members, contacts)
    groups = [*sorted(members.items()), *((None, pairs) for pairs in _new(free, contacts))]
    return [Group(id, {pair: contacts[pair] for pair in sorted(pairs)}) for id, pairs in groups]


def _join(free: list[Pair], members: dict[str, set[Pair]], contacts: Mapping[Pair, Contact]) -> list[Pair]:
    """Add what belongs to a standing advisory; gives what is left over."""
    standing = {id: _Members.of(pairs, contacts) for id, pairs in members.items()}
    while free:
        left = []
        for pair in free:
            files = set(contacts[pair].files)
            id = min((id for id, group in standing.items() if group.takes(pair, files)), default=None)
            if id is None:
                left.append(pair)
            else:
                members[id].add(pair)
                standing[id] = _Members.of(members[id], contacts)
        if len(left) == len(free):
            break
        free = left
    return free


@dataclass(frozen=True, slots=True)
class _Members:
    """Who is in an advisory, and the files that hold it together: those of several of its pairs, so that no chain
    of different files becomes one advisory; of a single pair all."""

    agents: frozenset[str]
    files: frozenset[str]

    @classmethod
    def of(cls, pairs: Iterable[Pair], contacts: Mapping[Pair, Contact]) -> _Members:
        pairs = list(pairs)
        counted = Counter(path for pair in pairs for path in set(contacts[pair].files))
        shared = frozenset(path for path, times in counted.items() if times > 1)
        return cls(frozenset(agent for pair in pairs for agent in pair), shared or frozenset(counted))

    def takes(self, pair: Pair, files: set[str]) -> bool:
        return not self.agents.isdisjoint(pair) and not self.files.isdisjoint(files)


def _new(free: Sequence[Pair], contacts: Mapping[Pair, Contact]) -> list[list[Pair]]:
    """New groups: of the pairs in one file that are connected by an agent, the largest first; then the rest, each
    for itself."""
    left = set(free)
    by_path: dict[str, list[Pair]] = {}
    for pair in free:
        for path in set(contacts[pair].files):
            by_path.setdefault(path, []).append(pair)
    waiting = [(-len(part), path, part) for path, pairs in by_path.items() for part in _connected(pairs)]
    heapq.heapify(waiting)
    made: list[list[Pair]] = []
    while waiting and waiting[0][0] < -1:
        _, path, part = heapq.heappop(waiting)
        still = [pair for pair in part if pair in left]
        if len(still) == len(part):
            made.append(part)
            left -= set(part)
        else:
            # Some of it went to a larger one: what is left may have fallen apart.
            for rest in _connected(still):
                heapq.heappush(waiting, (-len(rest), path, rest))
    return sorted([*made, *([pair] for pair in left)])


def _connected(pairs: Iterable[Pair]) -> list[list[Pair]]:
    """The pairs in parts that share no agent, each sorted."""
    parent: dict[str, str] = {}

    def root(agent: str) -> str:
        parent.setdefault(agent, agent)
        while parent[agent] != agent:
            parent[agent] = agent = parent[parent[agent]]
        return agent

    ordered = sorted(pairs)
    for a, b in ordered:
        parent[root(a)] = root(b)
    parts: dict[str, list[Pair]] = {}
    for pair in ordered:
        parts.setdefault(root(pair[0]), []).append(pair)
    return sorted(parts.values())


def latch_order(
    latched: Sequence[Priority], agents: Iterable[str], priorities: Mapping[str, Priority]
) -> tuple[Priority, ...]:
    """The order with whoever is new at its end; among themselves the new ones by right of way."""
    have = {priority.agent for priority in latched}
    new = {agent: priorities.get(agent, Priority(agent)) for agent in set(agents) - have}
    order = in_order(
        WorkingSet(priority.agent, started_at=priority.started_at, committed=priority.committed)
        for priority in new.values()
    )
    return (*latched, *(new[working_set.agent] for working_set in order))


def move_behind(latched: tuple[Priority, ...], backs: Collection[str]) -> tuple[Priority, ...]:
    """The order with those that the main branch does not take behind the others, which merge: to wait for them would
    hold everybody up. Not where a person said who goes first."""
    order = sorted(latched, key=lambda priority: priority.agent in backs)
    if tuple(order) == latched or any(priority.by for priority in latched):
        return latched
    return tuple(replace(priority, back=priority.agent in backs) for priority in order)


@dataclass(frozen=True, slots=True)
class Roles:
    """Who does what, each in the latched order. `off`: by steering agent, the files that it leaves; `ahead`: by
    steering agent, whom it steers for. Who is only near is in `agents` alone."""

    agents: tuple[str, ...] = ()
    hold: tuple[str, ...] = ()
    steer: tuple[str, ...] = ()
    off: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ahead: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def near(self) -> tuple[str, ...]:
        """Those that neither hold nor steer."""
        return tuple(agent for agent in self.agents if agent not in self.hold and agent not in self.steer)


def roles(latched: Sequence[Priority], contacts: Mapping[Pair, Contact]) -> Roles:
    """Of each pair at a resolution the one later in the order steers; who steers for nobody holds."""
    rank = {priority.agent: at for at, priority in enumerate(latched)}
    present = {agent for pair in contacts for agent in pair}
    off: dict[str, dict[str, None]] = {}
    before: dict[str, set[str]] = {}
    resolved: set[str] = set()
    for pair, contact in sorted(contacts.items()):
        if contact.level is Level.RESOLUTION:
            resolved |= set(pair)
            earlier, later = sorted(pair, key=lambda agent: rank[agent])
            off.setdefault(later, {}).update(dict.fromkeys(contact.files))
            before.setdefault(later, set()).add(earlier)
    in_order = [priority.agent for priority in latched if priority.agent in present]
    return Roles(
        agents=tuple(in_order),
        hold=tuple(agent for agent in in_order if agent in resolved and agent not in off),
        steer=tuple(agent for agent in in_order if agent in off),
        off={agent: tuple(off[agent]) for agent in in_order if agent in off},
        ahead={
            agent: tuple(other for other in in_order if other in before[agent])
            for agent in in_order
            if agent in off
        },
    )
