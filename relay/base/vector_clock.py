"""Logical time: vector clocks, hop distance and the decay curves (001).

Invariant: pure functions over plain mappings; no wall clock is read here. A clock maps a lane to the number
of D-T-D cycles it has completed; a missing entry is 0. Clocks answer "was this seen?"; hops answer "how far
away is it?"; the two are separate questions and nothing here mixes them.

A lane that has ended is *folded*: its entry is dropped from every clock that has seen where its work went,
so clocks do not grow with the number of sub-agents (001, "agents that have since terminated contribute
zero"). Causality across a folded lane is then answered by its exits: the (into, at) events that took its
work over. `events.has_seen` walks them, so clock order stays exactly reachability in the event graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

Clock = Mapping[str, int]

#: 001, "Brief Edges" and "Debrief Edges": the weight of both, and the penalty for each level of nesting.
BRIEF_WEIGHT = 0.9
DEPTH_PENALTY = 0.9
#: 001, "Decay Based on Hops".
BACKWARD_REACH = 10
FORWARD_GRACE = 5
FORWARD_SLOPE = 15
FORWARD_REACH = 20


class Order(StrEnum):
    """The four answers of a comparison. Equal is not concurrent."""

    BEFORE = "before"
    AFTER = "after"
    EQUAL = "equal"
    CONCURRENT = "concurrent"


def merge(*clocks: Clock) -> dict[str, int]:
    """The element-wise maximum."""
    merged: dict[str, int] = {}
    for clock in clocks:
        for lane, count in clock.items():
            if count > merged.get(lane, 0):
                merged[lane] = count
    return merged


def compare(a: Clock, b: Clock) -> Order:
    """How clock `a` stands to clock `b`: before when every entry of `a` is at most that of `b`."""
    a_ahead = any(count > b.get(lane, 0) for lane, count in a.items())
    b_ahead = any(count > a.get(lane, 0) for lane, count in b.items())
    if a_ahead and b_ahead:
        return Order.CONCURRENT
    if a_ahead:
        return Order.AFTER
    return Order.BEFORE if b_ahead else Order.EQUAL


def hop_count(edge: Clock, reference: Clock) -> int:
    """The hops from an edge's clock to the reference clock (001, "Hop Distance").

    Only lanes that are in both count: a lane that did not exist when the edge was made, or that has since
    been folded away, contributes nothing.
    """
    return sum(max(0, reference.get(lane, 0) - count) for lane, count in edge.items())


def backward_decay(hops: int) -> float:
    """Weight in [0, 1] of something that happened `hops` ago (001, "Backward"). 0 from 10 hops on."""
    return max(0.0, 1.0 - hops / BACKWARD_REACH)


def forward_decay(hops: int) -> float:
    """Weight in [0, 1] of a prediction made `hops` ago (001, "Forward"). 0 from 20 hops on."""
    if hops <= FORWARD_GRACE:
        return 1.0
    if hops >= FORWARD_REACH:
        return 0.0
    return 1.0 - (hops - FORWARD_GRACE) / FORWARD_SLOPE


def brief_weight(depth: int) -> float:
    """The weight of a brief or a debrief edge at nesting `depth`: 0.9 x 0.9^depth, the same at both ends.

    `depth` is 0 for a lane spawned by a lane that was itself not spawned.
    """
    if depth < 0:
        raise ValueError(f"depth is {depth}; a lane's nesting starts at 0")
    return BRIEF_WEIGHT * DEPTH_PENALTY**depth
