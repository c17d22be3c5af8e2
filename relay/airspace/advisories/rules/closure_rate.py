"""How fast two agents converge (000, section 3, "Closure rate"). Pure.

Invariant: a rate has the unit risk per second, and is positive while they approach.
"""

from __future__ import annotations

from relay.airspace.readings import Thresholds


def closure_rate(before: float, now: float, seconds: float) -> float:
    """(R_t - R_(t - dt)) / dt, for two samples `seconds` > 0 apart."""
    if seconds <= 0:
        raise ValueError(f"two samples {seconds} s apart have no closure rate; they are to be in order")
    return (now - before) / seconds


def enters_early(risk: float, rate: float, thresholds: Thresholds, horizon_s: float) -> bool:
    """Whether a clear pair is to be told now: it is near the traffic threshold, and at this rate it crosses it
    within `horizon_s`. Near is within twice the slack: the document only says "near"."""
    near = thresholds.traffic - 2 * thresholds.slack
    return rate > 0 and near <= risk < thresholds.traffic <= risk + rate * horizon_s
