"""What commits know of the log that the log does not: events that were recorded and are not in it any more.

Invariant: says only what a commit of a branch says. A commit that relay made names an event in its trailers, and by
its clock how far each lane had come (`relay.log.commit_trailers`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from relay.git.run import Git
from relay.log.commit_trailers import AGENT, CLOCK, EVENT
from relay.log.encoding import dumps
from relay.log.events import Lane, Q
from relay.store.ports import Store, Tx

_ID = re.compile(r"[0-9a-f]{64}")
_ENTRY = re.compile(r"(?P<lane>[^/]+/.+):(?P<count>\d{1,18})")


@dataclass(frozen=True, slots=True)
class LostEvent:
    """An event that `commit` names as the `agent`'s, and that the log lacks: it was lost, or is another room's."""

    id: str
    commit: str
    agent: str


@dataclass(frozen=True, slots=True)
class LostRun:
    """Events of a lane (its key) that a commit counts and the log lacks: from the `first` to the `last`."""

    lane: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class LostEvents:
    """What the log lacks. `events`: those that commits name; `runs`: the ends of lanes that the log has."""

    events: tuple[LostEvent, ...] = ()
    runs: tuple[LostRun, ...] = ()


async def find_lost(store: Store, git: Git) -> LostEvents:
    """What the commits of the repository's branches name and count that the log lacks. Raises GitError."""
    named = await _named_events(git)
    ids = dumps(sorted({event.id for event, _ in named}))

    async def work(tx: Tx) -> LostEvents:
        known = {row["id"] for row in await tx.all(Q.events_known, ids=ids)}
        lost = tuple(event for event, _ in named if event.id not in known)
        counts: dict[str, int] = {}
        for event, clock in named:
            if event.id not in known:
                for key, count in clock.items():
                    counts[key] = max(count, counts.get(key, 0))
        runs = []
        for key, count in sorted(counts.items()):
            lane = Lane.of_key(key)
            head = await tx.one(Q.lane, session=lane.session, lane=lane.name)
            # A lane that this log never had is another room's.
            if head is not None and head["seq"] < count:
                runs.append(LostRun(key, head["seq"] + 1, count))
        return LostEvents(lost, tuple(runs))

    return await store.read(work, long=True)


async def _named_events(git: Git) -> list[tuple[LostEvent, Mapping[str, int]]]:
    """Each event that a commit names, once, with the commit's clock; the newest first."""
    values = "%x00".join(f"%(trailers:key={name},valueonly,unfold)" for name in (EVENT, AGENT, CLOCK))
    asked = ("log", "--branches", f"--grep=^{EVENT}: ", f"--format=%H%x00{values}%x1e", "--")
    named: dict[str, tuple[LostEvent, Mapping[str, int]]] = {}
    for record in (await git.line(*asked)).split("\x1e"):
        commit, *trailers = record.strip().split("\0")
        if len(trailers) == 3:
            # Of several the last: the commit's own. What stands before it came with its message.
            event, agent, clock = (values.strip().rpartition("\n")[2] for values in trailers)
            if _ID.fullmatch(event):
                named.setdefault(event, (LostEvent(event, commit, agent), _clock_of(clock)))
    return list(named.values())


def _clock_of(text: str) -> dict[str, int]:
    entries = (_ENTRY.fullmatch(entry) for entry in text.split(","))
    return {entry["lane"]: int(entry["count"]) for entry in entries if entry}
