"""What the room says of its fleet. A line is said once: in the transaction that changed the member's row."""

from __future__ import annotations

from collections.abc import Sequence

from relay.base.durations import rough_duration
from relay.fleet.members import FleetMember, agents_of_live
from relay.room.journal import ledger
from relay.store.ports import Tx


async def joined(tx: Tx, member: FleetMember, before: Sequence[FleetMember], *, now: float) -> None:
    """A daemon of this member has started. Nothing is said in a fleet of one."""
    if not any(other.live and other.name != member.name for other in before):
        return
    known = next((other for other in before if other.name == member.name), None)
    await _say(tx, member, "is here again" if known is not None else "joined the room", now, _agents(member))


async def back(tx: Tx, member: FleetMember, *, now: float) -> None:
    """A member that counted as gone gives signs of life again."""
    await _say(tx, member, "is back", now, _agents(member))


async def left(tx: Tx, member: FleetMember, members: Sequence[FleetMember], *, now: float) -> None:
    """A daemon was stopped. Nothing is said where nobody else is here."""
    if not any(other.live and other.name != member.name for other in members):
        return
    alone = _only_there(member, members)
    waits = f"Messages for {_listed(alone)} wait until it is here again." if alone else ""
    await _say(tx, member, "left the room", now, waits)


async def gone(
    tx: Tx, member: FleetMember, members: Sequence[FleetMember], *, parks: bool, now: float
) -> None:
    """A member gave no sign of life for too long. Of agents that another one has too nothing is said."""
    waits = ""
    if alone := _only_there(member, members):
        under_way = "stays with it" if parks else "is queued again"
        waits = (
            f"{_listed(alone)} cannot be reached: what was under way there {under_way}, and what comes waits."
        )
    await _say(tx, member, "gives no sign of life", now, waits)


async def forgotten(
    tx: Tx, member: FleetMember, alone: Sequence[str], by: str, waited: int, *, now: float
) -> None:
    """A person forgot a member. `alone`: its agents whose names are free now; `waited`: messages that waited for them
    and are given up."""
    text, more = f"was forgotten, as {by} asked", ""
    if alone:
        one = len(alone) == 1
        text += f": {_listed(alone)} {'is no agent' if one else 'are no agents'} of this room any more"
        more = given_up(waited, "it" if one else "them") if waited else ""
    await _say(tx, member, text, now, more)


def given_up(waited: int, agents: str) -> str:
    """How many messages that waited for `agents` are given up, as a sentence."""
    many = "1 message that waited" if waited == 1 else f"{waited} messages that waited"
    return f"{many} for {agents} {'is' if waited == 1 else 'are'} given up."


def freed(member: FleetMember, others: Sequence[FleetMember]) -> list[str]:
    """The agents that no other member has, away or not. Pure."""
    elsewhere = {agent["name"] for other in others if other.name != member.name for agent in other.agents}
    return [name for name in _names(member) if name not in elsewhere]


async def gave_up(tx: Tx, member: FleetMember, *, now: float) -> None:
    """A member that cannot land has left the lead to one that can."""
    await _say(tx, member, "cannot land what waits, and leaves the lead to one that can", now, "")


async def clock(tx: Tx, member: FleetMember, *, now: float) -> None:
    """A member's clock has become wrong. That it is right again is no news: nothing depends on it."""
    if not member.wrong_clock:
        return
    way = "slow" if member.clock_offset_s > 0 else "fast"
    differs = rough_duration(abs(member.clock_offset_s))
    await ledger.say(
        tx,
        f"The clock of {member.name} is {differs} {way}. The room goes by the database's clock; set that machine's.",
        now=now,
        meta={"notice": "fleet", "member": member.name},
    )


async def _say(tx: Tx, member: FleetMember, what: str, now: float, more: str) -> None:
    text = f"The relay {member.name} {what}."
    await ledger.say(tx, f"{text} {more}".rstrip(), now=now, meta={"notice": "fleet", "member": member.name})


def _agents(member: FleetMember) -> str:
    if not member.agents:
        return ""
    return f"{_listed(_names(member))} {'lives' if len(member.agents) == 1 else 'live'} there."


def _only_there(member: FleetMember, members: Sequence[FleetMember]) -> list[str]:
    """Its agents that no live member has beside it."""
    elsewhere = agents_of_live(other for other in members if other.name != member.name)
    return [name for name in _names(member) if name not in elsewhere]


def _names(member: FleetMember) -> list[str]:
    return [str(agent["name"]) for agent in member.agents]


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
