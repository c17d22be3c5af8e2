"""Agents that several members have: one turn at a time, and where the branch is. Each has a worktree of it, and what
is to land is one's.

Invariants:
- all members decide by what the database says of all of them, so they come to the same;
- a member ends its turns of such agents before it can count as gone, when another one may begin them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import structlog

from relay.fleet import works
from relay.fleet.members import BEAT_S, FleetMember
from relay.room.dispatch.running import RunningTurns
from relay.room.journal import ledger
from relay.room.journal.values import Job
from relay.store.ports import Tx
from relay.verification import journal as verifications

log = structlog.get_logger(__name__)
#: Seconds between two looks whether this member is still sure to count as live.
LOOK_S = 0.25
#: What the agent reads before it goes on.
CUT_OFF = (
    "Your turn was cut off: this relay could not tell the room in time that it lives, so another machine might have "
    "begun it anew. Look at what is there before you go on."
)
#: Verifications of an agent, the newest first, among which its last turn is looked for.
_MOST_SEARCHED = 10


@dataclass(frozen=True, slots=True)
class Place:
    """`member`: whose worktree of the agent is meant, None = nobody has told of work. `too`: other members that have
    work of it, which is not meant."""

    member: FleetMember | None = None
    too: tuple[str, ...] = ()


async def keep_to_one(
    unheard_s: Callable[[], float], lease_s: Callable[[], float], turns: RunningTurns
) -> None:
    """End the turns here of shared agents `BEAT_S` before this member can count as gone, and begin none until its
    sign of life counts again. For ever. `unheard_s`: since the last one that counted; `lease_s`: for how long one
    counts. A slow database, or a slow machine, is enough for that."""
    ending = set[asyncio.Task[bool]]()
    while True:
        await asyncio.sleep(LOOK_S)
        turns.unsure = unheard_s() >= lease_s() - BEAT_S
        for agent, turn in turns.by_agent.items() if turns.unsure else ():
            if turn.plan.policy.shared and not turn.advice and turn.stopped_by is None:
                log.warning("turn of a shared agent is cut off", agent=agent, unheard_s=round(unheard_s(), 1))
                task = asyncio.create_task(turns.interrupt(agent, CUT_OFF), name=f"cut-off-{agent}")
                ending.add(task)
                task.add_done_callback(ending.discard)


def lives_at(agent: str, members: Iterable[FleetMember]) -> str:
    """The members that have this agent, in words: the live ones, where there are any. "" = none has it. Pure."""
    having = [member for member in members if any(one["name"] == agent for one in member.agents)]
    return " and ".join(member.name for member in [each for each in having if each.live] or having)


async def place_of(tx: Tx, agent: str, members: Sequence[FleetMember]) -> Place:
    """Where an agent of these members runs now; else where it has work, the newest where several have. Work of a
    member that is away is taken where no other has any."""
    by_name = {member.name: member for member in members}
    active = [Job.of_row(row) for row in await tx.all(ledger.Q.active_jobs)]
    holders = {job.holder for job in active if job.agent == agent}
    found = [
        (member.holder in holders, member.live, at, name)
        for name, at in await works.changed_at(tx, agent)
        if (member := by_name.get(name)) is not None
    ]
    running = [member for member in members if member.holder in holders]
    names = [name for *_, name in sorted(found, reverse=True)]
    if running:
        names = [running[0].name, *(name for name in names if name != running[0].name)]
    return Place(by_name[names[0]], tuple(names[1:])) if names else Place()


async def last_turn_at(tx: Tx, agent: str, members: Sequence[FleetMember]) -> FleetMember | None:
    """Where this agent's last turn was that changed something. A turn's end asks for a verification in its
    transaction; its work is told a moment later."""
    known = await verifications.newest_of_agent(tx, agent, _MOST_SEARCHED)
    seen_at = [each.change.about["member"] for each in known if "member" in each.change.about]
    return next((member for member in members if seen_at and member.name == seen_at[0]), None)
