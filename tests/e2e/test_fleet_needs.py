"""The inbox of a fleet: every member shows what needs people at all of them, and an answer reaches where it waits."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import Open
from tests.e2e.test_acp import speaker
from tests.e2e.test_fleet import fleet_of
from tests.e2e.test_fleet_people import page, people
from tests.e2e.test_inbox import act, comes, goes, names, needs
from tests.e2e.test_notify import pocket
from tests.outside import Outside, agent, eventually


async def test_what_one_member_knows_is_in_the_inbox_of_all(
    open_room: Open, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ace = speaker(str(tmp_path_factory.mktemp("ace")), "permit", FAKE_KIND="execute")
    one, two = await fleet_of(open_room, [agent("ALFA")], [ace, agent("BRAVO", "waits.yaml")])
    (two.folder / "waits.yaml").write_text("- delay_s: 600\n  say: At last.\n")
    two.configure(two.path.read_text().replace('"fleet":', '"room": {"silent_after_s": 10},\n  "fleet":'))
    await one.start()
    await two.start()

    async def alike() -> bool:
        return list(await needs(one)) == list(await needs(two))

    # ann is connected to M1 alone; what ACE asks at M2 is in her inbox, and so is her answer at M2.
    async with page(one, "ann"):
        await people(two, are=["ann"], at={"ann": "M1"})
        posted = await one.post("@ACE do it")
        asked = await comes(one, "permission")
        assert asked["about"] == "ACE" and asked["ends_at"] is not None
        assert names(asked) == names(await comes(two, "permission"))
        await eventually(alike, "the same list at both")
        told = await one.relay("inbox")
        assert asked["id"] in told.out
        done = await act(one, asked["id"], names(asked)[0])
        assert done["success"], done
        assert (await one.reply_to(posted["id"], "ACE"))["body"] == "The answer was yes."
        await goes(one, asked["id"])
        assert asked["id"] not in await needs(two)

        # An agent at M2 of which nothing is heard: ended from M1.
        waits = await one.post("@BRAVO wait")
        silent = await comes(one, "silent")
        assert (silent["about"], silent["short"]) == ("BRAVO", "silent:BRAVO")
        assert (await act(one, silent["id"], "cancel"))["success"]
        await one.until_job(waits["id"], "BRAVO", "skipped")
        await goes(one, silent["id"])

        # A member that is gone is named, at each door.
        two.kill()
        await eventually(lambda: says(one), "M2 is named")
        assert "M2 cannot be reached" in (await one.relay("inbox")).out


async def says(room: Outside) -> bool:
    asked = await room.post("/inbox")
    told = str((await room.reply_to(asked["id"], "RELAY"))["body"])
    return "M2 cannot be reached: what agents there ask for" in told


async def test_one_member_tells_places_outside_and_the_next_leader_goes_on(open_room: Open) -> None:
    asks = '- say: "Which of the two do you want?"\n'
    one, two = await fleet_of(open_room, [agent("ALFA", "asks.yaml")], [agent("BRAVO", "asks.yaml")])
    async with pocket() as outside:
        place = f'"notify": [{{"name": "desk", "url": "{outside.url}/desk"}}],\n  "fleet":'
        for room in (one, two):
            (room.folder / "asks.yaml").write_text(asks)
            room.configure(room.path.read_text().replace('"fleet":', place))
            await room.start()
        await one.post("@ALFA keep the visits")
        await one.post("@BRAVO keep the names")

        def told(name: str) -> list[str]:
            return [request.id for request in outside.at("/desk") if request.json["about"] == name]

        async def both() -> bool:
            return bool(told("ALFA") and told("BRAVO"))

        await eventually(both, "both questions at the desk")
        # Whoever leads is killed; who leads next begins from what was told.
        first = (await one.get("/api/state"))["fleet"]["leader"]
        (one if first == "M1" else two).kill()
        left, name = (two, "BRAVO") if first == "M1" else (one, "ALFA")

        async def leads() -> bool:
            return bool((await left.get("/api/state"))["fleet"]["leader"] not in ("", first))

        await eventually(leads, "another member leads")
        await left.post(f"/steer @{name} the table")

        async def again() -> bool:
            return len(set(told(name))) == 2

        await eventually(again, "its next question at the desk")
        assert len({*told("ALFA"), *told("BRAVO")}) == 3, "each need once, by one member"
