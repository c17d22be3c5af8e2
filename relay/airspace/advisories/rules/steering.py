"""Did the steering agent leave the files that it was told to?

Invariants:
- "left" is seen, never assumed: nothing of what the agent has in hand is in those files any more, or it has changed
  nothing there since it was told and it is below a resolution, since the other one moved away. An agent whose branch
  was merged has not left: its work is in. Nor has one whose partner's branch was merged: it has what it had, and
  git says what becomes of that;
- those files are the ones of its resolution when it was told. A file that joins the advisory later, by an intent
  say, is none that it was told to leave.

Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from relay.airspace.advisories.rules.advisory import Advisory, Steering, SteeringStart
from relay.model.working_set import FileTouch, WorkingSet


def digest(files: Sequence[FileTouch], contested: Collection[str]) -> str:
    """What of these files is contested, as a short digest; empty when nothing is. Weights, which fade by
    themselves, are not in it."""
    inside = [replace(touch, weight=1.0, churn=None) for touch in files if set(touch.paths) & set(contested)]
    if not inside:
        return ""
    return hashlib.sha256("\n".join(sorted(map(repr, inside))).encode()).hexdigest()[:16]


def begin(advisory: Advisory, sets: Mapping[str, WorkingSet], now: float, steer_s: float) -> Advisory:
    """The advisory once its steering agents were told so: who is told anew, or of more files, has `steer_s` seconds
    to leave. Told anew: also when the resolution had eased and is back."""
    stands = dict(advisory.stands)
    back = advisory.resolved_at == now
    anew = False
    for agent, off in advisory.roles.off.items():
        before = stands.get(agent)
        had = () if before is None or before.left else before.files
        if before is None or before.left or back or not set(off) <= set(had):
            files = tuple(dict.fromkeys([*had, *off]))
            stands[agent] = SteeringStart(digest(_files(sets, agent), files), files=files)
            anew = True
    if not anew:
        return advisory
    return replace(advisory, stands=stands, steer_by=now + steer_s, steering=Steering.WAITING)


def check(
    advisory: Advisory, sets: Mapping[str, WorkingSet], merged: Collection[str], now: float
) -> Advisory:
    """The advisory with what is seen of its steering agents now. `merged`: whose work is in the main branch, or
    gone."""
    steer = advisory.roles.steer
    ended = any(priority.agent in merged for priority in advisory.latched)
    stands = dict(advisory.stands)
    for agent, stand in stands.items():
        if agent in merged:
            continue
        have = digest(_files(sets, agent), stand.files)
        # A resolution that names no file has none that could be seen left.
        gone = bool(stand.files) and not have
        stays = have == stand.digest and agent not in steer
        left = gone or (stays and (stand.left or not ended))
        stands[agent] = replace(stand, left=left)
    return replace(advisory, stands=stands, steering=_steering(stands, advisory.steer_by, now))


def _files(sets: Mapping[str, WorkingSet], agent: str) -> tuple[FileTouch, ...]:
    work = sets.get(agent)
    return work.files if work else ()


def _steering(stands: Mapping[str, SteeringStart], steer_by: float | None, now: float) -> Steering | None:
    if not stands:
        return None
    if all(stand.left for stand in stands.values()):
        return Steering.LEFT
    return Steering.STAYED if steer_by is not None and now >= steer_by else Steering.WAITING


def stayed(advisory: Advisory) -> tuple[str, ...]:
    """The agents that were told to steer, still are to, and have not left, in the latched order. Where no
    resolution stands any more there is nobody who should have left."""
    stands = advisory.stands
    return tuple(agent for agent in advisory.roles.steer if agent in stands and not stands[agent].left)


def told_files(advisory: Advisory, agents: Sequence[str]) -> tuple[str, ...]:
    """The files that these agents were told to leave, each once."""
    return tuple(dict.fromkeys(path for agent in agents for path in advisory.stands[agent].files))
