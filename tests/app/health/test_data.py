"""What the check says of the database and of what is in it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from relay.app.health.check import examine
from relay.app.health.context import Status
from relay.log import events, verify
from relay.log.events import Lane, NewEvent
from relay.memory.episodic.keeping import NewMemory, keep
from relay.memory.experience import Experience
from relay.room.journal import ledger
from relay.store.ports import Store, Tx
from tests import engines
from tests.app.health.conftest import Room, change, failed
from tests.engines import BOTH

ROOM = Path(__file__).parents[3]


@BOTH
async def test_a_damaged_event_is_named(room: Room) -> None:
    await room.fill()
    async with room.store() as store:
        event = (await engines.all_events(store))[1]
    change(room, "UPDATE events SET outputs = replace(outputs, 'a', 'b') WHERE pos = $1", event.pos)
    check = (await room.look())["log"]
    assert check.status is Status.FAILED
    assert event.id[:12] in check.detail


@BOTH
async def test_the_newest_events_are_verified_on_what_lies_before(room: Room) -> None:
    """Causes and lanes' heads before the first event that is looked at are found, unless they are gone."""
    async with room.store() as store:
        await _some_events(store)
        for after in (11, 8, 5, 0):
            assert await verify.verify(store, after=after, batch=2) == [], after
        change(room, "UPDATE events SET inputs = '99' WHERE pos = 10")
        assert [fault.pos for fault in await verify.verify(store, after=8)] == [10]
        assert await verify.verify(store, after=10) == []
        change(room, "DELETE FROM events WHERE pos = 6")
        assert {fault.pos for fault in await verify.verify(store, after=7)} >= {9}


@BOTH
async def test_a_long_log_is_verified_without_all_its_ids_in_memory(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was forgotten is looked for again: before the event, and in the order of its lane."""
    monkeypatch.setattr(verify, "MOST_KNOWN", 3)
    async with room.store() as store:
        await _some_events(store)
        assert await verify.verify(store, batch=2) == []
        change(room, "DELETE FROM events WHERE pos = 6")
        faults = {fault.pos: fault.what for fault in await verify.verify(store, batch=2)}
        assert faults.pop(9) == "its lane jumps from 1 to 3"
        assert set(faults) == {11, 12} and faults[12].endswith("is missing")
        if store.engine == "postgres":
            return  # its places cannot be changed
        # A cause that comes later is none.
        change(room, "UPDATE events SET pos = 20 WHERE pos = 1")
        assert {2, 4} <= {fault.pos for fault in await verify.verify(store, batch=2)}


async def _some_events(store: Store) -> None:
    """Twelve events on three lanes, each with an earlier one as its cause."""
    made: list[str] = []
    for number in range(12):
        lane = Lane("room", f"lane-{number % 3}")
        parents = [made[number // 2]] if number else []
        new = NewEvent(type="note", lane=lane, parents=parents, inputs=number)
        made.append((await store.write(lambda tx, new=new: events.append(tx, new))).id)  # type: ignore[misc]


@BOTH
@pytest.mark.parametrize(
    ("statement", "why", "status"),
    [
        ("UPDATE schema_migrations SET sha256 = 'x' WHERE wing = 'room'", "was edited", Status.FAILED),
        (
            "UPDATE schema_migrations SET version = 99 WHERE wing = 'log' AND version = 1",
            "newer relay",
            Status.FAILED,
        ),
        ("DELETE FROM schema_migrations WHERE wing = 'coordination'", "at version 0 of", Status.WARNING),
    ],
)
async def test_tables_of_another_relay(room: Room, statement: str, why: str, status: Status) -> None:
    await room.fill()
    change(room, statement)
    check = (await room.look())["database"]
    assert (check.status, why in check.detail) == (status, True), check.detail


@BOTH
async def test_a_missing_table_is_a_failure_and_no_crash(room: Room) -> None:
    await room.fill()
    change(room, "DROP TABLE dispatch_queue")
    checks = await room.look(repair=True)
    assert set(failed(checks)) == {"daemon", "queue"}
    assert "dispatch_queue" in checks["queue"].detail
    assert "queue" in checks["repair"].detail


@BOTH
@pytest.mark.parametrize("there", [True, False])
async def test_dead_jobs_and_open_circuits_of_agents_that_are_there_are_warnings(
    tmp_path: Path, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("CLAUDE", "CODEX", "GEMINI") if there else ()
    engine = engines.configure(tmp_path / ".relay", monkeypatch)
    room = Room(tmp_path, agents=[{"name": name, "cmd": [sys.executable]} for name in names], **engine)
    await room.fill()
    job = await room.claim(at=time.time())

    async def work(tx: Tx) -> None:
        rows = await tx.all(ledger.Q.active_jobs)
        await ledger.change_job(tx, ledger.Job.of_row(rows[0]), ledger.JobState.DEAD, now=time.time())
        await tx.execute(
            ledger.Q.put_breaker, agent="CODEX", state="open", failures=3, opened_at=1.0, parked_until=None
        )
        await tx.execute(
            ledger.Q.put_breaker,
            agent="GEMINI",
            state="closed",
            failures=0,
            opened_at=None,
            parked_until=time.time() + 600,
        )
        await tx.execute(events.Q.park_event, follower="air", event_id="abc", error="it broke", at="now")

    async with room.store() as store:
        await store.write(work)
    async with room.daemon():
        report = await examine(str(room.config))
    checks = {check.name: check for check in report.checks}
    assert report.ok
    assert "air skipped abc: it broke" in checks["followers"].detail
    if not there:
        # Nobody waits for an agent that is not in the room any more.
        assert checks["queue"].status is checks["breakers"].status is Status.OK
        return
    assert checks["queue"].status is checks["breakers"].status is checks["followers"].status is Status.WARNING
    assert f"/retry j{job}" in checks["queue"].fix
    assert "CODEX's circuit is open after 3" in checks["breakers"].detail
    assert "GEMINI is rate limited until" in checks["breakers"].detail


@BOTH
async def test_a_memory_that_no_question_finds_is_counted(room: Room) -> None:
    async with room.store() as store:
        for text in ("never mock the clock", "use tabs"):
            new = NewMemory(Experience("lesson", text), "ann", "room", 1.0)
            await store.write(lambda tx, new=new: keep(tx, new))  # type: ignore[misc]
    check = (await room.look())["memory"]
    assert (check.status, check.detail) == (Status.OK, "each of 2 memories is in the index")
    change(room, "INSERT INTO memory_unindexed (number) VALUES (1)")
    check = (await room.look())["memory"]
    assert (check.status, check.detail) == (Status.WARNING, "1 of 2 memories wait to be indexed")
    change(room, "DELETE FROM memory_unindexed")
    change(room, "DELETE FROM memory_episodic_words WHERE number = 2")
    check = (await room.look())["memory"]
    assert check.status is Status.FAILED and "1 of 2 memories are in no index" in check.detail
    assert "memory rebuild" in check.fix
