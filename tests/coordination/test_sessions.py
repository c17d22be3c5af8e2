from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest

from relay.config.coordination import CoordinationSettings
from relay.coordination.locks.table import RELEASED
from relay.coordination.sessions import ENDED, STARTED
from relay.model import Caller, Refusal
from relay.store.ports import Tx
from tests.coordination.conftest import Room
from tests.engines import BOTH, SQLITE

pytestmark = BOTH

LEASE = CoordinationSettings().session_lease_s
PROCESS = CoordinationSettings().process_lease_s


async def shown(room: Room, *, all: bool = False) -> dict[str, bool]:
    return {one["session_id"]: one["alive"] for one in await room.sessions.list(room.person, all=all)}


async def test_a_session_begins_with_its_first_call_and_lives_by_its_calls(room: Room) -> None:
    await room.locks.check(room.ann)
    await room.locks.acquire(room.ann, ["a"], ttl_s=60)
    started = await room.told(STARTED)
    assert [(e.lane_key, e.outputs["session"]["kind"]) for e in started] == [("s1/ann", "given")]
    for _ in range(3):
        room.clock.now += LEASE - 1
        await room.sessions.touch(room.ann)
    assert (await shown(room))["s1"]
    room.clock.now += LEASE
    assert "s1" not in await shown(room)
    assert (await shown(room, all=True))["s1"] is False
    assert [e.session for e in await room.told(STARTED)].count("s1") == 1


async def test_a_call_a_moment_later_writes_nothing(room: Room) -> None:
    await room.sessions.touch(room.ann)

    async def changes(tx: Tx) -> float:
        return (await room.heartbeat.touch(tx, room.ann)).heartbeat_at

    first = room.clock.now
    room.clock.now += 4.9
    assert await room.store.write(changes) == first
    room.clock.now += 0.1
    assert await room.store.write(changes) == room.clock.now
    room.clock.now -= 3600  # a clock that is set back
    assert await room.store.write(changes) == room.clock.now


async def test_a_named_session_lives_as_long_as_it_was_promised_a_lock(room: Room) -> None:
    await room.locks.acquire(room.ann, ["a"], ttl_s=8 * 3600)
    room.clock.now += 8 * 3600 - 1
    assert [lock["locked_by"] for lock in await room.locks.check(room.bob)] == ["ann"]
    room.clock.now += 1
    assert await room.locks.check(room.bob) == []


async def test_a_process_that_died_holds_nothing_though_its_lease_lies_ahead(room: Room) -> None:
    mine = await room.locks.acquire(room.process, ["a", "src/**"], ttl_s=3600)
    room.clock.now += PROCESS - 1
    assert (await room.locks.acquire(room.bob, ["a"]))["locked_by"] == "dot"
    room.clock.now += 1
    assert await room.locks.check(room.bob) == []
    assert (await room.locks.acquire(room.bob, ["a"]))["success"]
    swept = await room.sessions.sweep()
    assert [(one["agent_id"], one["end_reason"], one["alive"]) for one in swept] == [("dot", "lease", False)]
    assert await room.sessions.sweep() == []
    ended = await room.told(ENDED)
    assert [(e.outputs["session"]["session_id"], e.outputs["reason"]) for e in ended] == [("p1", "lease")]
    assert ended[0].session == "room"
    # It wakes up: started anew, and what it held stays lost, also where nobody took it.
    late = await room.locks.acquire(room.process, ["a"])
    assert (late["success"], late["locked_by"]) == (False, "bob")
    for path in ("a", "src/**"):
        with pytest.raises(Refusal) as told:
            await room.locks.release(room.process, path)
        assert told.value.code == "stale_token"
    assert [lock["locked_by"] for lock in await room.locks.check(room.bob)] == ["bob"]
    again = await room.locks.acquire(room.process, ["src/**"])
    assert again["action"] == "acquired" and again["fencing_token"] > mine["locks"][1]["fencing_token"]
    assert len(await room.told(STARTED)) == 3


async def test_one_that_wakes_before_the_sweep_is_ended_and_started(room: Room) -> None:
    await room.locks.acquire(room.process, ["a"], ttl_s=3600)
    room.clock.now += PROCESS
    await room.sessions.touch(room.process)
    assert await room.locks.check(room.bob) == []
    about = [(e.type, e.outputs["session"]["session_id"]) for e in await room.told(STARTED, ENDED)]
    assert about[:3] == [(STARTED, "p1"), (ENDED, "p1"), (STARTED, "p1")]
    assert await room.sessions.sweep() == []


async def test_the_end_gives_back_all_at_once_and_visibly(room: Room) -> None:
    await room.locks.acquire(room.ann, ["a", "b"])
    await room.locks.acquire(room.ann2, ["c"])
    assert await room.sessions.end(room.ann, reason="finished") == {"success": True, "ended": True}
    assert [lock["file_path"] for lock in await room.locks.check(room.bob)] == ["c"]
    freed = await room.told(RELEASED)
    assert [(e.outputs["lock"]["file_path"], e.outputs["reason"]) for e in freed] == [
        ("a", "finished"),
        ("b", "finished"),
    ]
    assert await room.sessions.end(room.ann) == {"success": True, "ended": False}
    assert await room.sessions.end(room.cid) == {"success": True, "ended": False}
    told = (await room.told(ENDED))[0]
    assert (told.lane_key, told.outputs["reason"]) == ("s1/ann", "finished")
    # A call after the end is a new session: nothing is left of the old one, not even a stale mark.
    with pytest.raises(Refusal) as unheld:
        await room.locks.release(room.ann, "a")
    assert unheld.value.code == "not_held"
    assert (await shown(room))["s1"]


async def test_the_list_tells_what_each_holds(room: Room) -> None:
    await room.locks.acquire(room.ann, ["a", "b"], ttl_s=10)
    await room.locks.acquire(room.ann, ["c"])
    room.clock.now += 10
    await room.locks.acquire(room.process, ["d"])
    told = {one["session_id"]: one for one in await room.sessions.list(room.person)}
    assert (told["s1"]["locks"], told["p1"]["locks"], told["page"]["locks"]) == (1, 1, 0)
    assert (told["s1"]["claims"], told["p1"]["kind"], told["page"]["agent_type"]) == (0, "process", "human")


@SQLITE
async def test_a_claim_lives_by_the_calls_of_its_session(room: Room) -> None:
    """The rows of work_queue as the work queue writes them: its leases are the heartbeat's."""
    await room.sessions.touch(room.ann)
    wanted = room.locks.stored_targets(["a"])

    def claim(connection: sqlite3.Connection, by: Caller, lease_s: float) -> None:
        connection.execute(
            "INSERT INTO work_queue (id, number, task_type, task_description, rank, status, claimed_by,"
            " claimed_session, lease_until, lease_s, created_by, created_at, updated_at, files) VALUES"
            " (?, (SELECT COUNT(*) FROM work_queue), 'x', 'x', 0, 'claimed', ?, ?, ?, ?, 'eve', 0, 0, '[\"a\"]')",
            (f"t{by.session}", by.agent, by.session, room.clock.now + lease_s, lease_s),
        )

    async def leases() -> dict[str, float]:
        rows = await room.store._reader.execute_fetchall(
            "SELECT claimed_session, lease_until FROM work_queue"
        )
        return {row[0]: row[1] for row in rows}

    await room.store._writer._execute(claim, room.store._writer._conn, room.ann, 60.0)
    await room.store._writer._execute(claim, room.store._writer._conn, room.bob, 60.0)
    began = room.clock.now
    await room.store.write(
        lambda tx: room.locks.acquire_in(tx, room.ann, wanted, ttl_s=60, task_id="ts1", reason="claim")
    )
    room.clock.now += 50
    await room.locks.check(room.ann)
    assert await leases() == {"s1": room.clock.now + 60, "s3": began + 60}
    room.clock.now += 50
    assert [lock["file_path"] for lock in await room.locks.check(room.bob)] == ["a"], "its lock lives with it"
    await room.locks.check(room.ann)
    assert (await leases())["s1"] == room.clock.now + 60
    room.clock.now += 60
    await room.locks.check(room.ann)
    assert (await leases())["s1"] == room.clock.now, "too late: its time is over"
    # A session that died and wakes has lost its claims, even where their own lease lies ahead.
    dot = replace(room.process, session="p9")
    await room.sessions.touch(dot)
    await room.store._writer._execute(claim, room.store._writer._conn, dot, 3600.0)
    room.clock.now += PROCESS + 5
    died = room.clock.now - 5
    await room.sessions.touch(dot)
    assert (await leases())["p9"] == died
