"""A member of a fleet is forgotten: what it leaves behind, and what comes after it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg

from tests.e2e.conftest import Open
from tests.e2e.test_fleet import fleet_of, members, said, slow
from tests.e2e.test_fleet_landing import changed, members_of
from tests.outside import Outside, agent, eventually


async def write(room: Outside, statement: str) -> str:
    """Write into the fleet's database from outside."""
    connection = await asyncpg.connect(room.env["RELAY_POSTGRES_DSN"])
    try:
        await connection.execute("SET search_path = relay")
        return str(await connection.execute(statement))
    finally:
        await connection.close()


async def take_back(room: Outside, agent: str) -> None:
    """Take back all that an agent did, once the log has it."""

    async def done() -> bool:
        asked = await room.relay("timeline", "rewind", agent, "--to", "-1h")
        assert asked.code == 0 or "just now" not in asked.all, asked.all
        return asked.code == 0

    await eventually(done, f"what {agent} did is taken back")


async def test_a_rewind_that_a_lost_member_had_begun_stops_nobody_and_is_given_up(
    open_room: Open, tmp_path: Path
) -> None:
    one, two = await members_of(open_room, tmp_path, "ALFA", "BRAVO")
    await changed(one, "ALFA")
    await changed(two, "BRAVO")
    await take_back(two, "BRAVO")
    two.kill()
    # As a daemon leaves it that is killed in the middle.
    assert await write(one, "UPDATE rewinds SET state = 'begun'") == "UPDATE 1"
    await one.until_said(r"^The relay M2 gives no sign of life", speaker="RELAY")
    await take_back(one, "ALFA")
    forgotten = await one.relay("fleet", "forget", "M2")
    assert forgotten.code == 0, forgotten.all
    (refs,) = re.findall(r"git ls-remote origin '([^']+)'", forgotten.out)
    assert re.fullmatch(r"refs/relay/\*/[0-9a-f]{8}/M2/\*", refs)
    await one.until_said(
        r"^The relay M2 is forgotten\. It had begun to take back .* what BRAVO did: that is given up",
        speaker="RELAY",
    )
    assert len([line for line in await said(one) if "is given up" in line]) == 1


async def test_the_room_says_once_who_was_forgotten_and_how_much_is_given_up(open_room: Open) -> None:
    shared = agent("DELTA", shared=True)
    one, two = await fleet_of(open_room, [agent("ALFA"), shared], [agent("BRAVO"), agent("CARL"), shared])
    await one.start()
    await two.start()
    assert (await two.script("stop.sh")).code == 0
    both = await one.post("@BRAVO @CARL tok-both")
    await one.post("@BRAVO tok-one")

    async def queued() -> bool:
        return [job["state"] for job in await one.jobs()] == ["pending"] * 3

    await eventually(queued, "what waits to be queued")
    forgotten = await one.relay("fleet", "forget", "M2", "--name", "ann")
    assert "2 messages that waited for its agents are given up." in forgotten.out, forgotten.all
    assert [job["state"] for job in await one.jobs()] == ["skipped"] * 3
    answered = await one.post("@DELTA tok-still")
    await one.reply_to(answered["id"], "DELTA")
    again = await one.post("/who")
    assert "BRAVO" not in (await one.reply_to(again["id"], "RELAY"))["body"]
    told = [line for line in await said(one) if "forgotten" in line or "skipped" in line]
    assert told == [
        "The relay M2 was forgotten, as ann asked: BRAVO and CARL are no agents of this room any more. "
        "2 messages that waited for them are given up."
    ]
    assert both["id"] in {job["message_id"] for job in await one.jobs()}


async def test_a_name_that_was_forgotten_begins_anew_on_another_machine(open_room: Open) -> None:
    one, two, three = await fleet_of(open_room, [agent("ALFA")], [agent("BRAVO")], [agent("BRAVO")])
    await one.start()
    await two.start()
    for number in range(3):
        await one.post(f"hello {number}")
    assert (await two.script("stop.sh")).code == 0
    assert (await one.relay("fleet", "forget", "M2")).code == 0
    settings = json.loads(three.path.read_text())
    three.configure({**settings, "fleet": {**settings["fleet"], "name": "M2"}})
    await three.start()
    posted = await one.post("@BRAVO tok-after")
    await one.reply_to(posted["id"], "BRAVO")

    async def alike() -> bool:
        return one.transcript.read_bytes() == three.transcript.read_bytes()

    await eventually(alike, "the new machine's transcript to have every entry")
    assert b"hello 0" in three.transcript.read_bytes()
    assert not [line for line in await said(one) if "was replaced or cut" in line]
    # The old machine has lost its name, and hears where it is.
    two.launch()
    assert two.process is not None
    assert await asyncio.to_thread(two.process.wait, 60) == 1
    assert "called 'M2'" in two.said(), two.said()


async def test_the_same_machine_comes_back_after_it_was_forgotten(open_room: Open) -> None:
    one, two = await fleet_of(open_room, [agent("ALFA")], [agent("BRAVO")])
    await one.start()
    await two.start()
    two.echo("[zed] tok-line")
    await one.until_said("^tok-line$")
    assert (await two.script("stop.sh")).code == 0
    assert (await one.relay("fleet", "forget", "M2")).code == 0
    await one.post("meanwhile")
    await two.start()
    posted = await two.post("@ALFA tok-again")
    await two.reply_to(posted["id"], "ALFA")

    async def has() -> bool:
        ids = [line["id"] for _, line in two.file_lines() if isinstance(line, dict)]
        return ids == [entry["id"] for entry in await two.entries()]

    await eventually(has, "each entry to stand in the file once")
    assert [entry["body"] for entry in await two.entries()].count("tok-line") == 1
    assert not [line for line in await said(one) if "was replaced or cut" in line]


async def test_what_a_killed_member_took_in_before_it_was_forgotten_is_in_the_room_once(
    open_room: Open,
) -> None:
    """Lines by hand stand last in its file: nothing of the room's behind them tells that they were read."""
    one, two = await fleet_of(open_room, [agent("ALFA", "slow.yaml")], [agent("BRAVO", "slow.yaml")])
    for room in (one, two):
        slow(room, 600)
        await room.start()

    async def alike() -> bool:
        if not all(room.transcript.exists() for room in (one, two)):
            return False
        said = [entry["body"] for entry in await one.entries()]
        texts = [
            [line["body"] if isinstance(line, dict) else line for _, line in room.file_lines()]
            for room in (one, two)
        ]
        return texts == [said, said]

    await eventually(alike, "both files to have the room's entries")
    two.echo("[zed] tok-before")
    await one.until_said("^tok-before$")
    two.kill()
    assert two.file_lines()[-1] == ("zed", "tok-before")
    two.echo("[zed] tok-meanwhile")
    await one.until_said(r"^The relay M2 gives no sign of life", speaker="RELAY")
    assert (await one.relay("fleet", "forget", "M2")).code == 0
    await two.start()
    await one.until_said("^tok-meanwhile$")
    two.echo("[zed] tok-after")
    await one.until_said("^tok-after$")
    await eventually(alike, "both files to have the room's entries")
    said_by_hand = [entry["body"] for entry in await one.entries() if entry["speaker"] == "zed"]
    assert said_by_hand == ["tok-before", "tok-meanwhile", "tok-after"]


@contextlib.asynccontextmanager
async def frozen(at: Outside, room: Outside) -> AsyncIterator[None]:
    """M2's daemon stands still until the block ends; the room at `at` has seen it go."""
    assert room.process is not None
    os.kill(room.process.pid, signal.SIGSTOP)
    try:
        await at.until_said(r"^The relay M2 gives no sign of life", speaker="RELAY")
        yield
    finally:
        os.kill(room.process.pid, signal.SIGCONT)


async def test_a_member_that_was_forgotten_while_it_stood_still_joins_anew(open_room: Open) -> None:
    one, two = await fleet_of(open_room, [agent("ALFA")], [agent("BRAVO", "slow.yaml")])
    slow(two, 3)
    await one.start()
    await two.start()
    await one.post("@BRAVO go")

    async def begun() -> bool:
        return "active" in [job["state"] for job in await one.jobs()]

    await eventually(begun, "the turn to begin")
    async with frozen(one, two):
        assert (await one.relay("fleet", "forget", "M2")).code == 0
    await one.until_said(r"^The relay M2 is back\. BRAVO lives there\.", speaker="RELAY")
    assert two.process is not None and two.process.poll() is None
    assert (await members(one))["M2"]["state"] == "live"
    posted = await one.post("@BRAVO again")
    await one.reply_to(posted["id"], "BRAVO")
    assert (await two.script("stop.sh")).code == 0
    told = [line.split(".")[0] for line in await said(one) if line.startswith("The relay M2")]
    gone = next(line for line in told if line.startswith("The relay M2 was forgotten, as "))
    assert gone.endswith(" asked: BRAVO is no agent of this room any more")
    assert told[1:] == [
        "The relay M2 gives no sign of life",
        gone,
        "The relay M2 is back",
        "The relay M2 left the room",
    ]


async def test_a_member_that_was_forgotten_and_whose_agent_lives_elsewhere_by_now_ends_with_that(
    open_room: Open,
) -> None:
    one, two, three = await fleet_of(open_room, [agent("ALFA")], [agent("BRAVO")], [agent("BRAVO")])
    await one.start()
    await two.start()
    async with frozen(one, two):
        assert (await one.relay("fleet", "forget", "M2")).code == 0
        await three.start()
    assert two.process is not None
    assert await asyncio.to_thread(two.process.wait, 60) == 1
    assert "the relay M2 was forgotten, and cannot join again: the agent BRAVO lives at M3" in two.said()
    assert str(three.folder) in two.said()
    assert not [line for line in await said(one) if line.startswith("The relay M2 left")]
