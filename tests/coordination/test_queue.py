from __future__ import annotations

import math
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from relay.config_coordination import CoordinationSettings
from relay.coordination import board as wing
from relay.coordination.board import Board
from relay.coordination.changes import Q, pairs_of
from relay.coordination.projection import rebuild, strays
from relay.coordination.queue import WorkQueue
from relay.coordination.work import RANK_STEP_S
from relay.log import events
from relay.log.events import Lane
from relay.log.sqlite_store import SqliteStore, open_store
from relay.log.store import Tx
from relay.model import Caller, Fault, Rejected
from tests.coordination.standins import Beats, PathLocks

A, A2 = Caller("CLAUDE", "a1", "claude"), Caller("CLAUDE", "a2", "claude")
B, ANN = Caller("CODEX", "b1", "codex"), Caller("ann", "p1", "person", person=True)
START = 1_800_000_000.0


@dataclass
class Desk:
    """The queue over a real store, with a clock that is moved by hand."""

    store: SqliteStore
    clock: list[float]
    beats: Beats
    locks: PathLocks
    work: WorkQueue
    board: Board

    async def submit(self, said: str = "Fix it", *, by: Caller = ANN, **more: Any) -> str:
        return str((await self.work.submit(by, more.pop("task_type", "fix"), said, **more))["task_id"])

    async def move(self, number: int, to: str) -> None:
        lane = Lane("room", "human:ann")
        await self.store.write(lambda tx: self.board.move(tx, number, to, by="ann", lane=lane))

    async def undo(self) -> None:
        lane = Lane("room", "human:ann")
        await self.store.write(lambda tx: self.board.undo(tx, by="ann", lane=lane))

    async def told(self, task_id: str) -> dict[str, Any]:
        return await self.work.task(ANN, task_id)

    async def states(self, *ids: str) -> list[str]:
        return [(await self.told(one))["state"] for one in ids]

    async def log(self) -> list[tuple[str, str, list[int]]]:
        """(change, lane, numbers) of every task event."""
        found = await self.store.read(lambda tx: events.read_after(tx, 0, limit=10_000))
        return [
            (event.outputs["change"], event.lane_key, [task.number for _, task in pairs_of(event)])
            for event in found
            if event.type.startswith("task.")
        ]

    async def whole(self) -> None:
        """The tables are what the log says, and come out the same from it."""

        async def rows(tx: Tx) -> list[list[dict[str, Any]]]:
            asked = (Q.all_tasks, Q.all_changes, Q.all_needs)
            return [sorted((dict(row) for row in await tx.all(one)), key=str) for one in asked]

        assert await self.store.read(strays) == []
        before = await self.store.read(rows)
        await self.store.write(rebuild)
        assert await self.store.read(rows) == before


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    clock = [START]
    store = await open_store(tmp_path / "e.db", [events.FOLDER, wing.FOLDER], clock=lambda: clock[0])
    beats, locks = Beats(), PathLocks()
    work = WorkQueue(store, CoordinationSettings(), sessions=beats, locks=locks)
    made = Desk(store, clock, beats, locks, work, Board(locks=locks))
    yield made
    await made.whole()
    await store.close()


async def refused(doing: Any) -> Rejected:
    with pytest.raises(Rejected) as no:
        await doing
    return no.value


async def test_a_task_goes_from_hand_to_hand_and_is_done_once(desk: Desk) -> None:
    data = {"files": ["ä.py"], "n": [1, None, 2.5]}
    made = await desk.work.submit(ANN, "review", "Look at it\n\nclosely", input_data=data, priority=2)
    assert made == {"success": True, "task_id": str(UUID(made["task_id"])), "number": 1, "status": "pending"}
    given = await desk.work.get(A, ["test", "review"])
    assert given == {
        "success": True, "task_id": made["task_id"], "task_type": "review", "number": 1, "attempt": 1, "priority": 2,
        "task_description": "Look at it\n\nclosely", "input_data": data, "files": [], "fencing_token": 1,
        "lease_until": "2027-01-15T08:30:00.000Z",
    }  # fmt: skip
    shown = await desk.told(made["task_id"])
    assert (shown["title"], shown["status"], shown["assignee"]) == ("Look at it", "in_progress", "CLAUDE")
    nothing = await desk.work.get(B)
    assert (nothing["success"], nothing["task_id"], nothing["why"]["claimed"]) == (True, None, 1)
    done = await desk.work.complete(A, made["task_id"], True, result={"ok": 1}, fencing_token=1)
    assert (done["success"], done["status"], done["unblocked"]) == (True, "completed", [])
    # Any session of the agent may say the same again, however late.
    desk.clock[0] += 90_000
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
    desk.clock[0] += 1
    second = await desk.submit("second", priority=3)
    urgent = await desk.submit("urgent", priority=1)
    order = [urgent, first, second]
    assert [task["task_id"] for task in await desk.work.pending(A)] == [*order, low]
    for one in order:
        assert (await desk.work.get(A))["task_id"] == one
        await desk.work.complete(A, one, True)
    # Nothing starves: nine steps later the last one stands level with a new one that is urgent.
    desk.clock[0] = START + 9 * RANK_STEP_S + 1
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
    assert (await refused(desk.submit(task_id=id_))).code == "task_exists"
    assert len(await desk.log()) == 1
    # A refusal is a heartbeat too.
    assert desk.beats.calls == ["CLAUDE", "CLAUDE", "CLAUDE", "ann"]
