"""What is done to the fleet, each with what the room must say of it.

A fault lasts `span_s`, which is longer than `fleet.lease_s`: who is cut off for so long is away. It is over when its
function returns, and nothing of it is left.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from tests.faults.fleet.members import Member
from tests.faults.fleet.network import Cut
from tests.faults.fleet.room import Fleet
from tests.outside import PATIENCE_S, eventually

#: What RELAY must have said since: pattern -> (least, most).
Said = Mapping[str, tuple[int, int]]
Fault = Callable[[Fleet, random.Random, float], Awaitable[Said]]
Pick = Callable[[Fleet, random.Random], Awaitable[Member]]
HOUR_S = 3600


async def anyone(fleet: Fleet, dice: random.Random) -> Member:
    return dice.choice(fleet.members)


async def the_leader(fleet: Fleet, dice: random.Random) -> Member:
    return await fleet.leader()


def gone(name: str) -> str:
    """What the room says when a member is away, as a pattern."""
    return rf"^The relay {name} gives no sign of life"


def back(name: str) -> str:
    return rf"^The relay {name} is (back|here again)"


def absent(fleet: Fleet, member: Member) -> Said:
    """It was away, and is back: said once each, and of no other."""
    others = {gone(other.name): (0, 0) for other in fleet.members if other is not member}
    return {gone(member.name): (1, 1), back(member.name): (1, 1), **others}


async def away(fleet: Fleet, member: Member, span_s: float) -> None:
    """It is out of reach for so long, and until the room has said so: on a busy machine that takes its time."""
    await fleet.goes_on(span_s, without=member)
    with suppress(AssertionError):  # what is said must hold at the end
        await eventually(lambda: fleet.has_said(gone(member.name)), f"{member.name} is gone", every_s=0.5)


async def in_the_middle(
    fleet: Fleet, member: Member, stop: Callable[[], None], go: Callable[[], None]
) -> None:
    """Stop a member while it has a transaction open, the worst moment: the room's lock may be in it."""
    give_up = time.monotonic() + PATIENCE_S
    while True:
        stop()
        await asyncio.sleep(0.1)  # what was under way has come to stand
        if await fleet.servers.open_transactions(member.machine.address):
            return
        go()
        if time.monotonic() > give_up:
            raise AssertionError(f"{member.name} never has a transaction open")
        await asyncio.sleep(0.02)


def kill(pick: Pick) -> Fault:
    async def fault(fleet: Fleet, dice: random.Random, span_s: float) -> Said:
        """kill -9 of a daemon, which is started again later."""
        member = await pick(fleet, dice)
        await asyncio.to_thread(member.kill)
        await away(fleet, member, span_s)
        await member.start()
        return absent(fleet, member)

    return fault


async def kill_and_restart(fleet: Fleet, dice: random.Random, span_s: float) -> Said:
    """kill -9 of a daemon, which is started again at once, three times: nobody is away for long."""
    member = dice.choice(fleet.members)
    for _ in range(3):
        await asyncio.to_thread(member.kill)
        member.launch()
        await asyncio.sleep(dice.uniform(0.0, fleet.lease_s / 4))
    await member.until_open()
    # A start is said once; one that is killed before it is a member again says nothing.
    # A start may take longer than the lease.
    return {gone(member.name): (0, 1), back(member.name): (1, 4)}


def cut(how: Cut, pick: Pick) -> Fault:
    async def fault(fleet: Fleet, dice: random.Random, span_s: float) -> Said:
        """A member's cable is cut."""
        member = await pick(fleet, dice)
        member.machine.cut(how)
        try:
            await away(fleet, member, span_s)
        finally:
            member.machine.mend(how)
        return absent(fleet, member)

    return fault


async def cut_server(fleet: Fleet, dice: random.Random, span_s: float) -> Said:
    """The server's cable is cut: nobody has the room, and nobody is left to say that somebody else is away."""
    machine = fleet.servers.first.machine
    machine.cut(Cut.BOTH)
    try:
        await asyncio.sleep(span_s)
    finally:
        machine.mend(Cut.BOTH)
    return {gone(member.name): (0, 1) for member in fleet.members}


async def restart_server(fleet: Fleet, dice: random.Random, span_s: float) -> Said:
    """The server is stopped, and started again after a moment."""
    await fleet.servers.first.stop()
    await asyncio.sleep(fleet.lease_s / 3)
    await fleet.servers.first.start()
    return {gone(member.name): (0, 1) for member in fleet.members}


async def crash_server(fleet: Fleet, dice: random.Random, span_s: float) -> Said:
    """The server crashes, and recovers."""
    await fleet.servers.crash()
    return {gone(member.name): (0, 1) for member in fleet.members}


async def fail_over(fleet: Fleet, dice: random.Random, span_s: float) -> Said:
    """The server is lost, and one that is behind takes its place; later a new one follows that."""
    await fleet.servers.fail_over(behind_s=dice.uniform(0.5, 2.0))
    await asyncio.sleep(span_s)
    await fleet.servers.follow()
    return {gone(member.name): (0, 1) for member in fleet.members}


def skew(seconds: int) -> Fault:
    async def fault(fleet: Fleet, dice: random.Random, span_s: float) -> Said:
        """A member's clock jumps, and later jumps back. It is no less there for that."""
        member = dice.choice(fleet.members)
        member.skew(seconds)
        try:
            await fleet.goes_on(span_s)
        finally:
            member.skew(0)
        return {gone(member.name): (0, 0), rf"\b{member.name}\b.*\bclock\b": (1, 1)}

    return fault


async def fill(fleet: Fleet, dice: random.Random, span_s: float) -> Said:
    """A member's disk is full for a while."""
    member = dice.choice(fleet.members)
    fleet.closed.add(member.name)
    await asyncio.sleep(0.5)  # a line that is being appended by hand comes whole
    member.fill()
    try:
        await fleet.goes_on(span_s, without=member)
    finally:
        member.empty()
        fleet.closed.discard(member.name)
    return {r"\bdisk\b": (1, 1)}


def freeze(pick: Pick) -> Fault:
    async def fault(fleet: Fleet, dice: random.Random, span_s: float) -> Said:
        """A daemon stands still, and goes on later as if nothing had been."""
        member = await pick(fleet, dice)
        member.freeze()
        try:
            await away(fleet, member, span_s)
        finally:
            member.thaw()
        return absent(fleet, member)

    return fault


async def freeze_writing(fleet: Fleet, dice: random.Random, span_s: float) -> Said:
    """A daemon stands still in the middle of a write."""
    member = dice.choice(fleet.members)
    await in_the_middle(fleet, member, member.freeze, member.thaw)
    try:
        await away(fleet, member, span_s)
    finally:
        member.thaw()
    return absent(fleet, member)


async def cut_writing(fleet: Fleet, dice: random.Random, span_s: float) -> Said:
    """A member's cable is cut in the middle of a write."""
    member = dice.choice(fleet.members)
    machine = member.machine
    await in_the_middle(fleet, member, lambda: machine.cut(Cut.BOTH), lambda: machine.mend(Cut.BOTH))
    try:
        await away(fleet, member, span_s)
    finally:
        machine.mend(Cut.BOTH)
    return absent(fleet, member)


FAULTS: Mapping[str, Fault] = {
    "kill": kill(anyone),
    "kill_leader": kill(the_leader),
    "kill_and_restart": kill_and_restart,
    "cut_out": cut(Cut.OUT, anyone),
    "cut_in": cut(Cut.IN, anyone),
    "cut_both": cut(Cut.BOTH, anyone),
    "cut_leader_out": cut(Cut.OUT, the_leader),
    "cut_leader_in": cut(Cut.IN, the_leader),
    "pull": cut(Cut.PULLED, anyone),
    "cut_server": cut_server,
    "restart_server": restart_server,
    "crash_server": crash_server,
    "fail_over": fail_over,
    "clock_ahead": skew(HOUR_S),
    "clock_behind": skew(-HOUR_S),
    "fill": fill,
    "freeze": freeze(anyone),
    "freeze_writing": freeze_writing,
    "cut_writing": cut_writing,
    "freeze_leader": freeze(the_leader),
}
