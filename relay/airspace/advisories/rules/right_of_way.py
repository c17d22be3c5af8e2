"""Who holds its course: one order of the agents, the same for whoever computes it (000, section 3).

Invariant: total and deterministic, so two sides never pick the same maneuver. Pure; latching the answer when an
advisory opens is the protocol's.
"""

from __future__ import annotations

from collections.abc import Iterable

from relay.model.working_set import WorkingSet


def in_order(agents: Iterable[WorkingSet]) -> tuple[WorkingSet, ...]:
    """From the greatest right-of-way to the least: more committed work, then the earlier start, then the lower
    id. An unknown start (0) comes after every known one."""
    return tuple(sorted(agents, key=_priority))


def right_of_way(a: WorkingSet, b: WorkingSet) -> tuple[WorkingSet, WorkingSet]:
    """The one that holds, and the one that steers."""
    hold, steer = in_order((a, b))
    return hold, steer


def _priority(working_set: WorkingSet) -> tuple[float, float, str]:
    # Sums of weights differ in their last bits by the order of the files: that is no difference in work.
    return -round(working_set.committed, 9), working_set.started_at or float("inf"), working_set.agent
