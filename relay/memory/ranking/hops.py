"""How much what stood near a memory says about it: by hops, not by hours (001, "Decay Based on Hops").

A hop is one step of a conversation (001: one D-T-D cycle), so nights and other projects in between count nothing.
What went before is weighed by the backward curve, what followed by the forward curve. Where the way leads into a
helper's lane or back, each such edge has its weight (001, "Brief Edges", "Debrief Edges").

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from math import prod

from relay.base.vector_clock import (
    Clock,
    backward_decay,
    brief_weight,
    forward_decay,
    hop_count,
)

#: Between a helper's number and the name of the lane that started it: `CLAUDE.17` (relay.room.dispatch.helpers).
_STARTED_BY = "."


def weight(hops: int, *, before: bool, edges: Iterable[int] = ()) -> float:
    """In [0, 1]: how much something says that went `before` by so many hops, or followed by so many. `edges`: the
    depths of the briefs and debriefs on the way."""
    return (backward_decay(hops) if before else forward_decay(hops)) * prod(map(brief_weight, edges))


def between(here: Clock, there: Clock) -> tuple[int, bool]:
    """How many hops `there` is from `here`, and whether it went before. What neither had seen is as far as the
    nearer of both."""
    behind, ahead = hop_count(there, here), hop_count(here, there)
    if behind and ahead:
        return min(behind, ahead), behind <= ahead
    return (behind, True) if behind else (ahead, not ahead)


def edges(here: str, there: str) -> list[int]:
    """The depths of the briefs and debriefs between two lanes, by their names: none between lanes of which neither
    started the other, nor one that did."""
    if here == there:
        return []
    ours, theirs = here.split(_STARTED_BY), there.split(_STARTED_BY)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ours, theirs, strict=False)))
    if not same:
        # Of two agents, the helpers' edges up to each.
        same = 1
    return [*range(same - 1, len(ours) - 1), *range(same - 1, len(theirs) - 1)]
