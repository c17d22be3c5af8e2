"""The handoffs of a room as rows: where each stands, so that whoever goes on knows what is next.

Invariants:
- a row changes in the transaction that records what it says, so a process that is killed at any instant leaves each
  handoff before a step or behind it;
- what a handoff did (checked, passed, failed) is an event; the row says only what is to be done next.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from relay.base.durations import parse_iso
from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import Event, Lane
from relay.model import Fault, Refusal, references
from relay.store.ports import Row, Tx, of_row
from relay.timeline import checkpoints
from relay.timeline.checkpoints import CheckpointKind
from relay.timeline.projection import Q

#: The event that records a check of a handoff with its result (003, section 4.3).
HANDED_ON = "handoff"


class State(StrEnum):
    """What is next: the source is at work; its work is checked; it tries again on a branch; the receiver's worktree
    is set; people are asked; the last role of a pipeline is at work; people ended it, and the source goes back to its
    own branch; nothing, as it came through; nothing, as it was ended."""

    WORKING = "working"
    CHECKING = "checking"
    RETRYING = "retrying"
    PASSED = "passed"
    ASKED = "asked"
    FINISHING = "finishing"
    LEAVING = "leaving"
    DONE = "done"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Handoff:
    """A row of `handoffs`. `source` hands on to `target` (agents' names, with their roles). `text`: what it is about;
    `asker`: the person who ordered it, `cause`: by which event.

    `attempt`: how often it was tried again; `allowed`: how often that may be before people are asked. `began`: the
    place in the log behind which the source worked, `base` the tree before its work; `tree`, `at_commit`: what it
    left, None = not looked at yet. `event`: of the last check; `message`: whose job is waited for; `branch`: the one
    on which it is tried again. `written`: [before, after] of a checkout whose files are being written. `rest`: the
    roles behind the receiver's, None = no pipeline.
    """

    number: int
    state: State
    source: str
    source_role: str
    target: str
    target_role: str
    text: str
    asker: str
    allowed: int
    began: int = 0
    cause: str | None = None
    rest: tuple[str, ...] | None = None
    attempt: int = 0
    base: str | None = None
    tree: str | None = None
    at_commit: str | None = None
    event: str | None = None
    message: str | None = None
    branch: str | None = None
    written: tuple[str, str] | None = None

    @property
    def name(self) -> str:
        """`h12`."""
        return references.handoff(self.number)

    @property
    def checkpoint(self) -> str:
        """The name of its checkpoints."""
        return f"handoff:{self.source_role}->{self.target_role}"

    def as_json(self) -> dict[str, Any]:
        """What an interface shows: `{number, name, state, source, source_role, target, target_role, text, attempt,
        max_retries, tree, event, branch, rest}`."""
        return {
            "number": self.number,
            "name": self.name,
            "state": self.state.value,
            "source": self.source,
            "source_role": self.source_role,
            "target": self.target,
            "target_role": self.target_role,
            "text": self.text,
            "attempt": self.attempt,
            "max_retries": self.allowed,
            "tree": self.tree,
            "event": self.event,
            "branch": self.branch,
            "rest": None if self.rest is None else list(self.rest),
        }


async def save(tx: Tx, handoff: Handoff) -> None:
    """Put the row, new or changed."""
    row = asdict(handoff)
    row["state"] = handoff.state.value
    for name in ("rest", "written"):
        row[name] = None if row[name] is None else dumps(list(row[name]))
    await tx.execute(Q.put_handoff, **row)


async def next_number(tx: Tx) -> int:
    return await events.next_number(tx, "handoff")


async def load(tx: Tx, number: int) -> Handoff:
    """The handoff of this room number. Raises Refusal."""
    row = await tx.one(Q.handoff, number=number)
    if row is None:
        raise Refusal(
            f"There is no handoff {references.handoff(number)}.", "The room named its number.", Fault.UNKNOWN
        )
    return _handoff(row)


async def open_handoffs(tx: Tx) -> list[Handoff]:
    """Those that are not done, the oldest first."""
    return [_handoff(row) for row in await tx.all(Q.open_handoffs)]


async def held_trees(tx: Tx) -> set[str]:
    """The trees that somebody goes on with: their snapshots are not let go."""
    return {handoff.tree for handoff in await open_handoffs(tx) if handoff.tree is not None}


async def mark(
    tx: Tx, lane: Lane, handoff: Handoff, event: Event, *, passed: bool, commit: str | None = None
) -> None:
    """Make the checkpoint `handoff:FROM->TO` of what `event` says of the tree (003, section 4.6): of each check, and
    of each skip. `passed`: did the required rules hold; `commit`: what keeps the tree, None = what the checkpoint of
    its check has."""
    assert handoff.tree is not None
    if commit is None and (known := await checkpoints.find(tx, handoff.checkpoint)) is not None:
        commit = known.commit if known.tree == handoff.tree else None
    metadata = {
        "handoff": handoff.number,
        "from_role": handoff.source_role,
        "to_role": handoff.target_role,
        "validation_passed": passed,
        "attempt": handoff.attempt,
    }
    await checkpoints.make_checkpoint(
        tx,
        lane,
        handoff.checkpoint,
        handoff.tree,
        CheckpointKind.HANDOFF,
        metadata,
        commit=commit,
        parents=[event.id],
    )


@dataclass(frozen=True, slots=True)
class LastHandoff:
    """The last handoff that came through with an agent: its place in the log, and what was handed on."""

    pos: int = 0
    tree: str | None = None
    commit: str | None = None


async def last_with(tx: Tx, agent: str) -> LastHandoff:
    """The last one that this agent gave or got."""
    row = await tx.one(Q.last_handoff_with, agent=agent)
    return LastHandoff() if row is None else LastHandoff(row["pos"], row["tree"], row["at_commit"])


@dataclass(frozen=True, slots=True)
class LaneWork:
    """What the lanes of one agent did: the number of events, and milliseconds from the first to the last."""

    events: int
    duration_ms: int


async def lane_work(tx: Tx, agent: str, after: int) -> LaneWork:
    """What this agent's lanes did behind a place in the log."""
    row = await tx.one(Q.lane_work, agent=agent, after=after)
    if row is None or not row["events"]:
        return LaneWork(0, 0)
    first, last = (parse_iso(row[name]) for name in ("first", "last"))
    return LaneWork(row["events"], round((last - first) * 1000))


def _handoff(row: Row) -> Handoff:
    rest, written = (None if row[name] is None else json.loads(row[name]) for name in ("rest", "written"))
    return of_row(
        Handoff,
        row,
        state=State(row["state"]),
        rest=None if rest is None else tuple(rest),
        written=None if written is None else (written[0], written[1]),
    )
