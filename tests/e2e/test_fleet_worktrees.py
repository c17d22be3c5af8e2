"""Worktrees of a fleet: each member lists those of all, and lands them, whoever has them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import Open
from tests.e2e.test_fleet_landing import changed, has, members_of, waits
from tests.e2e.test_landing import landed
from tests.outside import Json, Outside, eventually


async def rows(room: Outside, *, of: str, files: int = 1) -> list[Json]:
    """The worktrees as this member lists them, once that of an agent has so many changed files and was tried."""

    async def look() -> list[Json] | None:
        found: list[Json] = (await room.get("/api/worktrees"))["worktrees"]
        # What came of trying to merge it is told a moment later.
        ready = [row for row in found if (row["agent"], row["files"], row["merges"]) == (of, files, "clean")]
        return found if ready else None

    listed: list[Json] = await eventually(look, f"{of}'s worktree at {room.folder.name}")
    return listed


async def test_each_member_lists_all_worktrees_and_changes_only_its_own(
    open_room: Open, tmp_path: Path
) -> None:
    one, two = await members_of(open_room, tmp_path, "ALFA", "BRAVO")
    await changed(one, "BRAVO")
    [alfa, bravo] = await rows(one, of="BRAVO")
    assert (alfa["agent"], alfa["member"], bravo["member"], bravo["away"]) == ("ALFA", None, "M2", False)
    own = next(row for row in await rows(two, of="BRAVO") if row["agent"] == "BRAVO")
    assert own["member"] is None
    # In all that both know, they say the same.
    # Its files, its disk and its ports are of its own machine.
    apart = {"member", "path", "base", "tree", "disk", "ports"}
    assert {**bravo, **dict.fromkeys(apart)} == {**own, **dict.fromkeys(apart)}
    # In a shell too, with the room and without it.
    for _ in range(2):
        told = await one.relay("worktrees")
        assert "BRAVO  " in told.out and "  at M2" in told.out, told.all
        for action in ("merge", "discard", "restore", "abort", "remove", "show"):
            refused = await one.relay("worktrees", action, "BRAVO")
            assert refused.code == 1 and "The worktree of BRAVO is at M2, not here." in refused.all
            assert f"`relay worktrees {action} BRAVO` there" in refused.all, refused.all
        if one.state_file() is not None:
            _, body = await one.ask("POST", "/api/worktrees/BRAVO/discard", json={"name": "ann"})
            assert body["error"]["code"] == "elsewhere", body
            # One order does not begin here and stop there.
            for order, each in (("@ALFA @BRAVO", "ALFA"), ("@BRAVO @ALFA", "BRAVO")):
                said = (await one.reply_to((await one.post(f"/setup {order}"))["id"], "RELAY"))["body"]
                assert "are on 2 machines, and one order reaches one of them. Nothing was begun." in said, (
                    said
                )
                assert f"Send `/setup @{each}` and `/setup @" in said, said
            assert (await one.script("stop.sh")).code == 0
    assert (await rows(two, of="BRAVO"))[-1]["agent"] in ("ALFA", "BRAVO")
    # One that has ended says how its worktrees were seen last.
    await changed(two, "BRAVO", "again")
    alfa = next(row for row in await rows(two, of="BRAVO", files=2) if row["agent"] == "ALFA")
    assert (alfa["member"], alfa["away"]) == ("M1", True)


@pytest.mark.parametrize("how", ["room", "shell"])
async def test_to_land_all_is_to_land_what_the_agents_of_all_members_have(
    open_room: Open, tmp_path: Path, how: str
) -> None:
    one, two = await members_of(open_room, tmp_path, "ALFA", "BRAVO")
    await changed(one, "ALFA")
    await changed(one, "BRAVO")
    for room in (one, two):
        for name in ("ALFA", "BRAVO"):
            await rows(room, of=name)
    plan = (await two.get("/api/landing/plan"))["plan"]
    assert sorted((step["agent"], step["member"]) for step in plan) == [("ALFA", "M1"), ("BRAVO", None)]
    assert {step["agent"]: step["files"] for step in plan}["ALFA"] == ["alfa.py"]
    if how == "room":
        await two.post("/land all")
    else:
        asked = await two.relay("land", "--all", "--json")
        assert asked.code == 0, asked.all
        assert sorted(each["agent"] for each in json.loads(asked.out)["landed"]) == ["ALFA", "BRAVO"]
    for name in ("ALFA", "BRAVO"):
        await landed(one, name)
    for room in (one, two):
        for path in ("alfa.py", "bravo.py"):
            await has(room, path)


async def test_a_shell_lands_an_agent_of_another_member_by_its_name(open_room: Open, tmp_path: Path) -> None:
    one, two = await members_of(open_room, tmp_path, "ALFA", "BRAVO")
    await changed(one, "BRAVO")
    await rows(one, of="BRAVO")
    planned = await one.relay("land", "bravo", "--dry-run")
    assert planned.code == 0 and "BRAVO (" in planned.out, planned.all
    asked = await one.relay("land", "bravo", "--json")
    assert asked.code == 0, asked.all
    assert [each["agent"] for each in json.loads(asked.out)["landed"]] == ["BRAVO"]
    await has(one, "bravo.py")
    unknown = await one.relay("land", "NOBODY")
    assert unknown.code == 1 and "There is no worktree of NOBODY." in unknown.all
    # Where no relay runs, it waits for them.
    await changed(two, "BRAVO", "again")
    await rows(one, of="BRAVO")
    for room in (two, one):
        assert (await room.script("stop.sh")).code == 0
    left = await one.relay("land", "--all", "--json")
    assert json.loads(left.out)["waiting"] == ["BRAVO"], left.all
    for room in (one, two):
        await room.start()
    await landed(one, "BRAVO")
    await has(one, "again.py")


async def test_work_that_is_to_land_of_a_member_that_is_away_waits(open_room: Open, tmp_path: Path) -> None:
    one, two = await members_of(open_room, tmp_path, "ALFA", "BRAVO")
    await changed(one, "BRAVO")
    await rows(one, of="BRAVO")
    assert (await two.script("stop.sh")).code == 0
    await one.post("/land all")
    await waits(one, "BRAVO", "the clone of M2, which is away")
    await two.start()
    await landed(one, "BRAVO")
