"""Several relays on one PostgreSQL database are one room."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asyncpg

from relay.app.wiring.schema import SCHEMAS
from tests import postgres
from tests.e2e.conftest import Open
from tests.outside import REPO, Outside, agent, eventually


async def fleet_of(open_room: Open, *agents: Sequence[dict[str, Any]], **config: Any) -> list[Outside]:
    """Members M1, M2, ... with these agents, on one new database, none of them started."""
    server = postgres.server()
    dsn = server.dsn(server.new_database(SCHEMAS))
    made = []
    for number, own in enumerate(agents, 1):
        settings = {"name": f"M{number}", "lease_s": 4, **config}
        one = await open_room(*own, start=False, storage="postgres", fleet=settings)
        one.env = {"RELAY_POSTGRES_DSN": dsn}
        made.append(one)
    return made


async def said(room: Outside) -> list[str]:
    """What the room itself said, in its order."""
    entries = (await room.get("/api/transcript?limit=200"))["entries"]
    return [entry["body"] for entry in entries if entry["speaker"] == "RELAY"]


async def test_a_message_at_one_member_is_answered_by_an_agent_of_another(open_room: Open) -> None:
    one, two = await fleet_of(open_room, [agent("ALFA")], [agent("BRAVO")])
    await one.start()
    await two.start()
    posted = await one.post("@BRAVO tok-there")
    answer = await one.reply_to(posted["id"], "BRAVO")
    assert (await two.reply_to(posted["id"], "BRAVO"))["id"] == answer["id"]
    posted = await two.post("@ALFA @BRAVO tok-both")
    for name in ("ALFA", "BRAVO"):
        await two.reply_to(posted["id"], name)
    told = await said(one)
    assert (
        len([line for line in told if line.startswith("The relay M2 joined the room. BRAVO lives there.")])
        == 1
    )


def slow(room: Outside, seconds: float) -> None:
    """Its agent of `slow.yaml` answers after so many seconds."""
    (room.folder / "slow.yaml").write_text(
        f"rules:\n  - match: .*\n    delay_s: {seconds}\n    say: tok-done\n"
    )


async def members(room: Outside) -> dict[str, dict[str, Any]]:
    listed = await room.relay("fleet", "--json")
    assert listed.code == 0, listed.all
    return {member["name"]: member for member in json.loads(listed.out)["members"]}


async def fleet_has(room: Outside, condition: str, *values: str) -> bool:
    """Is there such a row of what `members` shows? From the database: a wait asks often, and each command is a
    process."""
    connection = await asyncpg.connect(
        room.env["RELAY_POSTGRES_DSN"], server_settings={"search_path": "relay"}
    )
    try:
        rows = "fleet_members m LEFT JOIN fleet_leader l ON l.member = m.name AND l.until >= relay_now()"
        return bool(
            await connection.fetchval(f"SELECT EXISTS (SELECT FROM {rows} WHERE {condition})", *values)
        )
    finally:
        await connection.close()


async def leads(room: Outside, name: str) -> bool:
    return await fleet_has(room, "l.member = $1", name)


async def test_when_the_leader_is_killed_another_leads_and_what_waits_for_it_is_answered_once(
    open_room: Open,
) -> None:
    one, two, three = await fleet_of(open_room, [agent("ALFA")], [agent("BRAVO")], [agent("CARL")])
    for each in (one, two, three):
        await each.start()
    assert await leads(one, "M1")
    one.kill()

    async def led() -> bool:
        return await leads(two, "M2") or await leads(two, "M3")

    await eventually(led, "another member to lead")
    await two.until_said(r"^The relay M1 gives no sign of life\. ALFA cannot be reached", speaker="RELAY")
    # What the leader does goes on: a message that names nobody is routed, a command is answered.
    posted = await three.post("/who")
    await three.reply_to(posted["id"], "RELAY")
    posted = await three.post("@ALFA @CARL tok-late")
    await three.reply_to(posted["id"], "CARL")
    assert (await two.agent("ALFA"))["away"] and (await two.agent("ALFA"))["member"] == "M1"
    await one.start()
    await two.reply_to(posted["id"], "ALFA")
    answers = [entry for entry in await two.entries() if entry["in_reply_to"] == posted["id"]]
    assert sorted(entry["speaker"] for entry in answers) == ["ALFA", "CARL"]
    told = [line for line in await said(three) if line.startswith("The relay M1")]
    assert [line.split(".")[0] for line in told] == [
        "The relay M1 gives no sign of life",
        "The relay M1 is here again",
    ]


async def test_a_member_that_stood_still_comes_back_with_its_turn_and_answers_once(open_room: Open) -> None:
    one, two = await fleet_of(open_room, [agent("ALFA")], [agent("BRAVO", "slow.yaml")])
    slow(two, 3)
    await one.start()
    await two.start()
    posted = await one.post("@BRAVO go")

    async def begun() -> bool:
        return "active" in [job["state"] for job in await one.jobs()]

    await eventually(begun, "the turn to begin")
    assert two.process is not None
    os.kill(two.process.pid, signal.SIGSTOP)
    try:
        await one.until_said(r"^The relay M2 gives no sign of life", speaker="RELAY")
        assert (await members(one))["M2"]["state"] == "away"
    finally:
        os.kill(two.process.pid, signal.SIGCONT)
    await one.until_said(r"^The relay M2 is back", speaker="RELAY")
    await one.reply_to(posted["id"], "BRAVO")
    await asyncio.sleep(4)  # as long as a second turn would take
    answers = [entry for entry in await one.entries() if entry["in_reply_to"] == posted["id"]]
    assert [entry["speaker"] for entry in answers] == ["BRAVO"]
    assert (await members(one))["M2"]["state"] == "live"


async def test_who_cannot_be_a_member_is_told_why(open_room: Open) -> None:
    one, two, three = await fleet_of(open_room, [agent("ALFA")], [agent("ALFA")], [agent("CARL")])
    await one.start()
    refused = await two.relay("run")
    assert refused.code == 1 and refused.all.count("the agent ALFA lives at M1") == 1, refused.all
    named = json.loads(three.path.read_text())
    three.path.write_text(json.dumps({**named, "fleet": {**named["fleet"], "name": "M1"}}))
    refused = await three.relay("run")
    assert refused.code == 1 and refused.all.count(f", in {one.folder}. Stop it there") == 1, refused.all
    three.path.write_text(json.dumps(named))
    # Forgotten only when it is away.
    kept = await one.relay("fleet", "forget", "M1")
    assert kept.code == 1 and "M1 is here" in kept.all
    assert (await one.script("stop.sh")).code == 0
    refused = await two.relay("run")
    assert refused.code == 1 and "`relay fleet forget M1` frees its agents" in refused.all, refused.all
    assert (await two.relay("fleet", "forget", "M1")).code == 0
    await two.start()
    port = json.loads((two.folder / ".relay" / "state.json").read_text())["port"]
    settings = json.loads(three.path.read_text())
    three.path.write_text(json.dumps({**settings, "ui": {"port": port}}))
    refused = await three.relay("run")
    assert refused.code == 1 and f"port {port} of " in refused.all and "the member M2's" in refused.all, (
        refused.all
    )


async def test_a_shared_agent_is_run_by_whoever_is_there(open_room: Open) -> None:
    one, two = await fleet_of(open_room, [agent("ALFA", shared=True)], [agent("ALFA", shared=True)])
    await one.start()
    await two.start()
    one.kill()
    posted = await two.post("@ALFA tok-shared")
    await two.reply_to(posted["id"], "ALFA")


async def test_what_a_member_had_in_hand_that_is_gone_is_done_at_once_by_another_that_has_the_agent(
    open_room: Open, tmp_path: Path
) -> None:
    both = agent("BRAVO", "slow.yaml", shared=True)
    rooms = await fleet_of(open_room, [agent("ALFA")], [both], [both, agent("CARL")], gone="park")
    code = tmp_path / "next"
    await asyncio.to_thread(shutil.copytree, REPO / "relay", code / "relay")
    # Who does not look at once looks too late.
    recovery = code / "relay" / "app" / "daemon" / "recovery.py"
    late = recovery.read_text().replace("RECOVER_EVERY_S = 30.0", "RECOVER_EVERY_S = 86400.0")
    assert late != recovery.read_text()
    recovery.write_text(late)
    for room in rooms:
        room.env = {**room.env, "PYTHONPATH": str(code)}
        slow(room, 3)
        await room.start()
    one = rooms[0]
    first = await one.post("@BRAVO go")

    async def begun() -> Outside | None:
        return next((room for room in rooms[1:] if "turn started" in room.said()), None)

    holder: Outside = await eventually(begun, "the turn to begin")
    holder.kill()
    notice = await one.until_said(r"^The relay M[23] gives no sign of life", speaker="RELAY")
    assert "BRAVO" not in notice["body"], notice
    second = await one.post("@BRAVO more")
    for posted in (first, second):
        await one.reply_to(posted["id"], "BRAVO")


async def test_a_turn_at_another_member_is_stopped(open_room: Open) -> None:
    one, two = await fleet_of(open_room, [agent("ALFA")], [agent("BRAVO", "slow.yaml")])
    slow(two, 60)
    await one.start()
    await two.start()
    posted = await one.post("@BRAVO go")

    async def state() -> list[str]:
        return [job["state"] for job in await one.jobs() if job["message_id"] == posted["id"]]

    async def active() -> bool:
        return await state() == ["active"]

    await eventually(active, "the turn to begin")
    answered = await one.ask("POST", "/api/agents/BRAVO/cancel", json={"name": "ann"})
    assert answered[0] == 200, answered

    async def ended() -> bool:
        return await state() == ["skipped"]

    await eventually(ended, "the turn to end")


def next_version(folder: Path, *, fits: int, migration: str = "") -> str:
    """The relay that comes after this one: where Python finds it. `fits`: the oldest form that it understands."""
    code = folder / "relay"
    shutil.copytree(REPO / "relay", code)  # with what Python compiled, of all that stays as it is
    start = code / "__init__.py"
    start.write_text(re.sub(r'__version__ = ".*"', '__version__ = "99.0.0"', start.read_text()))
    members = code / "fleet" / "members.py"
    text = members.read_text().replace("PROTOCOL, FITS = 2, 1", f"PROTOCOL, FITS = 3, {fits}")
    assert f"PROTOCOL, FITS = 3, {fits}" in text
    members.write_text(text)
    if migration:
        steps = code / "fleet" / "postgres" / "migrations"
        number = len(list(steps.glob("*.sql"))) + 1
        (steps / f"{number:04}_later.sql").write_text(migration)
    return str(folder)


async def test_members_are_upgraded_one_after_the_other(open_room: Open, tmp_path: Path) -> None:
    one, two = await fleet_of(open_room, [agent("ALFA")], [agent("BRAVO")])
    later = "ALTER TABLE fleet_members ADD COLUMN later TEXT NOT NULL DEFAULT '';\n"
    new = await asyncio.to_thread(next_version, tmp_path / "next", fits=1, migration=later)
    await one.start()
    two.env = {**two.env, "PYTHONPATH": new}
    await two.start()
    assert (await members(two))["M2"]["version"] == "99.0.0"
    # Its daemon goes on, its commands want the new version.
    asked = await one.relay("fleet")
    assert asked.code == 1 and "newer relay; update this one" in asked.all, asked.all
    for at, to in ((one, "BRAVO"), (two, "ALFA")):
        posted = await at.post(f"@{to} tok-{to}")
        await at.reply_to(posted["id"], to)
    # Whoever comes back as it was is told to update; updated, it is a member again.
    assert (await one.script("stop.sh")).code == 0
    refused = await one.relay("run")
    assert refused.code == 1 and "newer relay; update this one" in refused.all, refused.all
    one.env = {**one.env, "PYTHONPATH": new}
    await one.start()
    posted = await two.post("@ALFA tok-again")
    await two.reply_to(posted["id"], "ALFA")


async def test_versions_that_do_not_fit_are_refused_in_words(open_room: Open, tmp_path: Path) -> None:
    one, two = await fleet_of(open_room, [agent("ALFA")], [agent("BRAVO")])
    new = await asyncio.to_thread(next_version, tmp_path / "next", fits=3)
    await one.start()
    two.env = {**two.env, "PYTHONPATH": new}
    refused = await two.relay("run")
    assert refused.code == 1 and "M1 (" in refused.all and "too old for this one (99.0.0)" in refused.all, (
        refused.all
    )
    assert (await one.script("stop.sh")).code == 0
    await two.start()
    refused = await one.relay("run")
    assert refused.code == 1 and "too old for this fleet: M2 runs 99.0.0" in refused.all, refused.all


async def test_a_file_of_one_member_is_read_and_shown_at_another(open_room: Open) -> None:
    one, two = await fleet_of(open_room, [agent("ALFA")], [agent("BRAVO")])
    for each in (one, two):
        await each.start()
    # More than one part, and none the last.
    picture = b"\x89PNG\r\n\x1a\n" + random.Random(1).randbytes(1_200_000)
    status, sent = await one.ask("POST", "/api/files?name=plan.png", data=picture)
    assert status == 201, sent
    there = two.folder.resolve() / ".relay" / "files" / sent["id"]

    # The agent of M2 is given a path that holds it.
    asked = await one.post(f"@BRAVO look at {sent['reference']}")
    assert f"look at ![plan.png]({there})" in (await two.reply_to(asked["id"], "BRAVO"))["body"]
    assert there.read_bytes() == picture

    # A page of M2 is shown what was never asked of an agent there; nothing stays in the database of it.
    notes = (await one.ask("POST", "/api/files?name=notes.txt", data=b"some notes"))[1]
    assert await shown(two, notes["id"]) == (200, b"some notes")
    assert not await left_over(two)
    assert (await two.ask("GET", f"/api/files/{'0' * 64}.png"))[0] == 404

    # What M2 has, it has; what it has not, waits for M1, and each door says so.
    late = (await one.ask("POST", "/api/files?name=late.txt", data=b"late"))[1]
    one.kill()
    assert (await shown(two, sent["id"]))[1] == picture
    await eventually(lambda: fleet_has(two, "m.name = 'M1' AND m.state = 'away'"), "M1 is away")
    status, refused = await two.ask("GET", f"/api/files/{late['id']}")
    assert (status, refused["error"]["message"]) == (503, "The file is at M1, which does not answer.")
    asked = await two.post(f"@BRAVO read {late['reference']}")
    answer = (await two.reply_to(asked["id"], "BRAVO"))["body"]
    assert "cannot be read now. The file is at M1, which does not answer." in answer
    await one.start()
    assert await shown(two, late["id"]) == (200, b"late")


async def shown(room: Outside, id: str) -> tuple[int, bytes]:
    async with room.session.get(f"{room.url}/api/files/{id}", headers={"X-API-Key": room.token}) as got:
        return got.status, await got.read()


async def left_over(room: Outside) -> list[str]:
    """What of files stands in the database beside where each was sent to."""
    connection = await asyncpg.connect(
        room.env["RELAY_POSTGRES_DSN"], server_settings={"search_path": "relay"}
    )
    try:
        asked = (
            "SELECT name FROM settings WHERE name LIKE 'fleet_file_wanted:%' OR name LIKE 'fleet_file_part:%'"
        )
        return [row["name"] for row in await connection.fetch(asked)]
    finally:
        await connection.close()
