"""Which agent gets work that may go to any.

Invariant: one rule for whoever offers it: an agent that would begin with it now, before one that has work, and of
several that have the one with the least.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from relay.room.dispatch import queue
from relay.room.dispatch.roster import Member
from relay.room.journal.ledger import Q
from relay.store.ports import Tx


@dataclass(frozen=True, slots=True)
class Choice:
    """Agents that would begin with a message: those that have nothing to do first, then by how many messages each
    has (`load`). `refused`: why each of the others would not."""

    names: tuple[str, ...]
    load: Mapping[str, int]
    refused: Mapping[str, str]


async def choice(tx: Tx, members: Mapping[str, Member], now: float, *, but: Collection[str] = ()) -> Choice:
    """Who of these can be given work now. Of two with as much to do, the first in the configuration."""
    load = dict.fromkeys(members, 0)
    for row in [*await tx.all(Q.open_counts), *await tx.all(Q.active_counts)]:
        if row["agent"] in load:
            load[row["agent"]] += row["waiting"]
    refused = {}
    for name, member in members.items():
        if name not in but and (why := await unfit(tx, member, now)):
            refused[name] = why
    able = [name for name in members if name not in refused and name not in but]
    return Choice(tuple(sorted(able, key=lambda name: load[name])), load, refused)


async def unfit(tx: Tx, member: Member, now: float) -> str:
    """Why this agent would not begin with a message that it is sent now, or with the next one after what it has; "" =
    it would."""
    if not member.enabled:
        return "it is switched off"
    return (await queue.prospect(tx, member.policy, now, absence=member.absence)).why
