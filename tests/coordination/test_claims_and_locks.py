"""The work queue, the locks and the sessions of a room, together."""

from __future__ import annotations

from datetime import datetime

import pytest

from relay.coordination.locks.table import RELEASED
from relay.model import Caller, Refusal
from relay.model.actions import ForceRelease
from tests.coordination.conftest import Room
from tests.engines import BOTH

pytestmark = BOTH


async def held(room: Room, by: Caller) -> list[str]:
    return sorted(lock["file_path"] for lock in await room.locks.check(by) if lock["session"] == by.session)


async def test_a_claim_takes_its_files_and_gives_them_back(room: Room) -> None:
    work = room.work
    first = (await work.submit(room.person, "fix", "one", files=["src/**", "docs"]))["task_id"]
    await work.submit(room.person, "fix", "two", files=["src/a.py"])
    third = (await work.submit(room.person, "fix", "three", files=["lib"]))["task_id"]
    assert (await work.get(room.ann))["task_id"] == first
    assert await held(room, room.ann) == ["docs", "src/**"]
    again = await room.locks.acquire(room.ann, ["docs"], mode="shared")
    assert (again["action"], again["mode"]) == ("refreshed", "exclusive"), "a claim's file"
    assert again["locks"][0]["reason"] == "for task t1"
    assert (await work.get(room.bob))["task_id"] == third, "the second one's files are held"
    assert (await room.locks.acquire(room.bob, ["docs/x"]))["locked_by"] == "ann"
    await work.complete(room.ann, first, True)
    assert await held(room, room.ann) == []
    assert (await work.get(room.cid))["task_description"] == "two"


async def test_tasks_whose_files_are_held_hide_none_that_is_free(room: Room) -> None:
    work = room.work
    await room.locks.acquire(room.bob, ["src"])
    await room.locks.acquire(room.bob, ["lib/**/*.py"], mode="shared")
    await room.locks.acquire(room.bob, ["db:schema"])
    held_by_bob = ["src/a.py", "**/a.py", "lib/x/y.py", "lib", "db:schema"]
    for number in range(230):
        await work.submit(room.person, "fix", "held", files=[held_by_bob[number % 5]])
    assert [one["number"] for one in (await work.get(room.ann))["why"]["files_held"]] == [*range(1, 21)]
    free = (await work.submit(room.person, "fix", "free", files=["docs", "api:x"], priority=10))["task_id"]
    assert (await work.explain(room.ann, free))["claimable"]
    assert (await work.get(room.ann, ["none", "fix", "fix"]))["task_id"] == free
    assert (await work.get(room.cid))["task_id"] is None
    assert (await work.get(room.bob))["number"] == 1, "whose locks they are may have them"
    await work.submit(room.person, "fix", "no files", priority=10)
    assert (await work.get(room.cid))["task_description"] == "no files"


async def test_who_renews_a_claim_is_told_what_it_does_not_hold_any_more(room: Room) -> None:
    work = room.work
    task = (await work.submit(room.person, "fix", "one", files=["a", "b"]))["task_id"]
    await work.get(room.ann)
    assert "files_held" not in await work.renew(room.ann, task)
    await room.locks.force_release(room.person, ForceRelease("a", "urgent"))
    until = (await room.locks.acquire(room.bob, ["a"]))["expires_at"]
    assert (await work.renew(room.ann, task))["files_held"] == [
        {"number": 1, "file_path": "a", "locked_by": "bob", "expires_at": until}
    ]
    await room.locks.release(room.bob, "a")
    assert "files_held" not in await work.renew(room.ann, task)
    assert await held(room, room.ann) == ["a", "b"]


async def test_a_claim_is_not_completed_over_the_lock_of_another(room: Room) -> None:
    work = room.work
    task = (await work.submit(room.person, "fix", "one", files=["src/a.py"]))["task_id"]
    await room.locks.acquire(room.ann, ["src/a.py"], ttl_s=3600)
    token = (await work.get(room.ann))["fencing_token"]
    await room.locks.release(room.ann, "src/a.py")
    until = (await room.locks.acquire(room.bob, ["src"], ttl_s=60))["expires_at"]
    with pytest.raises(Refusal) as lost:
        await work.complete(room.ann, task, True, result="mine", fencing_token=token)
    assert (lost.value.code, lost.value.details["locked_by"]) == ("stale_token", "bob")
    assert lost.value.details["expires_at"] == until and "src" in lost.value.message
    assert (await work.task(room.ann, task))["status"] == "claimed"
    room.clock.now += 61
    assert (await work.complete(room.ann, task, True, fencing_token=token))["status"] == "completed"
    # A failure brings nothing in.
    task = (await work.submit(room.person, "fix", "two", files=["src/a.py"]))["task_id"]
    await work.get(room.ann)
    await room.locks.force_release(room.person, ForceRelease("src/a.py", "urgent"))
    await room.locks.acquire(room.bob, ["src"])
    assert (await work.complete(room.ann, task, False, error_message="no"))["status"] == "failed"


async def test_who_never_had_it_is_told_that_its_lease_is_over(room: Room) -> None:
    work = room.work
    task = (await work.submit(room.person, "fix", "one"))["task_id"]
    await work.get(room.ann, lease_s=60)
    room.clock.now += 61
    with pytest.raises(Refusal) as no:
        await work.complete(room.bob, task, True)
    assert (no.value.code, no.value.details["lease_over"]) == ("not_yours", True)
    assert "open to anyone" in no.value.message and "works on it" not in no.value.message


async def test_a_file_of_two_claims_stays_held_until_the_last_one_ends(room: Room) -> None:
    work = room.work
    one = (await work.submit(room.person, "fix", "one", files=["a", "b"]))["task_id"]
    two = (await work.submit(room.person, "fix", "two", files=["./b", "c"]))["task_id"]
    assert [(await work.get(room.ann))["task_id"] for _ in range(2)] == [one, two]
    await work.complete(room.ann, one, True)
    assert await held(room, room.ann) == ["b", "c"]
    await work.complete(room.ann, two, True)
    assert await held(room, room.ann) == []
    assert len(await room.told(RELEASED)) == 3


async def test_a_heartbeat_extends_every_lock_that_a_claim_relies_on(room: Room) -> None:
    work = room.work
    await work.submit(room.person, "fix", "one", files=["./a", "b"])
    await work.submit(room.person, "fix", "two", files=["b", "c"])
    # Held before the claim by another spelling; what it does not want lasts as long as was asked for.
    await room.locks.acquire(room.ann, ["a"], ttl_s=60)
    await room.locks.acquire(room.ann, ["elsewhere"], ttl_s=60)
    await work.get(room.ann, lease_s=90)
    await work.get(room.ann, lease_s=900)

    async def left() -> dict[str, float]:
        locks = await room.locks.check(room.cid)
        ends = {one["file_path"]: datetime.fromisoformat(one["expires_at"]).timestamp() for one in locks}
        return {path: round(end - room.clock.now) for path, end in ends.items()}

    assert await left() == {"a": 90, "b": 900, "c": 900, "elsewhere": 60}
    room.clock.now += 50
    await room.locks.acquire(room.ann, ["d"], ttl_s=1)
    assert await left() == {"a": 90, "b": 900, "c": 900, "d": 1, "elsewhere": 10}
    room.clock.now += 50
    await room.sessions.touch(room.ann)
    assert await left() == {"a": 90, "b": 900, "c": 900}
    assert (await room.locks.acquire(room.bob, ["a"]))["locked_by"] == "ann"


async def test_claims_and_their_locks_die_with_the_session_and_live_with_it(room: Room) -> None:
    work = room.work
    task = (await work.submit(room.person, "fix", "one", files=["a"]))["task_id"]
    assert (await work.get(room.process))["task_id"] == task
    for _ in range(3):  # the process says that it lives, for longer than the claim's lease
        for _ in range(20):
            room.clock.now += 60
            await room.sessions.touch(room.process)
    assert await held(room, room.process) == ["a"]
    assert (await work.get(room.bob))["task_id"] is None
    room.clock.now += room.settings.process_lease_s
    assert await held(room, room.process) == []
    await room.locks.check(room.process)  # awake again, and it lost both
    assert await held(room, room.process) == []
    with pytest.raises(Refusal) as late:
        await work.complete(room.process, task, True)
    assert late.value.code == "stale_token"
    room.clock.now += room.settings.backoff_s
    assert (await work.get(room.bob))["task_id"] == task
    assert await held(room, room.bob) == ["a"]
    await room.sessions.end(room.bob)
    assert await held(room, room.bob) == []
    assert (await work.task(room.ann, task))["not_before"] is not None
    room.clock.now += room.settings.backoff_max_s
    lost = await work.task(room.ann, task)
    assert (lost["status"], lost["not_before"]) == ("pending", None)
