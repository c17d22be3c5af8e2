"""The trailers of the commits that relay makes: which event of the log a commit belongs to (003, section 3.2).

Invariants:
- all five stand, with what the log and git say. The event is one that was in the log before the commit was made: what
  caused it, since the event that tells of a commit has the commit's id in it;
- a value is one line, so that git reads each as a trailer.

Pure.
"""

from __future__ import annotations

from relay.log.events import Event

EVENT, AGENT, CLOCK = "TimeWarp-Event-Id", "TimeWarp-Agent-Id", "TimeWarp-Vector-Clock"

#: How the subject of a commit begins by which a person's suggestion is applied, or taken back.
SUGGESTIONS = ("Apply a suggestion of ", "Take back a suggestion of ")


def commit_trailers(event: Event, *, agent: str, branch: str, tree: str) -> tuple[str, ...]:
    """A line each. `agent`: whose work it is; `branch`: on which it was done; `tree`: the commit's own."""
    clock = ",".join(f"{lane}:{count}" for lane, count in sorted(event.clock.items()))
    pairs = (
        (EVENT, event.id),
        (AGENT, agent),
        ("TimeWarp-Branch-Id", branch),
        ("TimeWarp-Snapshot-Id", tree),
        (CLOCK, clock),
    )
    return tuple(f"{name}: {' '.join(value.split())}" for name, value in pairs)
