"""Landing of an agent that two members have: the work is in the worktree of one of them, or of both."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.conftest import Open
from tests.e2e.test_fleet import fleet_has, leads, said
from tests.e2e.test_fleet_landing import changed, code, has, main_of, members_of
from tests.e2e.test_landing import landed
from tests.outside import Json, Outside, eventually


async def led_by(room: Outside, name: str) -> None:
    async def look() -> bool:
        return await leads(room, name)

    await eventually(look, f"{name} to lead")


async def again(room: Outside, other: Outside) -> None:
    """M2's daemon ends, M1 leads, and knows that M2 is there again."""

    async def back() -> bool:
        return await fleet_has(other, "m.name = 'M2' AND m.state = 'live'")

    assert (await room.script("stop.sh")).code == 0
    await led_by(other, "M1")  # a start is as quick as a sign of life: it might lead again itself
    await room.start()
    await eventually(back, "M2 to be back")


def no_words_of_git(lines: list[str]) -> None:
    told = [line for line in lines if "fatal" in line or "object" in line or "exit code" in line]
    assert not told, told


async def test_its_work_lands_from_the_member_that_has_it_whoever_leads(
    open_room: Open, tmp_path: Path
) -> None:
    one, two = await members_of(open_room, tmp_path, "ALFA", "ALFA", shared=True, start=False)
    await two.start()
    await changed(two, "ALFA")
    await one.start()
    await again(two, one)
    await one.post("/land @ALFA")
    entry = await landed(one, "ALFA")
    assert main_of(tmp_path / "common.git") == entry["commit"]
    for room in (one, two):
        await has(room, "alfa.py")
    no_words_of_git(await said(one))
    # Nobody has anything now.
    await one.post("/land @ALFA")
    entry = await landed(one, "ALFA", "put_out")
    assert "nothing to merge" in entry["reason"]


async def test_where_both_have_work_the_newest_lands_and_it_is_said_that_there_is_more(
    open_room: Open, tmp_path: Path
) -> None:
    one, two = await members_of(open_room, tmp_path, "ALFA", "ALFA", shared=True, start=False)
    await one.start()
    await changed(one, "ALFA", "again")
    assert (await one.script("stop.sh")).code == 0
    await two.start()
    await changed(two, "ALFA")
    await one.start()
    await again(two, one)
    await one.post("/land @ALFA")
    await landed(one, "ALFA")
    await has(one, "alfa.py")
    assert not (code(one) / "again.py").exists()
    told = [line for line in await said(one) if line.startswith("ALFA has work at M1 too")]
    assert len(told) == 1, told
    await one.post("/land @ALFA")
    for room in (one, two):
        await has(room, "again.py")
    no_words_of_git(await said(one))


async def test_what_it_did_is_verified_where_it_did_it_also_where_the_leader_has_no_such_agent(
    open_room: Open, tmp_path: Path
) -> None:
    rooms = await members_of(open_room, tmp_path, "ALFA", "BRAVO", "BRAVO", shared=True, start=False)
    one = rooms[0]
    policy = {
        "name": "unit",
        "tier": 1,
        "executor": "inline",
        "patterns": ["*"],
        "run": ["python3", "-c", "1"],
    }
    for room in rooms:
        (room.folder / "policies").mkdir()
        (room.folder / "policies" / "all.yaml").write_text(json.dumps([policy]))
        await room.start()
    await led_by(one, "M1")
    await changed(one, "BRAVO")
    await one.post("/verify @BRAVO")

    found: list[Json] = []

    async def passed() -> bool:
        found[:] = [(await one.ask("GET", f"/api/verifications/{number}"))[1] for number in (1, 2)]
        return all(made.get("state") == "passed" for made in found)

    try:
        await eventually(passed, "its turn and its work to be verified")
    except AssertionError as error:
        raise AssertionError(f"{found}\n{await said(one)}") from error
