"""An entry of the landing queue: a branch as it was when somebody asked, and what becomes of it.

Invariants: an agent has one open entry at most; one that is over never changes. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from relay.base.durations import iso
from relay.model import references


class EntryState(StrEnum):
    """ASKED: the work is not looked at yet; PUT_OUT: it did not land, `reason` says why."""

    ASKED = "asked"
    WAITING = "waiting"
    TESTING = "testing"
    LANDED = "landed"
    PUT_OUT = "put_out"
    CANCELLED = "cancelled"


OPEN = (EntryState.ASKED, EntryState.WAITING, EntryState.TESTING)


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of `landing_entries`. `at_commit`, `tree`: the work that lands, empty = not looked at yet; `policies`:
    the names of those that it routes to. `note`: what it waits for; `held_on`: the main branch's commit on which it
    is not tried again. `passed_over`: batches that others took before it. `verification`: of the batch that it is
    tested in, or was; `approval`: the one that a person looks at (numbers). `landed_as`: its merge on the main
    branch. `reason`, `output`: why it was put out, and the lines that failed. `squash`: it lands as one commit. Times
    in Unix seconds."""

    number: int
    agent: str
    asker: str
    state: EntryState = EntryState.ASKED
    branch: str = ""
    at_commit: str = ""
    tree: str = ""
    policies: tuple[str, ...] = ()
    note: str = ""
    held_on: str | None = None
    passed_over: int = 0
    verification: int | None = None
    approval: int | None = None
    task: str | None = None
    landed_as: str | None = None
    reason: str = ""
    output: str = ""
    at: float = 0.0
    began: float | None = None
    ended: float | None = None
    squash: bool = False

    def as_json(self) -> dict[str, Any]:
        def named(number: int | None) -> str | None:
            return None if number is None else references.verification(number)

        return {
            "number": self.number,
            "agent": self.agent,
            "asker": self.asker,
            "state": self.state.value,
            "branch": self.branch,
            "at_commit": self.at_commit or None,
            "tree": self.tree or None,
            "policies": list(self.policies),
            "method": "squash" if self.squash else "merge",
            "note": self.note,
            "verification": named(self.verification),
            "approval": named(self.approval),
            "task": self.task,
            "commit": self.landed_as,
            "reason": self.reason,
            "output": self.output,
            "at": iso(self.at),
            "began": iso(self.began),
            "ended": iso(self.ended),
        }


@dataclass(frozen=True, slots=True)
class Carried:
    """A commit that was on main at this member of a fleet and not at the common remote, and lands with an agent's
    work, which is based on it."""

    commit: str
    author: str
    subject: str
    member: str


@dataclass(frozen=True, slots=True)
class Batch:
    """`chosen`: what is tested together, in this order; `passed_over`: those whose turn it was, and others go
    first."""

    chosen: tuple[Entry, ...]
    passed_over: tuple[Entry, ...] = ()


def next_batch(ready: Sequence[Entry], order: Sequence[str], most: int) -> Batch:
    """What is tested next. `order`: the agents, the least entangled first; `most`: entries of a batch.

    Who was passed over once goes before all others, by its number: so nobody waits for more than one batch beyond its
    turn by the order of asking. Pure."""
    by_number = sorted(ready, key=lambda entry: entry.number)
    place = {agent: at for at, agent in enumerate(order)}
    owed = [entry for entry in by_number if entry.passed_over]
    rest = sorted(
        (entry for entry in by_number if not entry.passed_over),
        key=lambda entry: (place.get(entry.agent, len(place)), entry.number),
    )
    chosen = (*owed, *rest)[:most]
    taken = {entry.number for entry in chosen}
    return Batch(tuple(chosen), tuple(entry for entry in by_number[:most] if entry.number not in taken))
