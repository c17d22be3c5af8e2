"""Did the steering agent leave the contested files?

Invariant: "left" is seen, never assumed: nothing of what the agent has in hand is in the contested files any
more, or it has changed nothing there since it was told and the pair is below a resolution. An agent whose branch
was merged has not left: its work is in. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from relay.airspace.advisory import Advisory, Stand, Steering
from relay.airspace.working_set import FileTouch, WorkingSet


def digest(files: Sequence[FileTouch], contested: Collection[str]) -> str:
    """What of these files is contested, as a short digest; empty when nothing is. Weights, which fade by
    themselves, are not in it."""
    inside = [replace(one, weight=1.0, churn=None) for one in files if set(one.paths) & set(contested)]
    if not inside:
        return ""
    return hashlib.sha256("\n".join(sorted(map(repr, inside))).encode()).hexdigest()[:16]


def begin(advisory: Advisory, sets: Mapping[str, WorkingSet], now: float, steer_s: float) -> Advisory:
    """The advisory once its steering agents were told so: a new one has `steer_s` seconds to leave."""
    stands = dict(advisory.stands)
    for agent in advisory.roles.steer:
        if agent not in stands or stands[agent].left:
            stands[agent] = Stand(digest(_files(sets, agent), advisory.files))
    if stands == advisory.stands:
        return advisory
    return replace(advisory, stands=stands, steer_by=now + steer_s, steering=Steering.WAITING)


def check(
    advisory: Advisory, sets: Mapping[str, WorkingSet], merged: Collection[str], now: float
) -> Advisory:
    """The advisory with what is seen of its steering agents now."""
    steer = advisory.roles.steer
    stands = dict(advisory.stands)
    for agent, stand in stands.items():
        if agent in merged:
            continue
        have = digest(_files(sets, agent), advisory.files)
        left = not have or (have == stand.digest and agent not in steer)
        stands[agent] = replace(stand, left=left)
    return replace(advisory, stands=stands, steering=_steering(stands, advisory.steer_by, now))


def _files(sets: Mapping[str, WorkingSet], agent: str) -> tuple[FileTouch, ...]:
    work = sets.get(agent)
    return work.files if work else ()


def _steering(stands: Mapping[str, Stand], steer_by: float | None, now: float) -> Steering | None:
    if not stands:
        return None
    if all(stand.left for stand in stands.values()):
        return Steering.LEFT
    return Steering.STAYED if steer_by is not None and now >= steer_by else Steering.WAITING


def stayed(advisory: Advisory) -> tuple[str, ...]:
    """The agents that were told to steer and have not left, in the latched order."""
    return tuple(
        one.agent
        for one in advisory.latched
        if one.agent in advisory.stands and not advisory.stands[one.agent].left
    )
