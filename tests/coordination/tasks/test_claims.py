from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from relay.coordination.tasks.task_events import Q
from relay.model import Caller, Fault
from tests import engines
from tests.coordination.desk import A2, ANN, A, B, Desk, refused
from tests.engines import BOTH

pytestmark = BOTH

LEASE_S = 1800.0
DEAD = Caller("GEMINI", "p9", "gemini", process=True)


async def test_a_lost_lease_is_taken_back_and_fences_who_had_it(desk: Desk) -> None:
    task = await desk.submit()
    first = await desk.work.get(A, lease_s=60)
    desk.clock.now += 60
    # It waits from the loss on, however late somebody looks: 5 s, then twice as long each time.
    assert (await desk.work.get(B))["why"]["next_at"] == "2027-01-15T08:01:05.000Z"
    told = await desk.told(task)
    assert (told["status"], told["attempts"], told["note"]) == (
        "pending", 1, "Attempt 1 ended: the lease ran out of CLAUDE.",
    )  # fmt: skip
    desk.clock.now += 5
    second = await desk.work.get(B, lease_s=60)
    assert (second["task_id"], second["attempt"]) == (task, 2)
    assert second["fencing_token"] > first["fencing_token"]
    for token in (first["fencing_token"], None, second["fencing_token"]):
        no = await refused(desk.work.complete(A, task, True, fencing_token=token))
        assert (no.fault, no.code, no.details["claimed_by"]) == (Fault.REFUSED, "stale_token", "CODEX")
    desk.clock.now += 60
    # Nobody has looked yet, and it is lost all the same.
    assert (await refused(desk.work.complete(B, task, True))).code == "stale_token"
    assert (await refused(desk.work.renew(B, task))).code == "stale_token"
    assert (await refused(desk.work.release(B, task))).code == "stale_token"
    desk.clock.now += 10
    assert (await desk.work.get(A2, lease_s=60))["attempt"] == 3
    desk.clock.now += 60
    assert [one["badge"] for one in await desk.work.take_back()] == ["dead"]
    assert (await desk.told(task))["note"] == "Given up after 3 attempts: the lease ran out of CLAUDE."
    assert (await refused(desk.work.complete(A2, task, True))).code == "stale_token"
    assert (await refused(desk.work.complete(Caller("X", "x"), task, True))).code == "not_yours"
    # A person opens it again: one attempt more, under a new token.
    assert (await desk.work.reopen(ANN, task)) == {
        "success": True, "task_id": task, "status": "pending", "attempt": 4,
    }  # fmt: skip
    assert (await desk.work.get(A2))["attempt"] == 4
    assert (await desk.work.complete(A2, task, True))["status"] == "completed"
    changes = [(change, lane.split(":")[0]) for change, lane, _ in await desk.log()]
    assert changes == [
        ("created", "p1/ann"), ("claimed", "a1/CLAUDE"), ("recovered", "room/work"), ("claimed", "b1/CODEX"),
        ("recovered", "room/work"), ("claimed", "a2/CLAUDE"), ("dead", "room/work"), ("moved", "p1/ann"),
        ("claimed", "a2/CLAUDE"), ("completed", "a2/CLAUDE"),
    ]  # fmt: skip


async def test_a_call_of_the_session_keeps_its_claims(desk: Desk) -> None:
    task = await desk.submit(files=["a.py"])
    await desk.work.get(A)
    for _ in range(3):
        desk.clock.now += LEASE_S - 60
        await desk.locks.check(A)
    assert await desk.work.take_back() == []
    [lock] = await desk.locks.check(B)
    assert lock["expires_at"] == (await desk.told(task))["lease_until"] == "2027-01-15T09:57:00.000Z"
    assert (await desk.work.complete(A, task, True))["status"] == "completed"


async def test_a_lease_can_be_made_longer_and_never_shorter(desk: Desk) -> None:
    task = await desk.submit(files=["a.py"])
    await desk.work.get(A, lease_s=60)
    renewed = await desk.work.renew(A, task, lease_s=7200)
    assert renewed["lease_until"] == "2027-01-15T10:00:00.000Z"
    assert (await desk.work.renew(A, f"#{1}", lease_s=1))["lease_until"] == renewed["lease_until"]
    assert [lock["expires_at"] for lock in await desk.locks.check(B)] == [renewed["lease_until"]]
    desk.clock.now += 7199
    assert await desk.work.take_back() == []
    no = await refused(desk.work.renew(B, task))
    assert (no.code, no.details["claimed_by"]) == ("not_yours", "CLAUDE")
    for lease in (0.5, 28_801, float("nan")):
        assert (await refused(desk.work.renew(A, task, lease_s=lease))).fault is Fault.MALFORMED


async def test_a_dead_session_loses_its_claims_and_only_its_own(desk: Desk) -> None:
    tasks = [await desk.submit() for _ in range(3)]
    for who in (DEAD, A, A2):
        await desk.work.get(who)
    desk.clock.now += 90  # no sign of life of the process for so long
    [gone] = await desk.work.take_back()
    assert (gone["id"], gone["note"]) == (tasks[0], "Attempt 1 ended: the session ended of GEMINI.")
    assert (await refused(desk.work.complete(DEAD, tasks[0], True))).code == "stale_token"
    # A clean end gives back at once.
    await desk.sessions.end(A, reason="done")
    assert (await desk.told(tasks[1]))["note"] == "Attempt 1 ended: the session of CLAUDE ended: done."
    assert await desk.states(*tasks) == ["pending", "pending", "claimed"]
    # As a release by hand does: an attempt, and a while until the next.
    released = await desk.work.release(A2, tasks[2], reason="done")
    assert released["next_at"] == (await desk.told(tasks[1]))["not_before"]
    assert [(await desk.told(one))["attempts"] for one in tasks[1:]] == [1, 1]


async def test_a_claim_of_a_dead_session_reads_as_it_can_be_claimed(desk: Desk) -> None:
    for said, most in (("again", 3), ("last", 1)):
        await desk.submit(said, max_attempts=most, files=[said])
        await desk.work.get(DEAD)
    lost = "Attempt 1 ended: the session ended of GEMINI."
    desk.clock.now += 89

    async def shown() -> list[tuple[Any, ...]]:
        tasks = await desk.store.read(desk.board.list)
        return [(one.number, str(one.status), one.claimed_by, one.lease_until is None) for one in tasks]

    assert await shown() == [(1, "claimed", "GEMINI", False), (2, "claimed", "GEMINI", False)]
    # The claims' own leases lie ahead, and nobody took them back: a reader is told what the next one would get.
    desk.clock.now += 1
    assert await shown() == [(1, "pending", None, True), (2, "dead", None, True)]
    told = await desk.work.task(A, "#1")
    assert (told["status"], told["assignee"], told["note"]) == ("pending", None, lost)
    assert (told["attempt"], told["not_before"]) == (2, "2027-01-15T08:01:35.000Z")
    story = await desk.store.read(lambda tx: desk.board.story(tx, 2))
    assert (story["badge"], story["history"][-1]["change"]) == ("dead", "claimed")
    assert [one.status for one in await desk.store.read(lambda tx: desk.board.among(tx, [told["id"]]))] == [
        "pending"
    ]
    no = await refused(desk.work.complete(B, "#1", True))
    assert (no.code, no.details["lease_over"]) == ("not_yours", True)
    assert no.details["lease_until"] == "2027-01-15T08:01:30.000Z" and "works on it" not in no.message
    changes = [change for change, _, _ in await desk.log()]
    assert changes == ["created", "claimed"] * 2, "nothing was written"
    # And a person's change begins with it.
    await desk.move(1, "in_progress")
    assert await shown() == [(1, "claimed", "ann", True), (2, "dead", None, True)]
    assert (await desk.work.explain(B, "#2"))["reasons"][0]["status"] == "dead"
    assert (await desk.told("#1"))["attempts"] == 1


async def test_what_a_session_held_stays_lost_when_it_comes_back(desk: Desk) -> None:
    task = await desk.submit()
    await desk.work.get(DEAD)
    desk.clock.now += 100
    await desk.locks.check(DEAD)
    assert (await refused(desk.work.complete(DEAD, task, True))).code == "stale_token"
    assert (await desk.work.get(B))["task_id"] == task


async def test_given_back_is_an_attempt(desk: Desk) -> None:
    task = await desk.submit(max_attempts=2)
    await desk.work.get(A)
    assert (await refused(desk.work.release(B, task))).code == "not_yours"
    back = await desk.work.release(A, task, reason="no disk")
    assert (back["status"], back["next_at"]) == ("pending", "2027-01-15T08:00:05.000Z")
    assert (await desk.told(task))["note"] == "Attempt 1 ended: CLAUDE gave it back: no disk."
    assert (await desk.work.get(B))["why"]["backing_off"] == 1
    assert (await refused(desk.work.release(A, task))).code == "stale_token"
    desk.clock.now += 5
    await desk.work.get(A)
    assert (await desk.work.release(A, task))["status"] == "dead"
    assert [(await desk.told(task))[name] for name in ("badge", "status", "column")] == [
        "dead",
        "dead",
        "done",
    ]
    # A person who moves it gives it free at once, without a wait.
    await desk.move(1, "pending")
    assert (await desk.work.get(B))["attempt"] == 3


async def test_a_claim_takes_its_files_or_passes_the_task_over(desk: Desk) -> None:
    held = await desk.submit("held", files=["src/a.py", "src/b.py"], priority=1)
    free = await desk.submit("free", files=["docs"])
    await desk.locks.acquire(B, ["src/b.py"])
    assert (await desk.work.get(A))["task_id"] == free
    assert {lock["file_path"] for lock in await desk.locks.check(A)} == {"docs", "src/b.py"}
    nothing = await desk.work.get(A)
    [why] = nothing["why"]["files_held"]
    assert (nothing["task_id"], why["number"], why["file_path"], why["locked_by"]) == (
        None,
        1,
        "src/b.py",
        "CODEX",
    )
    [reason] = (await desk.work.explain(A, held))["reasons"]
    assert (reason["reason"], reason["locked_by"]) == ("files_held", "CODEX")
    assert (await desk.work.get(B))["task_id"] == held
    assert {lock["file_path"] for lock in await desk.locks.check(A, ["src"])} == {"src/a.py", "src/b.py"}
    # What the session held before stays when the claim ends; what a person ends gives its locks back too.
    await desk.work.complete(B, held, False)
    assert {lock["file_path"] for lock in await desk.locks.check(A)} == {"docs", "src/b.py"}
    await desk.move(2, "done")
    assert {lock["file_path"] for lock in await desk.locks.check(A)} == {"src/b.py"}
    assert (await refused(desk.submit(files=["../x"]))).fault is Fault.MALFORMED


async def test_only_so_many_are_told(desk: Desk) -> None:
    await desk.locks.acquire(B, ["src"])
    for number in range(21):
        await desk.submit(files=[f"src/{number}"])
    nothing = await desk.work.get(A)
    assert (nothing["task_id"], len(nothing["why"]["files_held"])) == (None, 20)
    beyond = await desk.submit("beyond")
    assert (await desk.work.get(A))["task_id"] == beyond
    assert (await desk.work.get(B, ["fix"]))["number"] == 1
    await desk.locks.release(B, "src")
    assert (await desk.work.get(A))["number"] == 2


async def test_a_person_overrules(desk: Desk) -> None:
    task = await desk.submit()
    given = await desk.work.get(A)
    await desk.move(1, "pending")
    no = await refused(desk.work.complete(A, task, True, fencing_token=given["fencing_token"]))
    assert (no.code, no.details["status"]) == ("stale_token", "pending")
    # Their own claim has no lease, and is ended by them alone.
    await desk.move(1, "in_progress")
    desk.clock.now += 1_000_000
    assert (await desk.work.get(B))["task_id"] is None
    assert (await refused(desk.work.complete(B, task, True))).code == "not_yours"
    assert (await desk.work.complete(ANN, task, True, result="by hand"))["status"] == "completed"
    assert (await refused(desk.work.reopen(A, task))).fault is Fault.FORBIDDEN
    assert (await desk.work.reopen(ANN, task))["attempt"] == 2
    assert (await refused(desk.work.reopen(ANN, task))).code == "not_finished"
    assert (await desk.told(task))["result"] is None
    # What is taken off the board is nobody's, also when it comes back.
    await desk.work.get(A)
    await desk.clear()
    assert (await refused(desk.work.complete(A, task, True))).code == "stale_token"
    await desk.undo()
    assert (await refused(desk.work.complete(A, task, True))).code == "stale_token"
    assert (await desk.work.get(B))["task_id"] == task


async def test_who_finished_what_a_person_opens_again_is_stale(desk: Desk) -> None:
    task = await desk.submit()
    old = (await desk.work.get(A))["fencing_token"]
    await desk.work.complete(A, task, True, result=1)
    await desk.work.reopen(ANN, task)
    assert (await refused(desk.work.complete(A, task, True, result=1))).code == "stale_token"
    assert (await refused(desk.work.complete(A, task, True, fencing_token=old))).code == "stale_token"
    assert (await refused(desk.work.complete(B, task, True))).code == "not_yours"
    await desk.work.get(B)
    assert (await refused(desk.work.complete(A, task, False))).code == "stale_token"
    await desk.work.complete(B, task, True, result=2)
    no = await refused(desk.work.complete(A, task, True, result=1))
    assert (no.code, no.details["result"]) == ("stale_token", 2)
    assert (await desk.work.complete(B, task, True, result=2))["repeated"]


async def test_undo_leaves_what_agents_did(desk: Desk) -> None:
    task, other = await desk.submit("a"), await desk.submit("b")
    await desk.work.get(A)
    await desk.undo()  # b, which nobody has touched
    assert (await desk.told(other))["archived"] is True
    no = await refused_by_board(desk)
    assert "t1 has been changed since" in no
    await desk.work.complete(A, task, True, result=1)
    assert "t1 has been changed since" in await refused_by_board(desk)
    assert (await desk.told(task))["result"] == 1


async def refused_by_board(desk: Desk) -> str:
    with pytest.raises(Exception) as no:
        await desk.undo()
    return str(no.value)


async def test_every_reason_is_told(desk: Desk) -> None:
    async def why(task: str, who: Caller = B) -> list[str]:
        told = await desk.work.explain(who, task)
        assert told["claimable"] == (not told["reasons"])
        assert all(one["message"] for one in told["reasons"])
        return [one["reason"] for one in told["reasons"]]

    task = await desk.submit()
    waits = await desk.submit(depends_on=[task])
    assert [await why(task), await why(waits)] == [[], ["blocked"]]
    [blocked] = (await desk.work.explain(B, waits))["reasons"]
    assert (blocked["message"], blocked["blocked_by"][0]["number"]) == ("It waits for t1 (pending).", 1)
    await desk.work.get(A)
    assert [await why(task), await why(task, A)] == [["claimed"], ["claimed"]]
    await desk.work.release(A, task)
    assert await why(task) == ["backing_off"]
    desk.clock.now += 5
    await desk.work.get(A)
    await desk.work.complete(A, task, True)
    assert [await why(task), await why(waits)] == [["finished"], []]
    await desk.clear()
    assert [await why(task), await why(waits)] == [["archived", "finished"], ["archived"]]
    for bad, fault in (
        ("x", Fault.MALFORMED),
        ("#9", Fault.UNKNOWN),
        ("0198f0a0-0000-7000-8000-000000000001", Fault.UNKNOWN),
    ):
        for ask in (desk.work.explain, desk.work.release, desk.work.renew, desk.work.task):
            assert (await refused(ask(B, bad))).fault is fault
        assert (await refused(desk.work.complete(B, bad, True))).fault is fault


async def test_nothing_to_do_says_why(desk: Desk) -> None:
    task = await desk.submit(task_type="review")
    await desk.submit(depends_on=[task])
    nothing = {
        "blocked": 0,
        "claimed": 0,
        "backing_off": 0,
        "next_at": None,
        "other_types": 0,
        "files_held": [],
    }

    async def why(*types: str) -> Any:
        answer = await desk.work.get(A, types or None)
        assert (answer["success"], answer["task_id"]) == (True, None)
        return answer["why"]

    assert await why("deploy") == nothing | {"other_types": 1}
    assert await why("fix") == nothing | {"blocked": 1, "other_types": 1}
    # What others do, wait for or back off from counts for who asks for that type, and for nobody else.
    await desk.work.get(B)
    again = (await desk.work.get(B, ["review"]))["why"]
    assert again == nothing | {"claimed": 1}, "nothing of it is free, and nothing of others is ready"
    assert await why("fix", "deploy") == nothing | {"blocked": 1}
    await desk.work.release(B, task)
    later = {"backing_off": 1, "next_at": "2027-01-15T08:00:05.000Z"}
    assert await why("review") == nothing | later
    assert await why("deploy") == nothing
    assert await why() == nothing | later | {"blocked": 1}
    for types in ([], "fix", [1], ["x"] * 51):
        assert (await refused(desk.work.get(A, types))).fault is Fault.MALFORMED


LOOP = """
import asyncio, json, sys
from relay.model import Caller
from tests.coordination.desk import joined

async def loop(work, name):
    found = []
    while (given := await work.get(Caller(name, name)))["task_id"]:
        found.append([given["task_id"], given["fencing_token"]])
        await work.complete(Caller(name, name), given["task_id"], True)
    return found

async def main(path, one, other):
    desk = await joined(path)
    print(json.dumps(sum(await asyncio.gather(loop(desk.work, one), loop(desk.work, other)), [])))
    await desk.store.close()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_four_loops_in_two_processes_get_each_task_once(desk: Desk, tmp_path: Path) -> None:
    tasks = {await desk.submit() for _ in range(20)}
    path = engines.address_of(tmp_path)
    loops = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", LOOP, path, f"A{n}", f"B{n}", stdout=asyncio.subprocess.PIPE
        )
        for n in range(2)
    ]
    found: list[Any] = []
    for one in loops:
        out, _ = await one.communicate()
        assert one.returncode == 0
        found += json.loads(out)
    assert sorted(task for task, _ in found) == sorted(tasks)
    assert len({token for _, token in found}) == 20
    rows = await desk.store.read(lambda tx: tx.all(Q.all_tasks))
    assert {row["status"] for row in rows} == {"completed"}
