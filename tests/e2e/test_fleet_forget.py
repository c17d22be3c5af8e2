"""A member of a fleet is forgotten: what it leaves behind, and what comes after it."""

from __future__ import annotations

from pathlib import Path

import asyncpg

from tests.e2e.conftest import Open
from tests.e2e.test_fleet import said
from tests.e2e.test_fleet_landing import changed, members_of
from tests.outside import Outside, eventually


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
    await one.until_said(
        r"^The relay M2 is forgotten\. It had begun to take back .* what BRAVO did: that is given up",
        speaker="RELAY",
    )
    assert len([line for line in await said(one) if "is given up" in line]) == 1
