from __future__ import annotations

import asyncio
import math
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from relay.coordination.tasks import task_events as wing
from relay.coordination.tasks.task import RANK_STEP_S
from relay.log import events
from relay.model import Caller, Fault
from relay.store.sqlite.store import open_store
from tests.coordination.desk import A2, ANN, START, A, B, Desk, at, refused
from tests.engines import BOTH, SQLITE

pytestmark = BOTH
#: Seconds after which a test gives up; nothing is that late.
PATIENT_S = 60.0


async def test_a_task_goes_from_hand_to_hand_and_is_done_once(desk: Desk) -> None:
    data = {"files": ["ä.py"], "n": [1, None, 2.5]}
    made = await desk.work.submit(ANN, "review", "Look at it\n\nclosely", input_data=data, priority=2)
    assert made == {"success": True, "task_id": str(UUID(made["task_id"])), "number": 1, "status": "pending"}
    given = await desk.work.get(A, ["test", "review"])
    assert given == {
        "success": True, "task_id": made["task_id"], "task_type": "review", "status": "claimed",
        "number": 1, "attempt": 1, "priority": 2,
        "task_description": "Look at it\n\nclosely", "input_data": data, "files": [], "fencing_token": 1,
        "lease_until": "2027-01-15T08:30:00.000Z",
    }  # fmt: skip
    shown = await desk.told(made["task_id"])
    assert (shown["title"], shown["column"], shown["assignee"]) == ("Look at it", "in_progress", "CLAUDE")
    nothing = await desk.work.get(B)
    assert (nothing["success"], nothing["task_id"], nothing["why"]["claimed"]) == (True, None, 1)
    done = await desk.work.complete(A, made["task_id"], True, result={"ok": 1}, fencing_token=1)
    assert (done["success"], done["status"], done["unblocked"]) == (True, "completed", [])
    # Any session of the agent may say the same again, however late.
    desk.clock.now += 90_000
    again = await desk.work.complete(A2, made["task_id"], True, result={"ok": 1})
    assert (again["status"], again["repeated"]) == ("completed", True)
    for other in ({"result": {"ok": True}}, {}, {"result": {"ok": 1}, "error_message": "but"}):
        no = await refused(desk.work.complete(A, made["task_id"], True, **other))
        assert (no.fault, no.code, no.details["result"]) == (Fault.REFUSED, "already_completed", {"ok": 1})
    assert (await refused(desk.work.complete(A, made["task_id"], False))).code == "already_completed"
    assert (
        await refused(desk.work.complete(B, made["task_id"], True, result={"ok": 1}))
    ).code == "already_completed"
    assert (await desk.told(made["task_id"]))["result"] == {"ok": 1}
    lane = "a1/CLAUDE"
    assert await desk.log() == [("created", "p1/ann", [1]), ("claimed", lane, [1]), ("completed", lane, [1])]


async def test_a_failure_is_final_and_needs_no_message(desk: Desk) -> None:
    one, two = await desk.submit(), await desk.submit()
    await desk.work.get(A)
    await desk.work.get(A)
    assert (await desk.work.complete(A, one, False))["status"] == "failed"
    assert (await desk.work.complete(A, two, False, error_message="no disk"))["status"] == "failed"
    assert (await desk.work.get(A))["task_id"] is None
    assert [(await desk.told(one))["badge"], (await desk.told(two))["error_message"]] == ["failed", "no disk"]


async def test_the_order_is_priority_then_time_and_waiting_counts(desk: Desk) -> None:
    low = await desk.submit("low", priority=10)
    first = await desk.submit("first", priority=3)
    desk.clock.now += 1
    second = await desk.submit("second", priority=3)
    urgent = await desk.submit("urgent", priority=1)
    order = [urgent, first, second]
    assert [task["task_id"] for task in await desk.work.pending(A)] == [*order, low]
    for one in order:
        assert (await desk.work.get(A))["task_id"] == one
        await desk.work.complete(A, one, True)
    # Nothing starves: nine steps later the last one stands level with a new one that is urgent.
    desk.clock.now = START + 9 * RANK_STEP_S + 1
    await desk.submit("new and urgent", priority=1)
    assert (await desk.work.get(B))["task_id"] == low


@pytest.mark.parametrize(
    ("what", "fault", "code"),
    [
        ({"priority": 0}, Fault.MALFORMED, "bad_priority"),
        ({"priority": 11}, Fault.MALFORMED, "bad_priority"),
        ({"priority": True}, Fault.MALFORMED, "bad_priority"),
        ({"priority": 2.5}, Fault.MALFORMED, "bad_priority"),
        ({"task_type": ""}, Fault.MALFORMED, "bad_task_type"),
        ({"task_type": "x" * 65}, Fault.MALFORMED, "bad_task_type"),
        ({"task_type": "a\nb"}, Fault.MALFORMED, "bad_task_type"),
        ({"said": " \n "}, Fault.MALFORMED, "bad_task_description"),
        ({"said": "\x1b\x07"}, Fault.MALFORMED, "bad_task_description"),
        ({"said": "a\0b"}, Fault.MALFORMED, "bad_task_description"),
        ({"said": "\ud800"}, Fault.MALFORMED, "bad_task_description"),
        ({"said": "x" * 16_385}, Fault.MALFORMED, "bad_task_description"),
        ({"input_data": math.nan}, Fault.MALFORMED, "bad_input_data"),
        ({"input_data": ["\ud800"]}, Fault.MALFORMED, "bad_input_data"),
        ({"input_data": "x" * 262_144}, Fault.MALFORMED, "bad_input_data"),
        ({"on_failed": "hope"}, Fault.MALFORMED, "bad_on_failed"),
        ({"max_attempts": 0}, Fault.MALFORMED, "bad_max_attempts"),
        ({"depends_on": "1"}, Fault.MALFORMED, "bad_depends_on"),
        ({"depends_on": ["x"]}, Fault.MALFORMED, "bad_task_id"),
        ({"depends_on": [str(uuid4())]}, Fault.UNKNOWN, "unknown_dependency"),
        ({"depends_on": ["#7"]}, Fault.UNKNOWN, "unknown_dependency"),
        ({"task_id": "7"}, Fault.MALFORMED, "bad_task_id"),
        ({"task_id": "0198f0a0-0000-7000-8000-000000000001",
          "depends_on": ["0198F0A0-0000-7000-8000-000000000001"]}, Fault.REFUSED, "self_dependency"),
    ],
)  # fmt: skip
async def test_what_cannot_be_submitted(desk: Desk, what: dict[str, Any], fault: Fault, code: str) -> None:
    no = await refused(desk.submit(**what))
    assert (no.fault, no.code) == (fault, code)
    assert no.message and no.fix
    assert await desk.log() == []


async def test_a_key_submits_once_and_a_chosen_id_is_one_task(desk: Desk) -> None:
    id_ = str(uuid4())
    asked = {"task_id": id_.upper(), "idempotency_key": "k", "input_data": {"a": 1}}
    first = await desk.work.submit(A, "fix", "Fix it", **asked)
    again = await desk.work.submit(A2, "fix", "Fix it", **asked)
    assert (first["task_id"], again) == (id_, {**first, "repeated": True})
    no = await refused(desk.work.submit(A, "fix", "Fix that", **asked))
    assert (no.fault, no.code) == (Fault.REFUSED, "idempotency_key_reused")
    assert (await refused(desk.submit(task_id=id_, by=B))).code == "task_exists"
    assert len(await desk.log()) == 1
    # A refusal is a heartbeat too.
    sessions = await desk.sessions.list(ANN)
    assert {session["agent_id"] for session in sessions} == {"CLAUDE", "CODEX", "ann"}


@SQLITE
async def test_tokens_go_on_where_a_room_of_before_stood(tmp_path: Path) -> None:
    old = tmp_path / "coordination"
    steps = old / "sqlite" / "migrations"
    steps.mkdir(parents=True)
    shutil.copy(wing.FOLDER / "sqlite" / "migrations" / "0001_work.sql", steps)
    store = await open_store(tmp_path / "events.db", [events.FOLDER, old])
    await store.close()
    with closing(sqlite3.connect(tmp_path / "events.db")) as connection, connection:
        connection.execute(
            "INSERT INTO work_queue (id, number, task_type, task_description, rank, status, fence, created_by, "
            "created_at, updated_at) VALUES ('01', 1, 'task', 'a', 1.0, 'pending', 7, 'ann', 1.0, 1.0)"
        )
    desk = await at(tmp_path)
    assert (await desk.work.get(A))["fencing_token"] == 8
    await desk.store.close()


# -- one that is named, and one that is waited for


async def test_a_named_task_is_claimed_before_those_that_come_first(desk: Desk) -> None:
    first, second = await desk.submit("first"), await desk.submit("second")
    given = await desk.work.get(A, task_id="t2")
    assert (given["task_id"], given["status"], given["number"]) == (second, "claimed", 2)
    # Asked again, it is the same claim.
    again = await desk.work.get(A, task_id=second)
    assert (again["fencing_token"], again["repeated"]) == (given["fencing_token"], True)
    no = await refused(desk.work.get(B, task_id=second))
    assert (no.fault, no.code) == (Fault.REFUSED, "not_claimable")
    assert [one["reason"] for one in no.details["reasons"]] == ["claimed"]
    assert "CLAUDE works on it" in str(no)
    assert (await refused(desk.work.get(B, task_id="#9"))).code == "unknown_task"
    assert (await refused(desk.work.get(B, ["fix"], task_id=first))).code == "bad_task_types"
    await desk.work.complete(A, second, True)
    assert [
        one["reason"] for one in (await refused(desk.work.get(B, task_id=second))).details["reasons"]
    ] == ["finished"]
    assert await desk.states(first) == ["pending"]


async def test_a_named_task_whose_file_is_held_is_refused_with_the_holder(desk: Desk) -> None:
    one = await desk.submit(files=["src/a.py"])
    await desk.locks.acquire(B, ["src/a.py"])
    no = await refused(desk.work.get(A, task_id=one))
    assert [(found["reason"], found["locked_by"]) for found in no.details["reasons"]] == [
        ("files_held", "CODEX")
    ]
    assert await desk.states(one) == ["pending"]


async def waiting(desk: Desk, caller: Caller, **asked: Any) -> asyncio.Task[Any]:
    """A call that waits, and has looked once."""
    heard = asyncio.Event()
    task = asyncio.create_task(desk.work.get(caller, wait_s=300, on_wait=lambda _: heard.set(), **asked))
    async with asyncio.timeout(PATIENT_S):
        await heard.wait()
    return task


async def over_within(task: asyncio.Task[Any]) -> Any:
    async with asyncio.timeout(PATIENT_S):
        return await task


async def test_who_waits_for_work_gets_it_when_it_comes(desk: Desk) -> None:
    waits = await waiting(desk, A, task_types=["fix"])
    await desk.submit("not for it", task_type="review")
    one = await desk.submit("for it")
    assert (await over_within(waits))["task_id"] == one


async def test_a_wait_for_work_ends_with_why_there_is_none(desk: Desk) -> None:
    told = await desk.work.get(A, wait_s=0.05)
    assert (told["success"], told["task_id"], told["why"]["blocked"]) == (True, None, 0)
    for wrong in (-1, 301, math.nan):
        assert (await refused(desk.work.get(A, wait_s=wrong))).code == "bad_wait_seconds"


async def test_who_waits_for_a_named_task_gets_it_when_its_holder_gives_it_up(desk: Desk) -> None:
    one = await desk.submit(files=["src/a.py"])
    await desk.work.get(B)
    waits = await waiting(desk, A, task_id=one)
    await desk.submit("another one, which it does not want")
    await desk.work.release(B, one)
    desk.clock.now += 60  # its back-off
    await desk.submit("a commit, so that it looks")
    assert (await over_within(waits))["task_id"] == one


async def test_a_wait_for_a_named_task_ends_when_it_is_done(desk: Desk) -> None:
    one = await desk.submit()
    await desk.work.get(B)
    waits = await waiting(desk, A, task_id=one)
    await desk.work.complete(B, one, True)
    no = await refused(over_within(waits))
    assert [found["reason"] for found in no.details["reasons"]] == ["finished"]


async def test_who_waits_for_a_held_file_gets_the_task_when_it_is_free(desk: Desk) -> None:
    one = await desk.submit(files=["src/a.py"])
    await desk.locks.acquire(B, ["src/a.py"])
    waits = await waiting(desk, A)
    await desk.locks.release(B, "src/a.py")
    assert (await over_within(waits))["task_id"] == one


async def test_a_wait_writes_nothing_while_others_do_what_is_not_about_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = await waiting(desk, A)
    wrote, write = list[Caller](), desk.store.write

    async def counted(work: Any, **more: Any) -> Any:
        if more.get("actor") == A:
            wrote.append(A)
        return await write(work, **more)

    monkeypatch.setattr(desk.store, "write", counted)
    for n in range(20):
        await desk.locks.acquire(B, [f"src/{n}.py"])
        await asyncio.sleep(0.03)
    assert wrote == []
    one = await desk.submit()
    assert (await over_within(waits))["task_id"] == one
    assert len(wrote) <= 1  # PostgreSQL claims in one statement of its own


async def test_who_stops_waiting_is_given_nothing(desk: Desk) -> None:
    waits = await waiting(desk, A)
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    one = await desk.submit()
    assert (await desk.told(one))["status"] == "pending"
    assert (await desk.work.get(B))["task_id"] == one


async def test_a_claim_that_nobody_hears_of_is_undone_without_an_attempt(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await desk.submit(files=["src/a.py"])
    wrote, go_on, write = asyncio.Event(), asyncio.Event(), desk.store.write

    async def slow(work: Any, **more: Any) -> Any:
        done = await write(work, **more)
        wrote.set()
        await go_on.wait()
        return done

    monkeypatch.setattr(desk.store, "write", slow)
    asks = asyncio.create_task(desk.work.get(A, wait_s=300))
    async with asyncio.timeout(PATIENT_S):
        await wrote.wait()
    asks.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await asks
    monkeypatch.undo()
    told = await desk.told(one)
    assert (told["status"], told["attempt"], told["not_before"]) == ("pending", 1, None)
    assert await desk.locks.check(ANN) == []
    assert (await desk.work.get(B))["task_id"] == one
    await desk.whole()


async def test_a_session_that_is_ended_while_it_waits_gets_nothing(desk: Desk) -> None:
    waits = await waiting(desk, A)
    await desk.sessions.end(A, reason="a person ended it", by="ann")
    assert (await refused(over_within(waits))).code == "session_ended"
    one = await desk.submit()
    assert await desk.states(one) == ["pending"]


# -- the list


async def test_the_tasks_are_listed_by_what_they_are(desk: Desk) -> None:
    for n in range(3):
        await desk.submit(f"fix {n}")
    review = await desk.submit("look", task_type="review", depends_on=["#1"])
    await desk.work.get(A)
    listed = desk.work.list

    async def shown(**asked: Any) -> list[int]:
        return [task["number"] for task in (await listed(B, **asked))["tasks"]]

    assert await shown() == [1, 2, 3, 4]
    assert await shown(status="pending") == [2, 3]
    assert await shown(status="blocked") == [4]
    assert await shown(status="claimed") == await shown(assignee="claude") == [1]
    assert await shown(task_type="review") == [4]
    assert await shown(status="open") == [1, 2, 3, 4]
    assert await shown(status="done") == []
    await desk.work.complete(A, "#1", True)
    assert await shown(status="completed") == await shown(status="done") == [1]
    assert await shown(status="open") == [2, 3, 4]
    page = await listed(B, limit=2)
    assert ([task["number"] for task in page["tasks"]], page["next"]) == ([1, 2], "2")
    page = await listed(B, limit=2, cursor=page["next"])
    assert ([task["number"] for task in page["tasks"]], page["next"]) == ([3, 4], None)
    assert page["tasks"][1]["task_id"] == review
    no = await refused(listed(B, status="lost"))
    assert (no.fault, no.code) == (Fault.MALFORMED, "bad_status")


async def test_the_list_shows_a_claim_that_is_over_as_what_it_is(desk: Desk) -> None:
    await desk.submit()
    await desk.work.get(A)
    desk.clock.now += 90_000
    assert [(t["number"], t["status"]) for t in (await desk.work.list(B))["tasks"]] == [(1, "pending")]
    assert (await desk.work.list(B, status="claimed"))["tasks"] == []
    assert [t["number"] for t in (await desk.work.list(B, status="pending"))["tasks"]] == [1]
