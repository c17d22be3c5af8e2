"""In which order to merge branches so that the fewest are set back: the least entangled first.

Invariant: the order follows from who collides with whom and from what people decided, so every interface gives the
same one. Pure.

To merge one of two that collide sets the other back: it has to merge main before it merges. The fewest are set
back when a largest set of branches that do not collide goes first (a maximum independent set). Least entangled
first is the usual greedy way to one; it is exact for trees and complete graphs, and near it elsewhere
(Halldorsson and Radhakrishnan, "Greed is good", 1997).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relay.model.working_set import Pair


@dataclass(frozen=True, slots=True)
class MergeStep:
    """One merge of the order. `sets_back`: by agent, the files that it then conflicts with main in. `first`: what
    the agent has to do before ("merge main into its branch" for who conflicts, or will); empty when it merges as it
    is. `failed`: the verification that its tests failed in (`v1`); empty: none is known. `undoes`: what of others'
    landed work its own undoes, each as a row of the worktrees has it (`undone`)."""

    agent: str
    sets_back: Mapping[str, tuple[str, ...]]
    first: str = ""
    failed: str = ""
    undoes: Sequence[Mapping[str, str]] = ()

    def as_json(self) -> dict[str, Any]:
        sets_back = [{"agent": name, "paths": list(paths)} for name, paths in sorted(self.sets_back.items())]
        return {
            "agent": self.agent,
            "first": self.first,
            "failed": self.failed,
            "undoes": list(self.undoes),
            "sets_back": sets_back,
        }


TAKE_MAIN = "merge main into its branch"


def best_order(
    merging: Sequence[str],
    behind: Sequence[str],
    collisions: Mapping[Pair, tuple[str, ...]],
    yields: Callable[[str, str], bool] = lambda agent, other: False,
    decided: Collection[str] = (),
    failed: Mapping[str, str] | None = None,
    undoes: Mapping[str, Sequence[Mapping[str, str]]] | None = None,
) -> list[MergeStep]:
    """`merging`: those that merge clean now; `behind`: those that conflict with main now; `collisions`: the files
    in which a pair cannot be merged together; `yields`: does the one steer for the other? Of those that are equally
    entangled, who has the right of way goes first; then by name. `decided`: of whom a person said that it goes first:
    these come before all others, also who has to merge main before. `failed`: whose tests failed, and in which
    verification: these come last; `undoes`: who would undo what of others' landed work: these come after them."""
    failed = failed or {}
    undoes = {name: found for name, found in (undoes or {}).items() if found}
    near: dict[str, dict[str, tuple[str, ...]]] = {name: {} for name in (*merging, *behind)}
    for (a, b), paths in collisions.items():
        if paths and a in near and b in near:
            near[a][b], near[b][a] = paths, paths
    owing = set(behind)
    broken = {*merging, *behind} & (failed.keys() | undoes.keys())
    able = {*merging, *(owing & set(decided))} - broken
    later = (owing - set(decided)) | broken
    left: set[str] = set()

    def rank(agent: str) -> tuple[bool, bool, bool, int, int, str]:
        mine = near[agent].keys() & left
        behind_of = sum(yields(agent, other) for other in mine)
        return agent in undoes, agent in broken, agent not in decided, len(mine), behind_of, agent

    turns = []
    while able or later:
        if not able:
            # Only those are left that have to merge main: once they have, they are as any other.
            able, later = later, set()
        left |= able | later
        while able:
            agent = min(able, key=rank)
            able.discard(agent)
            left.discard(agent)
            # One that comes last is set back as any other that would have merged.
            open_ = able | (later & (broken - owing))
            hit = {name: near[agent][name] for name in sorted(near[agent].keys() & open_)}
            first = TAKE_MAIN if agent in owing else ""
            turns.append(MergeStep(agent, hit, first, failed.get(agent, ""), undoes.get(agent, ())))
            able -= hit.keys()
            later |= hit.keys()
            owing |= hit.keys()
    return turns
