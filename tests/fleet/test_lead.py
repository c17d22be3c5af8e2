"""Who leads of members that can land and members that cannot."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.app.wiring.schema import SCHEMAS
from relay.fleet import members as fleet
from relay.fleet.members import Beat, FleetMember, Joining, Main
from relay.store.ports import Store
from tests import engines


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    with engines.on_engine("postgres"):
        opened = await engines.open_store(tmp_path, SCHEMAS)
        yield opened
        await opened.close()


async def joined(store: Store, name: str) -> FleetMember:
    new = Joining(name, f"{name}/1", "host", "/code", 0, "1")
    return await store.write(lambda tx: fleet.join(tx, new))


async def beat(store: Store, member: FleetMember) -> Beat:
    return await store.write(lambda tx: fleet.beat(tx, member.name, member.incarnation, 0.0))


async def tell(store: Store, member: FleetMember, why: str | None) -> None:
    await store.write(lambda tx: fleet.tell_landing(tx, member, Main.SHARED, why))


async def give_up(store: Store, member: FleetMember) -> bool:
    return await store.write(lambda tx: fleet.give_up(tx, member.name, member.incarnation))


async def test_the_lead_goes_to_who_can_land_in_a_new_epoch(store: Store) -> None:
    one, two = await joined(store, "M1"), await joined(store, "M2")
    first = await beat(store, one)
    assert first.leads and not (await beat(store, two)).leads
    await tell(store, one, "no clone")
    assert not await give_up(store, one)  # M2 has not told that it can
    await tell(store, two, "")
    assert (await beat(store, one)).leads  # until it gives up
    assert not await give_up(store, two)
    assert await give_up(store, one) and not await give_up(store, one)
    given = await beat(store, one)
    assert (given.beats, given.leads, given.leader) == (True, False, "")
    taken = await beat(store, two)
    assert taken.leads and taken.epoch == first.epoch + 1
    assert (await beat(store, one)).leader == "M2"


async def test_where_nobody_can_land_the_lead_stays(store: Store) -> None:
    one, two = await joined(store, "M1"), await joined(store, "M2")
    for member in (one, two):
        await tell(store, member, "no clone")
    first = await beat(store, one)
    assert first.leads
    for _ in range(3):
        assert not await give_up(store, one)
        assert not (await beat(store, two)).leads
    later = await beat(store, one)
    assert (later.leads, later.epoch) == (True, first.epoch)
    # A lead that is free is taken by anybody.
    await store.write(lambda tx: fleet.leave(tx, "M1", one.incarnation))
    assert (await beat(store, two)).leads


async def test_a_lead_that_was_given_up_comes_back_where_the_other_is_gone(store: Store) -> None:
    one, two = await joined(store, "M1"), await joined(store, "M2")
    first = await beat(store, one)
    await tell(store, one, "no clone")
    await tell(store, two, "")
    assert await give_up(store, one) and not (await beat(store, one)).leads
    await store.write(lambda tx: fleet.leave(tx, "M2", two.incarnation))
    again = await beat(store, one)
    assert again.leads and again.epoch == first.epoch + 1


async def test_a_new_daemon_of_a_member_has_not_told(store: Store) -> None:
    one, two = await joined(store, "M1"), await joined(store, "M2")
    await beat(store, one)
    await tell(store, two, "")
    two = await joined(store, "M2")
    assert (two.main, two.cannot_land) == (Main.SHARED, None)
    assert not await give_up(store, one)


def test_a_clone_without_the_remote_of_the_others_is_told_so() -> None:
    def member(name: str, main: Main) -> FleetMember:
        state = fleet.MemberState.LEFT
        return FleetMember(name, 1, "", state, "", "", 0, "", "", 1, 1, (), 0.0, 0.0, main=main)

    known = [member("M1", Main.NO_REMOTE), member("M2", Main.SHARED), member("M3", Main.NO_REMOTE)]
    told = fleet.without_remote("M1", Main.NO_REMOTE, known, "origin")
    assert "no git remote `origin`, by which main is shared with M2, so M1 lands nothing" in told
    assert fleet.without_remote("M1", Main.SHARED, known, "origin") == ""
    assert fleet.without_remote("M1", Main.OWN, known, "origin") == ""
    # Where nobody has it, each lands alone.
    assert fleet.without_remote("M1", Main.NO_REMOTE, [known[0], known[2]], "origin") == ""
