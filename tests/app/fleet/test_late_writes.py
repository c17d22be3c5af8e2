"""What a leader writes late is refused, whatever it is: two members on one database, of which one stood still."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from relay.airspace.advisories import table
from relay.airspace.advisories.rules.forecasts import Forecast
from relay.app.fleet.fleet import Fleet
from relay.app.runtime.instance import InstanceRecord
from relay.config import loading
from relay.config.settings import LiveSettings
from relay.fleet import members, works
from relay.log import events, follow
from relay.log.events import Lane
from relay.memory.episodic.keeping import NewMemory, keep
from relay.memory.experience import Experience
from relay.memory.knowledge.ingest import KnowledgeFollower
from relay.merge.conflicts.conflict import Conflict, Severity, Side
from relay.merge.resolution import findings
from relay.room.advisory_voice import RoomVoice
from relay.room.dispatch.roster import Roster
from relay.room.dispatch.running import RunningTurns
from relay.room.journal import ledger
from relay.store.fence import EPOCH, Fenced
from relay.store.ports import Store, Tx
from relay.verification.landing import journal
from tests import engines
from tests.engines import SCHEMAS, open_store

Write = Callable[[Store], Awaitable[Any]]
NOW = 1_800_000_000.0


def of(work: Callable[..., Awaitable[Any]], *words: Any, **more: Any) -> Write:
    """One transaction with this work in it."""
    return lambda store: store.write(partial(_work, work, words, more))


async def _work(work: Callable[..., Awaitable[Any]], words: Any, more: Any, tx: Tx) -> None:
    await work(tx, *words, **more)


async def _routed(tx: Tx) -> None:
    message, event = await ledger.say(tx, "a message", now=NOW)
    await ledger.queue_jobs(tx, message.id, ["ALFA"], parents=[event.id], now=NOW)


async def _note(tx: Tx) -> None:
    await events.append(tx, events.NewEvent("test", Lane("room", "test")))


async def _single(store: Store) -> None:
    """What everybody else does beside others, as one statement."""
    await store.write(
        lambda tx: events.append(tx, events.NewEvent("test", Lane("room", "test"))), single=True
    )


_CONFLICT = Conflict(
    2, "both_changed", Severity.HIGH, "a.py", None, Side("x = 1\n", "x = 2\n"), Side("x = 1\n", "x = 3\n")
)
#: What a leader writes, by the parts of the daemon that one member runs alone.
WRITES: Mapping[str, Write] = {
    "a notice": of(ledger.say, "a notice", now=NOW),
    "a member is gone": of(members.mark_gone, -60.0),
    "a message is routed": of(_routed),
    "an advisory is said": of(
        RoomVoice(Roster()).say, "an advisory", now=NOW, lane=Lane("room", "advisory:1")
    ),
    "a forecast": of(table.save_forecasts, {}, {("ALFA", "BRAVO"): Forecast(NOW, ("ALFA",), False)}),
    "a notice at an edit": of(table.save_edit_notices, frozenset(), frozenset({("ALFA", "BRAVO", "a.py")})),
    "the picture": of(works.put_picture, {"agents": {}}),
    "a landing entry": of(journal.ask, "ALFA", by="ann"),
    "a memory": of(keep, NewMemory(Experience("decision", "we use tabs"), "ALFA", "one", NOW)),
    "knowledge": lambda store: follow.step(store, KnowledgeFollower()),
    "a finding": of(findings.record, ("ALFA", "BRAVO"), _CONFLICT),
    "an event": of(_note),
    "one statement": _single,
    "kept for certain": lambda store: store.write(_note, durable=True),
}
_STATE = """
SELECT string_agg(name || ' ' || rows, ' ' ORDER BY name) FROM (
  SELECT tablename AS name, md5((xpath('/row/t/text()', query_to_xml(
    format('SELECT string_agg(one::text, '' '' ORDER BY one::text) AS t FROM relay.%I one', tablename),
    true, true, '')))[1]::text) AS rows
  FROM pg_tables WHERE schemaname = 'relay' AND tablename NOT IN ('fleet_leader', 'fleet_members', 'since_crash')
) found
"""


class Place:
    """One of the two: its store, and its fleet, whose signs of life may stop."""

    def __init__(self, store: Store, folder: Path, name: str, port: int) -> None:
        told = {"storage": "postgres", "fleet": {"name": name}, "ui": {"port": port}, "agents": []}
        self.settings = LiveSettings(loading.parse(json.dumps(told), folder / name / "config.json"))
        self.store, self.turns = store, RunningTurns()
        self.fleet = Fleet(store, self.settings, InstanceRecord.own(), self.turns)

    @asynccontextmanager
    async def alive(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.fleet.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def until_it(self, leads: bool) -> None:
        async with asyncio.timeout(60):
            while self.fleet.leads is not leads:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@pytest.fixture
async def places(tmp_path: Path) -> AsyncIterator[tuple[Place, Place]]:
    with engines.on_engine("postgres"):
        stores = [await open_store(tmp_path, SCHEMAS) for _ in range(2)]
        try:
            made = [
                Place(store, tmp_path, name, port)
                for store, name, port in zip(stores, "ab", (1, 2), strict=True)
            ]
            for place in made:
                await place.fleet.join([])
            # For who reads the log there is something to take in.
            await stores[0].write(lambda tx: ledger.say(tx, "DECISION: we use tabs", now=NOW))
            yield made[0], made[1]
        finally:
            for store in stores:
                await store.close()


@pytest.fixture
async def admin(places: object, tmp_path: Path) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(engines.address_of(tmp_path), server_settings={"search_path": "relay"})
    yield connection
    await connection.close()


@pytest.mark.parametrize("checked", [True, False], ids=["checked", "unchecked"])
@pytest.mark.parametrize("what", WRITES)
async def test_what_a_leader_writes_after_another_has_begun_to_lead_is_refused(
    places: tuple[Place, Place], admin: Any, what: str, checked: bool
) -> None:
    """`unchecked`: where the database does not look at the epoch, it is kept, so this test sees what it must."""
    first, second = places
    go, came = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def lead() -> None:
        await go.wait()
        try:
            await WRITES[what](first.store)
        except Fenced as error:
            came.set_result(error)
            raise
        came.set_result(None)

    leading = asyncio.create_task(first.fleet.led(lead)())
    kept = await admin.fetchval("SELECT pg_get_functiondef('relay.relay_fence(bigint)'::regprocedure)")
    try:
        async with first.alive():
            await first.until_it(True)
        # It stands still from here on, and knows no better than that it leads.
        await admin.execute("UPDATE fleet_leader SET until = 0")
        async with second.alive():
            await second.until_it(True)
            if not checked:
                await admin.execute(
                    "CREATE OR REPLACE FUNCTION relay_fence(mine bigint) RETURNS void LANGUAGE sql AS 'SELECT'"
                )
            before = await admin.fetchval(_STATE)
            go.set()
            refused = await asyncio.wait_for(came, 15)
            changed = await admin.fetchval(_STATE) != before
            assert (refused is None, changed) == (not checked, not checked)
            if checked:
                assert not leading.done()  # whoever was refused waits until it leads again
            else:
                await asyncio.wait_for(leading, 15)
    finally:
        await admin.execute(kept)
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)


@pytest.mark.parametrize("what", WRITES)
async def test_what_the_leader_of_now_writes_is_kept(
    places: tuple[Place, Place], admin: Any, what: str
) -> None:
    first, second = places
    async with first.alive():
        await first.until_it(True)
    await admin.execute("UPDATE fleet_leader SET until = 0")
    done = asyncio.Event()

    async def lead() -> None:
        assert EPOCH.get() == 2
        await WRITES[what](second.store)
        done.set()

    async with second.alive():
        leading = asyncio.create_task(second.fleet.led(lead)())
        await asyncio.wait_for(leading, 60)
    assert done.is_set()
