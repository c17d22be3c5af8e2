from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import anyio
import pytest

from relay.coordination.locks import wait_line
from relay.coordination.locks.lock import Granted, Wait
from relay.coordination.locks.table import ACQUIRED
from relay.coordination.locks.wait_line import conflict, in_front
from relay.coordination.paths.targets import targets
from relay.model import Caller, Refusal
from tests.coordination.conftest import Room
from tests.engines import BOTH

pytestmark = BOTH


def waiting(room: Room, who: Caller, *paths: str, wait_s: float = 100, **more: Any) -> asyncio.Task[Any]:
    return asyncio.create_task(room.locks.acquire(who, list(paths), wait_s=wait_s, **more))


async def got(task: asyncio.Task[Any]) -> Any:
    return await asyncio.wait_for(task, 10)


async def stop(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_line_is_fair(room: Room) -> None:
    await room.locks.acquire(room.ann, ["src/a"])
    bob = waiting(room, room.bob, "src/a")
    await room.in_line(1)
    cid = waiting(room, room.cid, "src/**", mode="shared")
    await room.in_line(2)
    assert (await room.locks.explain(room.cid, "src/**"))["position"] == 2
    # A newcomer that does not wait does not pass them either, but what they do not want is free.
    late = await room.locks.acquire(room.ann2, ["src/b"])
    assert (late["reason"], late["locked_by"]) == ("queued", "cid") and "position" not in late
    assert late["expires_at"] and late["waiting"]["file_paths"] == ["src/**"]
    assert (await room.locks.acquire(room.ann2, ["lib"]))["success"]
    await room.locks.release(room.ann, "src/a")
    assert (await got(bob))["action"] == "acquired"
    assert not cid.done()
    await room.locks.release(room.bob, "src/a")
    assert (await got(cid))["mode"] == "shared"
    assert [e.lane for e in await room.told(ACQUIRED)] == ["ann", "ann", "bob", "cid"]
    await room.in_line(0)


@pytest.fixture
def seen_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits looks by itself after a moment: these tests move a clock, which wakes nobody."""
    monkeypatch.setattr(wait_line, "SEEN_EVERY_S", 0.05)


@pytest.mark.usefixtures("seen_often")
async def test_who_waits_is_told_when_it_is_too_late(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    # The clock jumps by more than that: whoever looks first would take the other for gone.
    monkeypatch.setattr(wait_line, "STALE_S", 60.0)
    held = await room.locks.acquire(room.ann, ["a"])
    first = waiting(room, room.bob, "a", wait_s=30)
    await room.in_line(1)
    second = waiting(room, room.cid, "a", wait_s=20)
    await room.in_line(2)
    room.clock.now += 20
    await room.locks.acquire(room.ann, ["elsewhere"])  # a commit, so they look
    late = await got(second)
    assert (late["success"], late["reason"], late["position"]) == (False, "timeout", 2)
    assert (late["locked_by"], late["expires_at"]) == ("ann", held["expires_at"])
    await room.in_line(1)
    room.clock.now += 10
    assert (await got(first))["position"] == 1
    await room.in_line(0)


@pytest.mark.usefixtures("seen_often")
async def test_a_lease_that_runs_out_lets_the_next_one_in(room: Room) -> None:
    await room.locks.acquire(room.ann, ["a"], ttl_s=1)
    bob = waiting(room, room.bob, "a")
    await room.in_line(1)
    room.clock.now += 1  # and nobody commits anything
    assert (await got(bob))["success"]


async def test_a_wait_that_is_cancelled_leaves_nothing(room: Room) -> None:
    await room.locks.acquire(room.ann, ["a"])
    for delay in (None, 0, 0.001, 0.003):
        bob = waiting(room, room.bob, "a", "b")
        if delay is None:
            await room.in_line(1)
        else:
            await asyncio.sleep(delay)
        await stop(bob)
        assert await room.store.read(wait_line.line) == []
    await room.locks.release(room.ann, "a")
    for delay in (0, 0.001, 0.002, 0.004):
        # Cancelled in the moment in which it is granted: told or given back, never held for nobody.
        bob = waiting(room, room.bob, "a", "b")
        await asyncio.sleep(delay)
        await stop(bob)
        if bob.cancelled():
            assert await room.locks.check(room.cid) == []
        else:
            for path in ("a", "b"):
                await room.locks.release(room.bob, path)


async def test_what_was_given_back_unheard_may_be_asked_for_with_the_same_key(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    await room.locks.acquire(room.ann, ["a"])
    bob = waiting(room, room.bob, "a", idempotency_key="k")
    await room.in_line(1)
    write, granted = room.store.write, asyncio.Event()

    async def slow(work: Any, **more: Any) -> Any:
        answer = await write(work, **more)
        if isinstance(answer, Granted):
            granted.set()
            await asyncio.sleep(0.1)
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(room.store, "write", slow)
        await room.locks.release(room.ann, "a")
        await asyncio.wait_for(granted.wait(), 10)
        bob.cancel()
        await asyncio.sleep(0.02)
        await stop(bob)  # twice, as who waits for its end may be cancelled too
        await room.in_line(0)
        assert bob.cancelled()
        wakeup = room.store.wakeup()
        while await room.locks.check(room.cid):
            assert await wakeup.wait(10), "what nobody was told of is held for nobody"
        wakeup.close()
    again = await room.locks.acquire(room.bob, ["a"], idempotency_key="k")
    assert (again["action"], again.get("repeated")) == ("acquired", None)


async def test_a_scope_of_anyio_that_is_cancelled_leaves_nothing(room: Room) -> None:
    """The SDK of MCP ends its calls so: every further await is cancelled, the giving back must be none of them."""
    await room.locks.acquire(room.ann, ["a"])
    for delay in (None, 0, 0.001, 0.003):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(room.locks.acquire, room.bob, ["a", "b"], wait_s=60))
            if delay is None:
                await room.in_line(1)
            else:
                await asyncio.sleep(delay)
            tasks.cancel_scope.cancel()
        assert await room.store.read(wait_line.line) == []


async def test_who_died_in_line_is_out_of_it(room: Room) -> None:
    await room.locks.acquire(room.ann, ["a"])

    async def stand(tx: Any) -> int:
        await room.heartbeat.touch(tx, room.bob)
        return await wait_line.stand(
            tx, room.bob, wait_line.LockRequest(targets(["a"])), room.clock.now + 300
        )

    place = await room.store.write(stand)  # as a process leaves it that is killed
    await room.locks.release(room.ann, "a")
    assert (await room.locks.acquire(room.cid, ["a"]))["reason"] == "queued"
    room.clock.now += wait_line.STALE_S
    assert (await room.locks.acquire(room.cid, ["a"]))["success"]
    assert await room.store.write(lambda tx: wait_line.still(tx, place)) is False


@pytest.mark.usefixtures("seen_often")
async def test_a_wait_ends_with_its_session(room: Room) -> None:
    await room.locks.acquire(room.ann, ["a"])
    ended = waiting(room, room.bob, "a")
    await room.in_line(1)
    behind = waiting(room, room.cid, "a")
    await room.in_line(2)
    await room.sessions.end(room.bob, reason="a person ended it")
    no = await asyncio.gather(asyncio.wait_for(ended, 10), return_exceptions=True)
    assert isinstance(no[0], Refusal) and no[0].code == "session_ended"
    assert "a person ended it" in str(no[0].message)
    await room.in_line(1)
    await room.locks.release(room.ann, "a")
    assert (await got(behind))["success"]
    assert {one["agent_id"] for one in await room.sessions.list(room.cid)} == {"ann", "cid"}


async def test_two_that_would_wait_for_each_other(room: Room) -> None:
    await room.locks.acquire(room.ann, ["a"])
    await room.locks.acquire(room.bob, ["b"])
    bob = waiting(room, room.bob, "a")
    await room.in_line(1)
    dead = await got(waiting(room, room.ann, "b"))
    assert (dead["success"], dead["reason"], dead["locked_by"]) == (False, "deadlock", "bob")
    assert [(one["agent"], one["session"], one["waits_for"], one["held_by"]) for one in dead["cycle"]] == [
        ("ann", "s1", "b", "bob"),
        ("bob", "s3", "a", "ann"),
    ]
    assert dead["expires_at"] and "deadlock" in dead["message"] and "Release" in dead["fix"]
    assert not bob.done(), "the newcomer is refused, nobody else"
    assert (await room.locks.acquire(room.ann, ["b"]))["reason"] == "locked", "not to wait closes no circle"
    await room.locks.release(room.ann, "a")
    assert (await got(bob))["success"]


async def test_three_in_a_circle_through_patterns_and_shared_locks(room: Room) -> None:
    await room.locks.acquire(room.ann, ["a/x"])
    await room.locks.acquire(room.bob, ["b"], mode="shared")
    await room.locks.acquire(room.ann2, ["b"], mode="shared")
    await room.locks.acquire(room.cid, ["c"])
    bob = waiting(room, room.bob, "a/**")
    await room.in_line(1)
    cid = waiting(room, room.cid, "b")  # for both that share it
    await room.in_line(2)
    dead = await got(waiting(room, room.ann, "c"))
    assert [(one["agent"], one["waits_for"], one["held_by"]) for one in dead["cycle"]] == [
        ("ann", "c", "cid"),
        ("cid", "b", "bob"),
        ("bob", "a/x", "ann"),
    ]
    assert (await room.locks.acquire(room.ann2, ["d"]))["success"]
    await stop(bob, cid)


async def test_two_who_share_and_both_want_it_alone(room: Room) -> None:
    for who in (room.ann, room.bob):
        await room.locks.acquire(who, ["a"], mode="shared")
    ann = waiting(room, room.ann, "a")
    await room.in_line(1)
    assert (await got(waiting(room, room.bob, "a")))["reason"] == "deadlock"
    await room.locks.release(room.bob, "a")
    assert (await got(ann))["mode"] == "exclusive"


async def test_who_is_waited_for_is_let_through_the_line(room: Room) -> None:
    """ann holds x; bob waits for x and y: y is free, and ann may have it, or both would stand for ever."""
    await room.locks.acquire(room.ann, ["x"])
    bob = waiting(room, room.bob, "x", "y")
    await room.in_line(1)
    assert (await room.locks.acquire(room.cid, ["y"]))["reason"] == "queued"
    assert (await room.locks.acquire(room.ann, ["y"]))["success"]
    assert (await room.locks.acquire(room.ann, ["x"]))["action"] == "refreshed"
    for path in ("x", "y"):
        assert not bob.done()
        await room.locks.release(room.ann, path)
    assert (await got(bob))["success"]


async def test_a_claim_does_not_pass_the_line_either(room: Room) -> None:
    await room.locks.acquire(room.ann, ["a"])
    bob = waiting(room, room.bob, "a", "b")
    await room.in_line(1)
    answer = await room.store.write(
        lambda tx: room.locks.acquire_in(tx, room.cid, room.locks.stored_targets(["b"]))
    )
    assert answer.as_json()["reason"] == "queued"
    await stop(bob)


async def test_many_who_want_the_same_have_it_one_after_the_other(room: Room) -> None:
    holding, most = 0, 0

    async def one(number: int) -> None:
        nonlocal holding, most
        who = Caller(f"agent{number}", f"q{number}")
        assert (await room.locks.acquire(who, ["a"], wait_s=100))["success"]
        holding += 1
        most = max(most, holding)
        await asyncio.sleep(0)
        holding -= 1
        await room.locks.release(who, "a")

    await asyncio.wait_for(asyncio.gather(*(one(number) for number in range(8))), 60)
    assert most == 1
    assert len(await room.told(ACQUIRED)) == 8


def wait(place: int, agent: str, *paths: str, mode: Any = "exclusive") -> Wait:
    return Wait(place, agent, "s", targets(paths), mode, 0, 1)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (wait(1, "ann", "a"), wait(2, "bob", "a/b"), True),
        (wait(1, "ann", "a", "c"), wait(2, "bob", "b", "c"), True),
        (wait(1, "ann", "a"), wait(2, "bob", "b"), False),
        (wait(1, "ann", "a"), wait(2, "ann", "a"), False),
        (wait(1, "ann", "a", mode="shared"), wait(2, "bob", "a", mode="shared"), False),
        (wait(1, "ann", "a", mode="shared"), wait(2, "bob", "a"), True),
    ],
)
def test_conflict(a: Wait, b: Wait, expected: bool) -> None:
    assert conflict(a, b) is conflict(b, a) is expected


def test_only_earlier_ones_are_in_front() -> None:
    me = wait(5, "me", "a")
    line = [wait(1, "ann", "a"), wait(2, "bob", "b"), wait(7, "cid", "a"), wait(3, "dot", "**")]
    assert [one.agent for one in in_front(me, line, {})] == ["ann", "dot"]


async def test_who_waits_hears_where_it_stands_each_time_that_changes(room: Room) -> None:
    await room.locks.acquire(room.ann, ["a"])
    first = waiting(room, room.bob, "a", wait_s=60)
    await room.in_line(1)
    heard: list[str] = []
    second = waiting(room, room.cid, "a", wait_s=60, on_wait=heard.append)
    await room.in_line(2)
    await room.locks.release(room.ann, "a")
    await first
    async with asyncio.timeout(30):
        while not heard or not heard[-1].startswith("1st"):  # noqa: ASYNC110 - what is told is no commit
            await asyncio.sleep(0.01)
    await room.locks.release(room.bob, "a")
    assert (await second)["success"]
    told = [one.partition(".")[0] for one in heard]
    # Between the two bob stands in line, and holds nothing yet: who looks then is told so.
    between = ["2nd in line behind bob"] * (len(told) - 2)
    assert told == ["2nd in line behind ann", *between, "1st in line behind bob"] and len(told) <= 3
    assert "bob (session s3) holds a until" in heard[-1] and "(free in 30 min)" in heard[-1]
