"""Agents on several machines are told of each other: one airspace, whoever leads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from relay.store.postgres import store as postgres_store
from tests.e2e.conftest import Open
from tests.e2e.test_fleet import fleet_of, leads
from tests.git.repository import commit, git
from tests.outside import Json, Outside, agent, eventually

CART = "def total(items):\n    return sum(items)\n\n\ndef count(items):\n    return len(items)\n"
IGNORED = "*.yaml\n*.sh\n.venv\nconfig.json\nspeaker.lock\nrelay\nscripts\ndaemon.out\n"


async def clones(open_room: Open, bare: Path, *names: str, remote: bool = True, **more: Any) -> list[Outside]:
    """Members with an agent each and a clone of one codebase, none of them started. `remote`: they know where it is
    from."""
    rooms = await fleet_of(open_room, *([agent(name, f"{name.lower()}.yaml")] for name in names))
    for room in rooms:
        airspace = {"tick_s": 0.2, "interrupt_s": 0, **more}
        room.path.write_text(json.dumps({**json.loads(room.path.read_text()), "airspace": airspace}))
        for name in names:
            (room.folder / f"{name.lower()}.yaml").write_text('- say: "{agent} heard"\n')
    git(bare.parent, "init", "-q", "--bare", "-b", "main", str(bare))
    for number, room in enumerate(rooms):
        git(room.folder, "init", "-q", "-b", "main")
        git(room.folder, "remote", "add", "origin", str(bare))
        if number == 0:
            (room.folder / ".gitignore").write_text(IGNORED)
            (room.folder / "cart.py").write_text(CART)
            commit(room.folder)
            git(room.folder, "push", "-q", "origin", "main")
        git(room.folder, "fetch", "-q", "origin")
        git(room.folder, "reset", "-q", "--hard", "origin/main")
        if not remote:
            git(room.folder, "remote", "remove", "origin")
    return rooms


def tree(room: Outside, name: str) -> Path:
    return room.folder / ".relay" / "worktrees" / name.lower()


async def ready(room: Outside) -> None:
    async def made() -> bool:
        listed = (await room.get("/api/worktrees"))["worktrees"]
        return any(row["member"] is None for row in listed)

    await eventually(made, "the worktree")


def change(room: Outside, name: str, text: str) -> None:
    """The agent changes the body of `total`."""
    (tree(room, name) / "cart.py").write_text(CART.replace("sum(items)", text))


async def advisories(room: Outside) -> list[Json]:
    return [one for one in (await room.get("/api/airspace"))["advisories"] if one["level"] != "clear"]


async def told(room: Outside) -> list[str]:
    entries = (await room.get("/api/transcript?limit=200"))["entries"]
    return [
        entry["body"] for entry in entries if entry["kind"] == "advisory" and "notice" not in entry["meta"]
    ]


async def test_two_agents_on_two_machines_are_told_once_and_git_has_tried_it(
    open_room: Open, tmp_path: Path
) -> None:
    one, two = await clones(open_room, tmp_path / "bare.git", "ALFA", "BRAVO")
    await one.start()
    await two.start()
    assert await leads(one, "M1")
    await ready(one)
    await ready(two)
    change(one, "ALFA", "sum(items) * 2")
    change(two, "BRAVO", "sum(items) * 3")

    async def tried(room: Outside) -> Json | None:
        return next((one for one in await advisories(room) if one["conflict"]), None)

    for room in (one, two):
        advisory: Any = await eventually(lambda room=room: tried(room), "the conflict that git found")
        assert sorted(advisory["agents"]) == ["ALFA", "BRAVO"] and advisory["level"] == "resolution"
        assert "cart.py" in advisory["line"]
    main, *refs = git(tmp_path / "bare.git", "for-each-ref", "--format=%(refname)").split()
    room_id = refs[0].split("/")[3]
    own = f"refs/relay/fleet/{room_id}/"
    assert (main, refs) == ("refs/heads/main", [f"{own}M1/ALFA", f"{own}M2/BRAVO"])
    for room in (one, two):
        said = [body for body in await told(room) if "HOLD" in body]
        assert len(said) == 1 and "both change line 2 of cart.py" in said[0], said
        links = (await room.get("/api/airspace"))["links"]
        assert [(link["a"], link["b"], link["level"]) for link in links] == [("ALFA", "BRAVO", "resolution")]
        assert links[0]["channels"]["merge"] > 0.5

    # Each was asked, with a turn where it lives; and the guard of the member that does not lead refuses the edit.
    async def answered() -> bool:
        heard = {entry["speaker"] for entry in await two.entries() if entry["body"].endswith(" heard")}
        return heard == {"ALFA", "BRAVO"}

    await eventually(answered, "both answers")
    path = str(tree(two, "BRAVO") / "cart.py")
    status, decision = await two.ask("POST", "/api/guard", json={"agent": "BRAVO", "path": path})
    assert (status, decision["decision"]) == (200, "steer"), decision
    assert decision["advisory"] == advisory["id"] and "Steer clear of cart.py" in decision["reason"]

    # The leader is killed: the next one goes on from what was said, and says none of it again.
    one.kill()

    async def away() -> bool:
        seen = (await two.get("/api/airspace"))["agents"]
        return any(found["agentId"] == "ALFA" and found.get("away") for found in seen)

    await eventually(away, "ALFA as it was last seen")

    async def led() -> bool:
        return await leads(two, "M2")

    await eventually(led, "M2 to lead")
    change(two, "BRAVO", "sum(items) * 4")

    async def scanned() -> bool:
        seen = await two.get("/api/airspace")
        homes = {found["agentId"]: found.get("member") for found in seen["agents"]}
        return homes == {"ALFA": "M1", "BRAVO": None} and bool(seen["links"])

    await eventually(scanned, "a scan of the new leader")
    assert [found["id"] for found in await advisories(two)] == [advisory["id"]]
    (tree(two, "BRAVO") / "cart.py").write_text(CART)

    async def over() -> bool:
        return not await advisories(two)

    await eventually(over, "the end of the advisory")
    said = await told(two)
    assert len([body for body in said if "HOLD" in body]) == 1, said
    assert len([body for body in said if body.startswith("clear: ")]) == 1, said


async def test_without_a_common_remote_it_is_predicted_and_a_turn_elsewhere_is_cut_off(
    open_room: Open, tmp_path: Path
) -> None:
    one, two = await clones(open_room, tmp_path / "bare.git", "ALFA", "BRAVO", remote=False)
    (two.folder / "bravo.yaml").write_text("- delay_s: 60\n  say: late\n")
    await one.start()
    await two.start()
    await ready(one)
    await ready(two)
    await one.post("@BRAVO go")

    async def working() -> bool:
        return "active" in [job["state"] for job in await two.jobs()]

    await eventually(working, "BRAVO's turn")
    change(one, "ALFA", "sum(items) * 2")

    async def seen() -> bool:
        agents = (await two.get("/api/airspace"))["agents"]
        return any(found["agentId"] == "ALFA" and found["files"] for found in agents)

    await eventually(seen, "ALFA's work at the other member")
    change(two, "BRAVO", "sum(items) * 3")

    async def predicted() -> list[str]:
        return [
            body for body in await told(two) if "both change line 2 of cart.py (predicted, not tried)" in body
        ]

    assert len(await eventually(predicted, "the advisory")) == 1
    for room in (one, two):
        (advisory,) = await eventually(lambda room=room: advisories(room), "the advisory on the page")
        assert advisory["level"] == "resolution" and not advisory["conflict"]

    async def cut() -> bool:
        return "turn cut off for an advisory" in two.said()

    await eventually(cut, "the turn to be cut off where it runs")
    (tree(two, "BRAVO") / "cart.py").write_text(CART)

    async def over() -> bool:
        return not await advisories(one)

    await eventually(over, "the end of the advisory")
    assert (await one.get("/api/state"))["fleet"]["remote"] == {"name": "origin", "trouble": ""}


@pytest.mark.parametrize("shares", [False, True])
async def test_the_text_of_files_is_told_only_where_it_is_shared(
    open_room: Open, tmp_path: Path, shares: bool
) -> None:
    one, two = await clones(open_room, tmp_path / "bare.git", "ALFA", "BRAVO", remote=False)
    for room in (one, two):
        known = json.loads(room.path.read_text())
        known["fleet"]["share_text"] = shares
        room.path.write_text(json.dumps(known))
        await room.start()
        await ready(room)
    change(one, "ALFA", "sum(items) * 271828")

    async def seen() -> bool:
        agents = (await two.get("/api/airspace"))["agents"]
        return any(found["agentId"] == "ALFA" and found["files"] for found in agents)

    await eventually(seen, "ALFA's work at the other member")
    database = await asyncpg.connect(
        one.env["RELAY_POSTGRES_DSN"], server_settings={"search_path": postgres_store.SCHEMA}
    )
    try:
        rows = await database.fetch("SELECT work FROM fleet_works")
    finally:
        await database.close()
    told = "\n".join(str(row[0]) for row in rows)
    assert "cart.py" in told
    assert [line in told for line in ("return sum(items) * 271828", "return len(items)")] == [shares, shares]


async def test_what_one_machine_changes_and_another_comes_to_use_is_told(
    open_room: Open, tmp_path: Path
) -> None:
    one, two = await clones(open_room, tmp_path / "bare.git", "ALFA", "BRAVO")
    await one.start()
    await two.start()
    assert await leads(one, "M1")
    await ready(one)
    await ready(two)
    (tree(one, "ALFA") / "cart.py").write_text(CART.replace("total(items)", "total(items, rate)"))
    (tree(two, "BRAVO") / "report.py").write_text("from cart import total\n\n\nprint(total([1, 2]))\n")

    async def heard(room: Outside) -> Json | None:
        found = await advisories(room)
        return next((one for one in found if "changes the head of the function total" in one["line"]), None)

    for room in (one, two):
        advisory: Any = await eventually(lambda room=room: heard(room), "the advisory of level 3")
        assert sorted(advisory["agents"]) == ["ALFA", "BRAVO"] and "newly uses it" in advisory["line"]
    # It ends when the one no longer does it.
    (tree(one, "ALFA") / "cart.py").write_text(CART.replace("total(items)", "total(items, rate=1)"))
    for room in (one, two):

        async def over(room: Outside = room) -> bool:
            return await heard(room) is None

        await eventually(over, "the advisory to end")


async def test_what_a_person_edits_at_each_machine_is_recorded_once(open_room: Open, tmp_path: Path) -> None:
    rooms = await clones(open_room, tmp_path / "bare.git", "ALFA", "BRAVO")
    for room in rooms:
        git(room.folder, "config", "user.name", "Ann")
        git(room.folder, "config", "user.email", "ann@example.org")
        await room.start()
        await ready(room)

    async def edits() -> list[list[str]]:
        listed = await rooms[0].relay("timeline", "lane", "Ann", "--json")
        found = json.loads(listed.out)["events"] if listed.code == 0 else []
        return [event["files"] for event in found if event["type"] == "files.changed"]

    async def begun() -> bool:
        listed = await rooms[0].relay("timeline", "lane", "Ann", "--type", "files.read", "--json")
        return listed.code == 0 and len(json.loads(listed.out)["events"]) == 2

    for room in rooms:
        (room.folder / "daemon.out").touch()
    await eventually(begun, "a first look of both")
    expected = []
    for number, room in enumerate([*rooms, *rooms]):
        (room.folder / f"note-{number}.txt").write_text("mine\n")
        expected.append([f"note-{number}.txt"])

        async def recorded(upto: int = len(expected)) -> bool:
            return len(await edits()) >= upto

        await eventually(recorded, "the edit")
    assert await edits() == expected
