"""The members of a fleet: the relays of one database, and which of them leads (docs/fleet.md).

Invariants: a member's row is changed only by its own daemon, by the leader's mark that it is gone, and by a person
who forgets it. A new daemon of a member has the next incarnation, so what an older one still says changes nothing.
Of any number of members one leads, by a lease in the database; each time somebody begins to lead, the epoch is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from relay.log import events
from relay.log.encoding import dumps, loads
from relay.log.events import Lane, NewEvent
from relay.store.ports import Queries, Row, StoreError, Tx

Q = Queries(Path(__file__).parent)
#: What members of this relay tell each other, and the oldest form of it that it understands.
PROTOCOL, FITS = 2, 1
#: Of those from this one on, each verifies what its own agents do, and names the room in its refs at the remote.
VERIFIES = NAMES_ROOM = 2
#: Seconds that the lead lasts without a sign of life, and between two of these.
LEAD_S, BEAT_S = 6.0, 2.0
#: Seconds by which a member's clock may differ from the server's before the room says so.
CLOCK_S = 30.0
#: An event for each change of who is here.
MEMBER = "fleet.member"
#: The settings in which each member says which people are connected to it.
_PEOPLE = "fleet_people:"
#: The settings in which each member says what needs people of which it alone knows.
_NEEDS = "fleet_needs:"
#: The settings in which each member says which files it waits for, and those with their parts (relay/fleet/files.py).
WANTED, PART = "fleet_file_wanted:", "fleet_file_part:"


class CannotJoin(StoreError):
    """This relay cannot be a member as it is configured; the message says why and what to do."""


class MemberState(StrEnum):
    LIVE = "live"
    #: It gave no sign of life for `fleet.lease_s`.
    AWAY = "away"
    #: It was stopped.
    LEFT = "left"


class Main(StrEnum):
    """What the main branch of a member's clone is to the others."""

    #: That of the common git remote.
    SHARED = "shared"
    NO_CLONE = "no_clone"
    NO_REMOTE = "no_remote"
    #: Its own: `fleet.push_main` is false.
    OWN = "own"
    UNTOLD = ""

    @classmethod
    def _missing_(cls, value: object) -> Main:
        return cls.UNTOLD  # what a later version tells


@dataclass(frozen=True, slots=True)
class FleetMember:
    """One relay as the database has it. `agents`: what it tells of each of its agents. Times are Unix seconds of the
    server's clock; `clock_offset_s`: the server's clock less the member's. `cannot_land`: why it can land nothing,
    empty = it can, None = it has not told."""

    name: str
    incarnation: int
    holder: str
    state: MemberState
    host: str
    folder: str
    port: int
    url: str
    version: str
    protocol: int
    fits: int
    agents: tuple[Mapping[str, Any], ...]
    joined_at: float
    heartbeat_at: float
    clock_offset_s: float = 0.0
    clock_said: bool = False
    main: Main = Main.UNTOLD
    cannot_land: str | None = None

    @property
    def wrong_clock(self) -> bool:
        return abs(self.clock_offset_s) > CLOCK_S

    @property
    def live(self) -> bool:
        return self.state is MemberState.LIVE

    @property
    def absence(self) -> str:
        """Why it cannot be reached, in words that "since" or "for" may follow; '' = it can."""
        match self.state:
            case MemberState.LIVE:
                return ""
            case MemberState.AWAY:
                return f"{self.name} has given no sign of life"
            case MemberState.LEFT:
                return f"{self.name} has been stopped"

    @classmethod
    def of_row(cls, row: Row) -> FleetMember:
        return cls(
            **{
                **row,
                "state": MemberState(row["state"]),
                "agents": tuple(loads(row["agents"])),
                "clock_said": bool(row["clock_said"]),
                "main": Main(row["main"]),
            }
        )

    def as_json(self, leader: str) -> dict[str, Any]:
        """As `relay fleet --json` and the page have it."""
        return {
            "name": self.name,
            "state": str(self.state),
            "leader": self.live and self.name == leader,
            "host": self.host,
            "folder": self.folder,
            "url": self.url,
            "version": self.version,
            "joined_at": self.joined_at,
            "heartbeat_at": self.heartbeat_at,
            "clock_offset_s": round(self.clock_offset_s, 3),
            "agents": [agent["name"] for agent in self.agents],
            "cannot_land": self.cannot_land or "",
        }


@dataclass(frozen=True, slots=True)
class Joining:
    """What a daemon says of itself when it joins. `agents`: as of `FleetMember`; each has `name` and `shared`."""

    name: str
    holder: str
    host: str
    folder: str
    port: int
    version: str
    agents: tuple[Mapping[str, Any], ...] = ()
    protocol: int = PROTOCOL
    fits: int = FITS
    url: str = field(default="", kw_only=True)


@dataclass(frozen=True, slots=True)
class Beat:
    """What came of a sign of life. `beats` False: this daemon counts as gone. `leads`: it leads, in `epoch`; `now`:
    the server's clock, Unix seconds."""

    beats: bool
    leader: str
    epoch: int
    leads: bool
    now: float


async def members(tx: Tx) -> list[FleetMember]:
    """All that the fleet knows, in the order in which they joined."""
    return [FleetMember.of_row(row) for row in await tx.all(Q.members)]


async def leader(tx: Tx, now: float) -> str:
    """Who leads; '' = nobody at this moment."""
    row = await tx.one(Q.leader)
    return row["member"] if row is not None and row["until"] >= now else ""


def agents_of_live(members: Iterable[FleetMember]) -> frozenset[str]:
    """The agents that a live one of these has. Pure."""
    return frozenset(str(agent["name"]) for member in members if member.live for agent in member.agents)


def without_remote(own: str, main: Main, known: Iterable[FleetMember], remote: str) -> str:
    """What is wrong with a clone that lacks the remote by which others share main, and what to do; '' = nothing. Also
    where those are away or were stopped: what lands here alone parts main from theirs. Pure."""
    sharing = [other.name for other in known if other.name != own and other.main is Main.SHARED]
    if main is not Main.NO_REMOTE or not sharing:
        return ""
    names = ", ".join(sharing)
    return (
        f"The clone of {own} has no git remote `{remote}`, by which main is shared with {names}, so {own} lands "
        f"nothing. `git remote add {remote} ADDRESS` there adds it: `git remote get-url {remote}` in the clone of "
        f"{sharing[0]} says the ADDRESS."
    )


def refusal(new: Joining, known: Iterable[FleetMember]) -> str:
    """Why a relay cannot join as it is, with what to do; '' = it can. Pure."""
    others = [member for member in known if member.name != new.name]
    for other in others:
        if not other.live:
            continue
        if new.protocol < other.fits:
            return (
                f"this relay ({new.version}) is too old for this fleet: {other.name} runs {other.version}. Update "
                "this one"
            )
        if other.protocol < new.fits:
            return (
                f"{other.name} ({other.host}, {other.folder}) runs relay {other.version}, which is too old for this "
                f"one ({new.version}). Stop it there and update it first"
            )
        if new.port and (other.host, other.port) == (new.host, new.port):
            return (
                f"port {new.port} of {new.host} is the member {other.name}'s, in {other.folder}. Stop it there, or "
                "give this one another port (`ui.port` in config.json)"
            )
    return next((told for told in (clash(agent, others) for agent in new.agents) if told), "")


def clash(agent: Mapping[str, Any], others: Iterable[FleetMember]) -> str:
    """Why a member cannot have this agent beside the others; '' = it can. A member that is away keeps its agents."""
    for other in others:
        theirs = next((one for one in other.agents if one["name"] == agent["name"]), None)
        if theirs is None or (theirs.get("shared") and agent.get("shared")):
            continue
        gone = "" if other.live else f", which is away; `relay fleet forget {other.name}` frees its agents"
        return (
            f"the agent {agent['name']} lives at {other.name} ({other.host}, {other.folder}{gone}). Give this one "
            'another name; or, if both are one agent, set `"shared": true` for it at both'
        )
    return ""


async def join(tx: Tx, new: Joining) -> FleetMember:
    """Become a member, or the next daemon of one. Raises CannotJoin."""
    known = await members(tx)
    why = refusal(new, known)
    if why:
        raise CannotJoin(why)
    before = next((member for member in known if member.name == new.name), None)
    now = await tx.now()
    # Counted for all: a daemon of a member that was forgotten may still live, and go by its number.
    counted = await events.next_number(tx, "fleet_incarnation")
    await tx.execute(
        Q.put_member,
        name=new.name,
        incarnation=max(counted, before.incarnation + 1 if before is not None else 1),
        holder=new.holder,
        host=new.host,
        folder=new.folder,
        port=new.port,
        url=new.url,
        version=new.version,
        protocol=new.protocol,
        fits=new.fits,
        agents=dumps([dict(agent) for agent in new.agents]),
        now=now,
    )
    joined = next(member for member in await members(tx) if member.name == new.name)
    await tell(tx, joined, "joined" if before is None else "back")
    return joined


async def tell(tx: Tx, member: FleetMember, what: str) -> None:
    """Record what became of a member: joined, back, gone, left, changed or forgotten; `people`, `needs` and
    `files`: who is connected to it did, what needs people there, which files it waits for or has given."""
    outputs = {
        "member": member.name,
        "what": what,
        "incarnation": member.incarnation,
        "agents": [agent["name"] for agent in member.agents],
    }
    lane = Lane("room", f"fleet:{member.name}:{member.incarnation}", short=True)
    await events.append(tx, NewEvent(MEMBER, lane, outputs=outputs))


async def beat(tx: Tx, name: str, incarnation: int, offset_s: float) -> Beat:
    """A sign of life; it renews the lead, or takes one that is free: who cannot land leaves that to who can."""
    row = await tx.one(Q.beat, name=name, incarnation=incarnation, offset_s=offset_s, lease_s=LEAD_S)
    assert row is not None
    return Beat(**row)


async def rejoin(tx: Tx, name: str, incarnation: int) -> FleetMember | None:
    """The daemon that counted as gone is there again; None: it was forgotten meanwhile. Raises CannotJoin where
    another one has joined in its place."""
    known = next((member for member in await members(tx) if member.name == name), None)
    if known is None:
        return None
    if known.incarnation != incarnation:
        raise CannotJoin(f"another daemon has joined the fleet as {name}: {known.host}, {known.folder}")
    if known.live:
        return known
    await tx.execute(Q.set_state, name=name, incarnation=incarnation, state="live", now=await tx.now())
    await tell(tx, known, "back")
    return known


async def leave(tx: Tx, name: str, incarnation: int) -> bool:
    """This daemon stops: whoever comes next may lead at once. False: it is no member any more."""
    known = next((member for member in await members(tx) if member.name == name), None)
    if known is None or known.incarnation != incarnation:
        return False
    await tx.execute(Q.set_state, name=name, incarnation=incarnation, state="left", now=await tx.now())
    await tx.execute(Q.resign, name=name, incarnation=incarnation)
    await tell(tx, known, "left")
    return True


async def mark_gone(tx: Tx, lease_s: float) -> list[FleetMember]:
    """Mark those that gave no sign of life for `lease_s`, and return them: each is returned once."""
    now = await tx.now()
    gone = [member for member in await members(tx) if member.live and member.heartbeat_at < now - lease_s]
    for member in gone:
        await tx.execute(
            Q.set_state, name=member.name, incarnation=member.incarnation, state="away", now=None
        )
        await tell(tx, member, "gone")
    return gone


async def note_clocks(tx: Tx) -> list[FleetMember]:
    """Those whose clock has become wrong, or is right again: each is returned once for each change."""
    changed = [
        member for member in await members(tx) if member.live and member.wrong_clock != member.clock_said
    ]
    for member in changed:
        said = int(member.wrong_clock)
        await tx.execute(Q.set_clock_said, name=member.name, incarnation=member.incarnation, said=said)
    return changed


async def publish(
    tx: Tx, member: FleetMember, agents: Sequence[Mapping[str, Any]], url: str, port: int
) -> None:
    """Tell the others what this member's agents are by now, and where it is. Raises CannotJoin for an agent that
    lives elsewhere."""
    others = [other for other in await members(tx) if other.name != member.name]
    why = next((told for told in (clash(agent, others) for agent in agents) if told), "")
    if why:
        raise CannotJoin(why)
    await tx.execute(
        Q.set_told,
        name=member.name,
        incarnation=member.incarnation,
        agents=dumps([dict(agent) for agent in agents]),
        url=url,
        port=port,
    )
    await tell(tx, member, "changed")


async def tell_landing(tx: Tx, member: FleetMember, main: Main, cannot_land: str | None) -> None:
    """Tell the others what a landing finds at this member."""
    await tx.execute(
        Q.set_landing,
        name=member.name,
        incarnation=member.incarnation,
        main=str(main),
        cannot_land=cannot_land,
    )
    await tell(tx, member, "changed")


async def give_up(tx: Tx, name: str, incarnation: int) -> bool:
    """End the lead of this daemon, where another member that can land is there to take it; is it ended?"""
    return bool(await tx.execute(Q.give_up, name=name, incarnation=incarnation, lease_s=LEAD_S))


async def tell_people(tx: Tx, name: str, people: Sequence[str]) -> None:
    """Tell the others which people are connected to this member."""
    await events.put_setting(tx, f"{_PEOPLE}{name}", dumps(list(people)))
    known = next((member for member in await members(tx) if member.name == name), None)
    if known is not None:
        await tell(tx, known, "people")


async def people_elsewhere(tx: Tx, name: str) -> dict[str, list[str]]:
    """Who is connected to the live members but this one, by the member."""
    rows = {row["name"].removeprefix(_PEOPLE): row["value"] for row in await tx.all(Q.people)}
    return {
        member.name: [str(each) for each in loads(rows[member.name])]
        for member in await members(tx)
        if member.live and member.name != name and member.name in rows
    }


async def tell_needs(tx: Tx, name: str, needs: str) -> None:
    """Tell the others what needs people at this member, as JSON of whoever reads it."""
    await events.put_setting(tx, f"{_NEEDS}{name}", needs)
    known = next((member for member in await members(tx) if member.name == name), None)
    if known is not None:
        await tell(tx, known, "needs")


async def needs_elsewhere(tx: Tx, name: str) -> dict[str, str]:
    """What the live members but this one told last, by the member."""
    others = [member.name for member in await members(tx) if member.live and member.name != name]
    return {other: await events.setting(tx, f"{_NEEDS}{other}") or "[]" for other in others}


async def forget(tx: Tx, name: str) -> FleetMember | None:
    """Forget a member that is not live; None: there is none of that name, or it lives."""
    known = next((member for member in await members(tx) if member.name == name), None)
    if known is None or known.live or not await tx.execute(Q.forget_member, name=name):
        return None
    await tx.execute(Q.forget_works, name=name)
    for kept in (_PEOPLE, _NEEDS):
        await tx.execute(Q.forget_people, name=f"{kept}{name}")
    for kept in (WANTED, PART):
        await tx.execute(Q.forget_files, prefix=f"{kept}{name}:")
    await tell(tx, known, "forgotten")
    return known
