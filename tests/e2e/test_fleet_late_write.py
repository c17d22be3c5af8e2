"""A leader that stood still writes nothing late: the database refuses it, while another leads."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import asyncpg

from relay.store.postgres.connections import SCHEMA
from relay.store.postgres.store import ROOM_LOCK
from tests.e2e.conftest import Open
from tests.e2e.test_fleet import fleet_of, leads
from tests.outside import agent, eventually


async def test_what_a_leader_wrote_while_it_stood_still_is_refused_when_it_comes(open_room: Open) -> None:
    """It is stopped as it is about to write, another leads, and only then does its write come to the database."""
    one, two = await fleet_of(open_room, [agent("ALFA")], [agent("BRAVO")])
    for room in (one, two):
        await room.start()
    assert await leads(one, "M1")
    admin = await asyncpg.connect(one.env["RELAY_POSTGRES_DSN"], server_settings={"search_path": "relay"})

    async def about_to_write() -> int | None:
        late = "query LIKE '%relay_fence(%' AND wait_event = 'advisory' AND pid <> pg_backend_pid()"
        found = await admin.fetchval(f"SELECT pid FROM pg_stat_activity WHERE {late} LIMIT 1")
        return None if found is None else int(found)

    async def held() -> int | None:
        """Whoever writes waits now; which process of the server waits for the leader. Of what is said the leader
        makes much: it routes, and remembers."""
        await two.post("@BRAVO we use tabs here")
        await admin.execute(f"BEGIN; SELECT pg_advisory_xact_lock({ROOM_LOCK}, hashtext('{SCHEMA}'))")
        with suppress(AssertionError):
            return int(await eventually(about_to_write, "the leader to be about to write", within_s=2))
        await admin.execute("COMMIT")
        return None

    assert one.process is not None
    try:
        pid: int = await eventually(held, "the leader to be about to write")
        os.kill(one.process.pid, signal.SIGSTOP)

        async def led() -> bool:
            return bool(await admin.fetchval("SELECT member = 'M2' FROM fleet_leader"))

        await eventually(led, "another member to lead")
        await admin.execute("COMMIT")

        async def state() -> str | None:
            seen = await admin.fetchval("SELECT state FROM pg_stat_activity WHERE pid = $1", pid)
            return None if seen == "active" else str(seen)

        assert await eventually(state, "the late write to be answered") == "idle in transaction (aborted)"
        # Nobody waits for it: the leader of now goes on while the old one stands still.
        await two.until_said(r"^The relay M1 gives no sign of life", speaker="RELAY")
    finally:
        os.kill(one.process.pid, signal.SIGCONT)
        await admin.close()
    await two.until_said(r"^The relay M1 is back", speaker="RELAY")
    posted = await one.post("@BRAVO hello")
    await one.reply_to(posted["id"], "BRAVO")
    assert await leads(two, "M2")
