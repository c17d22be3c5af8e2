"""What a task needs, and what follows from how that ended: pure decisions over plain values.

Invariants:
- a task whose needs are all met is pending; one that waits for another is blocked; one that needs what failed
  stands as its policy says;
- only `completed` meets a need. Failed, dead, and taken off the board unfinished have failed;
- the needs of tasks have no circle.

Pure: no clock, no I/O. (docs/coordination.md, "Work".)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from relay.coordination.tasks.task import Status
from relay.model import references


class Policy(StrEnum):
    """What a task does when one that it needs failed: stays blocked, fails too, or goes on without it."""

    BLOCK = "block"
    CASCADE = "cascade"
    IGNORE = "ignore"


class State(StrEnum):
    """How far a need is."""

    MET = "met"
    OPEN = "open"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Needed:
    """A task that another one needs, as far as that matters to it."""

    id: str
    number: int
    status: Status
    archived: bool = False

    @property
    def state(self) -> State:
        if self.status is Status.COMPLETED:
            return State.MET
        ended = self.archived or self.status in (Status.FAILED, Status.DEAD)
        return State.FAILED if ended else State.OPEN

    @property
    def told(self) -> str:
        """`t3 failed`, for people."""
        if self.state is State.FAILED and self.status not in (Status.FAILED, Status.DEAD):
            return f"{references.task(self.number)} was taken off the board"
        return (
            f"{references.task(self.number)} {'is ' if self.status is not Status.FAILED else ''}{self.status}"
        )


@dataclass(frozen=True, slots=True)
class DependencyStatus:
    """Where a task that nobody works on stands by its needs: `pending`, `blocked` or `failed`, and why in one
    sentence; None while nothing went wrong."""

    status: Status
    note: str | None = None


def dependency_status(needs: Iterable[Needed], policy: Policy) -> DependencyStatus:
    """Where a task with these needs stands."""
    needs = list(needs)
    failed = [need for need in needs if need.state is State.FAILED]
    if failed and policy is not Policy.IGNORE:
        why = ", ".join(need.told for need in failed)
        if policy is Policy.CASCADE:
            return DependencyStatus(Status.FAILED, f"Failed with what it needs: {why}.")
        return DependencyStatus(Status.BLOCKED, f"Blocked by what it needs: {why}.")
    if any(need.state is State.OPEN for need in needs):
        return DependencyStatus(Status.BLOCKED)
    return DependencyStatus(Status.PENDING)


def find_cycle(task: str, needs: Sequence[str], edges: Mapping[str, Sequence[str]]) -> list[str] | None:
    """The way from `task` over its new `needs` back to itself, both ends named; None when there is none.

    `edges`: the needs of every task that can be reached from `needs`.
    """
    came: dict[str, str] = {need: task for need in needs}
    waiting = list(came)
    while waiting:
        at = waiting.pop(0)
        if at == task:
            way = [at]
            while len(way) == 1 or way[-1] != task:
                way.append(came[way[-1]])
            return way[::-1]
        for following in edges.get(at, ()):
            if following not in came:
                came[following] = at
                waiting.append(following)
    return None
