from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import Awaitable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from relay.base.durations import duration, since, within
from relay.coordination.locks import wait_line
from relay.coordination.locks.lock import Granted
from relay.coordination.locks.service import Locks
from relay.coordination.locks.table import ACQUIRED, FORCED, REFRESHED, RELEASED, of_session
from relay.log import events
from relay.log.verify import VerifyState, verify_batch
from relay.model import ADMIN, SCOPES, Caller, Fault, Refusal
from relay.model.actions import ForceRelease
from relay.model.pages import Page
from tests.coordination.conftest import Room
from tests.engines import BOTH

pytestmark = BOTH

HOUR = 3600.0


async def refused(asking: Awaitable[Any]) -> Refusal:
    with pytest.raises(Refusal) as told:
        await asking
    assert told.value.message and told.value.fix
    return told.value


def at(answer: Any) -> float:
    found = datetime.fromisoformat(answer["expires_at"])
    assert found.utcoffset() is not None
    return found.timestamp()


async def test_one_holds_and_the_other_is_told_who_and_until_when(room: Room) -> None:
    mine = await room.locks.acquire(room.ann, ["./src//app.py"], reason="refactor", ttl_s=90)
    assert (mine["success"], mine["action"], mine["file_path"]) == (True, "acquired", "src/app.py")
    assert at(mine) == room.clock.now + 90
    assert mine["locks"] == await room.locks.check(room.bob)
    for path in ("src/app.py", "src/**", "src", "src/{app,b}.py", "src/app.py/x"):
        theirs = await room.locks.acquire(room.bob, [path])
        assert (theirs["success"], theirs["action"], theirs["reason"]) == (False, "blocked", "locked")
        assert (theirs["locked_by"], theirs["locked_by_session"]) == ("ann", "s1")
        assert theirs["expires_at"] == mine["expires_at"]
        assert theirs["held"] == mine["locks"][0]
        assert "refactor" in theirs["message"] and theirs["error"]["code"] == "locked"
    assert (await room.locks.acquire(room.bob, ["src/b.py"]))["success"]
    assert (await room.locks.release(room.ann, "src/app.py"))["released"]
    assert (await room.locks.acquire(room.bob, ["src/**"]))["success"]
    acquired = await room.told(ACQUIRED, RELEASED)
    assert [(e.lane_key, e.type, e.outputs["lock"]["file_path"]) for e in acquired] == [
        ("s1/ann", ACQUIRED, "src/app.py"),
        ("s3/bob", ACQUIRED, "src/b.py"),
        ("s1/ann", RELEASED, "src/app.py"),
        ("s3/bob", ACQUIRED, "src/**"),
    ]
    assert acquired[0].outputs["lock"] == mine["locks"][0]


@pytest.mark.parametrize(
    ("held", "wanted", "blocked"),
    [
        ("src", "src/a/b.py", True),
        ("src/a/b.py", "src", True),
        ("src", "src2", False),
        ("src/a", "src/b", False),
        ("**", "x", True),
        ("x", "**", True),
        ("src/*.py", "src/a*", True),
        ("src/a*", "src/b*", False),
        ("src/**/test_*.py", "src/core/**", True),
        ("src/core/**", "src/**/test_*.py", True),
        ("src/**/test_*.py", "src/core/util.py", False),
        ("src/core/util.py", "src/**/test_*.py", False),
        ("README.md", "**/*.py", False),
        ("**/*.py", "**/*.md", False),
        ("Makefile", "**/*.md", True),
        ("*/x", "a/b", False),
        ("a/b", "*/x", False),
        ("a/*", "a.py", False),
        ("*/x", "a", True),
        ("a/b/c/*", "*/b/**", True),
        ("{a,b}/x", "b", True),
        ("db:schema", "db:schema", True),
        ("db:schema", "db:schem", False),
        ("db:schema", "**", False),
        ("./db:schema", "db:schema", False),
        (r"a\*", "a*", True),
        (r"a\*", "ab", False),
        ("\u00e4/x", "a\u0308", True),
    ],
)
async def test_what_meets_is_in_the_way(room: Room, held: str, wanted: str, blocked: bool) -> None:
    await room.locks.acquire(room.ann, [held])
    answer = await room.locks.acquire(room.bob, [wanted])
    assert answer["success"] is not blocked
    if blocked:
        assert answer["locked_by"] == "ann"


async def test_the_same_again_refreshes_and_never_shortens(room: Room) -> None:
    first = await room.locks.acquire(room.ann, ["a"], ttl_s=100, reason="one")
    room.clock.now += 10
    again = await room.locks.acquire(room.ann, ["x/../a"], ttl_s=50)
    assert (again["action"], again["fencing_token"]) == ("refreshed", first["fencing_token"])
    assert again["expires_at"] == first["expires_at"]
    assert again["locks"][0]["reason"] == "one"
    longer = await room.locks.acquire(room.ann, ["a"], ttl_s=200, reason="two")
    assert (at(longer), longer["locks"][0]["reason"]) == (room.clock.now + 200, "two")
    assert longer["locks"][0]["acquired_at"] == first["locks"][0]["acquired_at"]
    renewed = await room.locks.renew(room.ann, "a", ttl_s=300)
    assert (at(renewed), renewed["fencing_token"]) == (room.clock.now + 300, first["fencing_token"])
    assert len(await room.told(REFRESHED)) == 3
    assert len(await room.locks.check(room.ann)) == 1


async def test_two_sessions_of_one_agent_are_two_holders(room: Room) -> None:
    await room.locks.acquire(room.ann, ["a"])
    blocked = await room.locks.acquire(room.ann2, ["a"])
    assert (blocked["locked_by"], blocked["locked_by_session"]) == ("ann", "s1")
    assert blocked["message"].startswith("Another session of yours (s1) holds a until "), "not the name alone"
    assert (await room.locks.explain(room.ann2, "a"))["why"][0] == blocked["message"]
    assert (await refused(room.locks.release(room.ann2, "a"))).message == blocked["message"]
    long = Caller("zoe", f"mcp-{uuid.UUID(int=7 << 124 | 9).hex}")
    assert (await room.locks.acquire(long, ["z"]))["success"]
    other = await room.locks.acquire(room.ann2, ["z"])
    assert other["locked_by_session"] == long.session and other["held"]["session"] == long.session
    assert other["message"].startswith("zoe (session mcp-7000\u20260009) holds z until ")
    assert (await refused(room.locks.release(room.ann2, "a"))).code == "not_yours"
    told = await refused(room.locks.renew(room.ann2, "a"))
    assert (told.code, told.details["locked_by"]) == ("not_yours", "ann") and "released" not in told.details
    assert "wait_seconds" in told.fix and "release" not in told.fix
    room.clock.now += 4000
    assert "released" not in (await refused(room.locks.renew(room.ann, "a"))).details
    assert (await refused(room.locks.release(room.ann, "a"))).details["released"] is False
    assert (await room.locks.acquire(room.bob, ["a"]))["success"]
    told = await refused(room.locks.renew(room.ann, "a"))
    assert (told.code, told.details["locked_by"]) == ("stale_token", "bob") and "released" not in told.details
    assert "wait_seconds" in told.fix and "bob" in told.message and "ran out" in told.message
    told = await refused(room.locks.renew(room.ann, "never"))
    assert told.code == "not_held" and "acquire_lock" in told.fix


async def test_an_absolute_path_of_the_repository_is_refused_with_the_one_to_give(room: Room) -> None:
    locks = Locks(room.store, room.heartbeat, root="/home/ann/app")
    for given, fix in [
        ("/home/ann/app/src/a.py", 'Give "src/a.py".'),
        ("/home/ann/apple/a.py", "Give it relative to the root of the repository."),
        ("/home/ann/app/", "Give it relative to the root of the repository."),
    ]:
        with pytest.raises(Refusal) as no:
            await locks.acquire(room.ann, [given])
        assert no.value.fix == fix


async def test_no_paths_meet_no_locks(room: Room) -> None:
    await room.locks.acquire(room.ann, ["a"])
    assert await room.locks.check(room.bob, []) == []
    assert len(await room.locks.check(room.bob)) == 1


async def test_shared_locks_go_beside_each_other(room: Room) -> None:
    for who in (room.ann, room.bob):
        assert (await room.locks.acquire(who, ["docs/**"], mode="shared"))["mode"] == "shared"
    assert not (await room.locks.acquire(room.cid, ["docs/a"]))["success"]
    assert not (await room.locks.acquire(room.ann, ["docs/**"]))["success"], "bob shares it"
    assert (await room.locks.check(room.ann))[0]["mode"] == "shared"
    await room.locks.release(room.bob, "docs/**")
    upgraded = await room.locks.acquire(room.ann, ["docs/**"])
    assert (upgraded["success"], upgraded["mode"], upgraded["action"]) == (True, "exclusive", "refreshed")
    assert not (await room.locks.acquire(room.bob, ["docs/a"], mode="shared"))["success"]
    assert (await room.locks.acquire(room.ann, ["docs/**"], mode="shared"))["mode"] == "shared"
    assert (await room.locks.acquire(room.bob, ["docs/a"], mode="shared"))["success"]


async def test_several_are_all_or_none(room: Room) -> None:
    await room.locks.acquire(room.bob, ["c/x"])
    answer = await room.locks.acquire(room.ann, ["a", "b", "c"])
    assert (answer["success"], answer["file_path"], answer["locked_by"]) == (False, "c", "bob")
    assert [lock["file_path"] for lock in await room.locks.check(room.ann)] == ["c/x"]
    got = await room.locks.acquire(room.ann, ["b", "a", "./a", "d"])
    assert [lock["file_path"] for lock in got["locks"]] == ["b", "a", "d"], (
        "each once, as they were asked for"
    )
    tokens = [lock["fencing_token"] for lock in got["locks"]]
    assert len(set(tokens)) == 3
    assert (got["file_path"], got["fencing_token"]) == ("b", tokens[0])
    met = await room.locks.check(room.bob, ["a/x", "c"])
    assert [lock["file_path"] for lock in met] == ["a", "c/x"]


async def test_a_lease_runs_out_by_the_stores_clock(room: Room) -> None:
    first = await room.locks.acquire(room.ann, ["a"], ttl_s=1)
    room.clock.now += 0.999
    assert not (await room.locks.acquire(room.bob, ["a"]))["success"]
    room.clock.now += 0.001
    assert await room.locks.check(room.bob) == []
    assert not (await room.locks.status(room.bob, "a"))["locked"]
    second = await room.locks.acquire(room.bob, ["a"], ttl_s=1)
    assert (second["action"], second["fencing_token"] > first["fencing_token"]) == ("acquired", True)
    late = await refused(room.locks.release(room.ann, "a"))
    assert (late.code, late.details["lost"], late.details["released"]) == ("stale_token", "expired", False)
    assert (await refused(room.locks.renew(room.ann, "a"))).code == "stale_token"
    room.clock.now += 1
    third = await room.locks.acquire(room.ann, ["a"])
    assert (third["action"], third["fencing_token"] > second["fencing_token"]) == ("acquired", True)


async def test_release_says_why_not(room: Room) -> None:
    got = await room.locks.acquire(room.ann, ["a"])
    assert (await refused(room.locks.release(room.ann, "b"))).code == "not_held"
    assert (await refused(room.locks.release(room.ann, "a/b"))).code == "not_held"
    other = await refused(room.locks.release(room.bob, "a"))
    assert (other.code, other.details["locked_by"], other.fault) == ("not_yours", "ann", Fault.REFUSED)
    wrong = await refused(room.locks.release(room.ann, "a", fencing_token=got["fencing_token"] + 1))
    assert wrong.code == "stale_token"
    assert (await room.locks.release(room.ann, "a", fencing_token=got["fencing_token"]))["released"]
    assert (await refused(room.locks.release(room.ann, "a"))).code == "not_held"
    # A refused call is a heartbeat too: bob's session is there, though he never got anything.
    assert {one["agent_id"] for one in await room.sessions.list(room.person)} == {"ann", "bob", "eve"}


async def test_a_folder_released_leaves_what_was_taken_below_it(room: Room) -> None:
    await room.locks.acquire(room.ann, ["src"])
    await room.locks.acquire(room.ann, ["src/a"])
    await room.locks.release(room.ann, "src")
    assert [lock["file_path"] for lock in await room.locks.check(room.ann)] == ["src/a"]


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"ttl_s": ttl}, "bad_ttl_minutes")
        for ttl in (0.999, 8 * HOUR + 0.001, 0, -1, math.nan, math.inf, -math.inf, True, "60", None.__class__)
    ]
    + [({"wait_s": wait}, "bad_wait_seconds") for wait in (-1, 301, math.nan, True)]
    + [({"mode": "both"}, "bad_mode"), ({"reason": "x" * 1001}, "bad_reason"), ({"reason": 7}, "bad_reason")],
)
async def test_what_is_out_of_bounds_is_malformed(room: Room, more: dict[str, Any], code: str) -> None:
    wrong = await refused(room.locks.acquire(room.ann, ["a"], **more))
    assert (wrong.fault, wrong.code) == (Fault.MALFORMED, code)
    assert await room.locks.check(room.ann) == []


async def test_the_bounds_themselves_are_allowed(room: Room) -> None:
    for ttl in (1, 1.5, 8 * HOUR):
        assert at(await room.locks.acquire(room.ann, [f"f{ttl}"], ttl_s=ttl)) == room.clock.now + ttl


async def test_a_person_takes_a_lock_and_its_holder_is_told(room: Room) -> None:
    for who in (room.ann, room.bob):
        await room.locks.acquire(who, ["a"], mode="shared")
    await room.locks.acquire(room.ann, ["b/c"])
    agent = await refused(room.locks.force_release(room.cid, ForceRelease("a", "mine")))
    assert agent.fault is Fault.FORBIDDEN
    assert (await refused(room.locks.force_release(room.person, ForceRelease("a", " ")))).code == "bad_reason"
    near = await refused(room.locks.force_release(room.person, ForceRelease("b", "now")))
    assert near.code == "not_held" and "b/c" in near.fix
    room.clock.now += 5
    taken = await room.locks.force_release(room.person, ForceRelease("a", "hotfix"))
    assert (taken["success"], len(taken["locks"])) == (True, 2)
    said = await room.told(FORCED)
    assert {(e.outputs["lock"]["locked_by"], e.outputs["lock"]["session"]) for e in said} == {
        ("ann", "s1"),
        ("bob", "s3"),
    }
    assert all((e.outputs["by"], e.outputs["reason"]) == ("eve", "hotfix") for e in said)
    assert len({e.lane for e in said}) == 2
    for asking in (room.locks.release(room.ann, "a"), room.locks.renew(room.bob, "a")):
        told = await refused(asking)
        assert (told.code, told.details["lost"]) == ("stale_token", "forced")
        assert (told.details["forced_by"], told.details["forced_why"]) == ("eve", "hotfix")
        assert "eve" in told.message and "hotfix" in told.message
    assert (await room.locks.acquire(room.cid, ["a"]))["success"]
    admin = replace(room.cid, scopes=SCOPES | {ADMIN})
    agent = await refused(
        room.locks.force_release(admin, ForceRelease("b/c", "an agent's, whatever its key says"))
    )
    assert (agent.fault, agent.code) == (Fault.FORBIDDEN, "forbidden") and "cid is an agent" in agent.message
    assert (await room.locks.acquire(room.cid, ["b/c"]))["locked_by"] == "ann"


async def test_status_and_explain(room: Room) -> None:
    await room.locks.acquire(room.ann, ["src/**"], reason="moving")
    waiting = asyncio.create_task(room.locks.acquire(room.bob, ["src/a", "lib"], wait_s=100))
    await room.in_line(1)
    seen = await room.locks.status(room.cid, "src/a")
    assert (seen["locked"], seen["locks"][0]["file_path"]) == (True, "src/**")
    assert [(one["agent"], one["file_paths"], one["position"]) for one in seen["waiting"]] == [
        ("bob", ["src/a", "lib"], 1)
    ]
    why = await room.locks.explain(room.cid, "src/a")
    assert (why["free"], len(why["why"])) == (False, 1) and "moving" in why["why"][0]
    lib = await room.locks.explain(room.cid, "lib")
    assert (lib["free"], lib["locks"]) == (False, []) and "position" not in lib and "bob" in lib["why"][0]
    assert (await room.locks.explain(room.bob, "src/a"))["position"] == 1
    mine = await room.locks.explain(room.ann, "src/a")
    assert (mine["free"], mine["yours"], mine["why"]) == (
        False,
        True,
        ["This session holds an overlapping lock."],
    )
    assert [one["agent"] for one in mine["waiting"]] == ["bob"] and not why["yours"]
    assert not (await room.locks.explain(room.ann, "**"))["yours"], "more than its lock covers"
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    free = await room.locks.explain(room.cid, "lib")
    assert (free["free"], free["why"], free["waiting"]) == (True, [], [])
    room.clock.now += 1800
    assert "ran out" in (await room.locks.explain(room.ann, "src/**"))["lost"]


async def test_a_claims_locks_go_with_it(room: Room) -> None:
    await room.locks.acquire(room.ann, ["own"])
    wanted = room.locks.stored_targets(["own", "a", "b"])

    async def claim(tx: Any) -> Any:
        return await room.locks.acquire_in(tx, room.ann, wanted, ttl_s=60, reason="task #1", task_id="t1")

    granted = await room.store.write(claim)
    assert isinstance(granted, Granted) and len(granted.locks) == 3 and len(granted.fresh) == 2
    freed = await room.store.write(lambda tx: room.locks.release_of_task(tx, "t1", by="ann", reason="done"))
    assert sorted(lock.path for lock in freed) == ["a", "b"]
    assert [lock["file_path"] for lock in await room.locks.check(room.ann)] == ["own"]
    assert {e.outputs["reason"] for e in await room.told(RELEASED)} == {"done"}


async def test_the_log_of_locks_is_sound(room: Room) -> None:
    for step in range(20):
        await room.locks.acquire(room.ann if step % 2 else room.bob, [f"f{step % 3}", "*.md"], ttl_s=2)
        room.clock.now += 1
    rows = await room.store.read(lambda tx: tx.all(events.Q.events_after, after=0, limit=999))
    assert len(rows) > 20 and verify_batch(rows, VerifyState()) == []


async def test_a_request_with_a_key_is_done_once(room: Room) -> None:
    async def ask(who: Caller = room.ann, path: str = "a", key: str = "k1", **more: Any) -> Any:
        return await room.locks.acquire(who, [path], idempotency_key=key, **more)

    first = await ask()
    room.clock.now += 10
    again = await ask()
    assert again == first | {"repeated": True}
    assert await ask(wait_s=5) == again, "how long it would wait makes no other request"
    assert len(await room.told(ACQUIRED, REFRESHED)) == 1
    assert (await refused(ask(path="b"))).code == "idempotency_key_reused"
    assert (await refused(ask(room.ann2))).code == "idempotency_key_reused"
    assert (await refused(ask(key="no key"))).fault is Fault.MALFORMED
    # What was blocked is tried anew; what got a lease that is over is told so, and gets no second one.
    assert not (await ask(room.bob, key="k2"))["success"]
    await room.locks.release(room.ann, "a")
    assert (await refused(ask())).code == "stale_token"
    assert (await ask(room.bob, key="k2"))["action"] == "acquired"
    assert await room.store.read(wait_line.line) == []


async def test_a_refusal_says_how_long_by_the_stores_clock(room: Room) -> None:
    got = await room.locks.acquire(room.ann, ["src"], ttl_s=250)
    told = await room.locks.acquire(room.bob, ["src/a.py"])
    assert told["expires_at"] == got["expires_at"], "the time stays"
    assert told["message"].endswith(f"until {got['expires_at']} (free in 4 min 10 s).")
    assert "(free in 4 min 10 s)" in told["error"]["message"]
    room.clock.now += 190.5
    assert "(free in 1 min)" in (await room.locks.explain(room.bob, "src/a.py"))["why"][0]
    with pytest.raises(Refusal, match=r"free in 1 min\)"):
        await room.locks.release(room.bob, "src")
    room.clock.now += 3800
    for act in (room.locks.release, room.locks.renew):
        with pytest.raises(Refusal, match=r"ran out at \S+ \(1 h 2 min ago\)"):
            await act(room.ann, "src")
    for length, said in (
        (0.4, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3600, "1 h"),
        (7385, "2 h 3 min"),
        (180_000, "2 days 2 h"),
    ):
        assert duration(length) == said
    assert (within(0.2, 0.0), since(0.0, 61.0)) == ("1 s", "1 min 1 s ago")


@pytest.mark.parametrize("taken", ["src/a.py", "src", "src/*.py"])
async def test_a_clock_that_jumped_and_came_back_leaves_one_holder(room: Room, taken: str) -> None:
    """What was taken over stays lost, whatever the clock says then; and so it is told to who lost it."""
    start = room.clock.now
    for held, ttl_s in (("src/a.py", 60.0), ("src/b.py", 7200.0)):
        assert (await room.locks.acquire(room.ann, [held], ttl_s=ttl_s))["success"]
    assert (await room.locks.acquire(room.ann, ["docs/x.md"], ttl_s=60.0))["success"]
    room.clock.now = start + 3600.0
    got = await room.locks.acquire(room.bob, [taken], ttl_s=7200.0)
    assert got["success"] is (taken == "src/a.py"), "ann's session lives as long as its longest lock"
    if not got["success"]:
        await room.locks.release(room.ann, "src/b.py")
        assert (await room.locks.acquire(room.bob, [taken], ttl_s=7200.0))["success"]
    room.clock.now = start + 1.0
    held = {(lock["file_path"], lock["locked_by"]) for lock in await room.locks.check(room.cid, ["src/a.py"])}
    assert held == {(taken, "bob")}
    told = await refused(room.locks.release(room.ann, "src/a.py"))
    assert told.code == "stale_token" and "ran out" in told.message
    blocked = await room.locks.acquire(room.ann, ["src/a.py"])
    assert (blocked["success"], blocked["locked_by"]) == (False, "bob")
    assert not (await room.locks.explain(room.ann, "src/a.py"))["yours"]
    # What nobody took is held as before.
    assert [lock["locked_by"] for lock in await room.locks.check(room.cid, ["docs/x.md"])] == ["ann"]
    # Who takes it anew afterwards has it.
    assert (await room.locks.release(room.bob, taken))["success"]
    assert (await room.locks.acquire(room.ann, ["src/a.py"]))["action"] == "acquired"
    assert (await room.locks.release(room.ann, "src/a.py"))["success"]


async def test_a_session_that_a_jump_of_the_clock_killed_holds_no_more(room: Room) -> None:
    start = room.clock.now
    mine = room.process
    assert (await room.locks.acquire(mine, ["src/a.py"], ttl_s=28_800.0))["success"]
    room.clock.now = start + 3600.0
    assert (await room.locks.acquire(room.bob, ["src/a.py"]))["success"]
    room.clock.now = start + 1.0
    assert [lock["locked_by"] for lock in await room.locks.check(room.cid, ["src/a.py"])] == ["bob"]
    room.clock.now = start + 172_800.0
    await room.locks.prune()
    assert await room.store.read(lambda tx: of_session(tx, mine)) == []


async def test_a_long_list_comes_in_pages_the_callers_neighbourhood_first(room: Room) -> None:
    far = [f"docs/{number}.md" for number in range(30)]
    await room.locks.acquire(room.bob, far)
    await room.locks.acquire(room.bob, ["src/deep/x.py", "src/b.py", "src/shop/**", "api:x"])
    await room.locks.acquire(room.bob, ["src/read.py"], mode="shared")
    await room.locks.acquire(room.ann, ["src/read.py"], mode="shared")
    await room.locks.acquire(room.ann, ["src/a.py"])
    whole = {(lock["file_path"], lock["locked_by"]) for lock in await room.locks.check(room.ann)}
    page, seen, sizes = await room.locks.check(room.ann, limit=10), [], []
    assert isinstance(page, Page) and page.total == len(whole) == 37
    while True:
        assert isinstance(page, Page)
        seen += [(lock["file_path"], lock["locked_by"]) for lock in page]
        sizes.append(len(page))
        if page.next is None:
            break
        page = await room.locks.check(room.ann, limit=10, cursor=page.next)
    assert sizes == [10, 10, 10, 7] and set(seen) == whole and len(seen) == len(whole)
    first = [path for path, _ in seen]
    assert set(first[:3]) == {"src/read.py", "src/a.py"}
    assert set(first[3:6]) == {"src/deep/x.py", "src/b.py", "src/shop/**"}
    few = await room.locks.check(room.ann, ["docs"], limit=100)
    assert isinstance(few, Page) and len(few) == 30 and few.next is None
    # A lock that comes or goes between two pages takes no other out of them.
    page = await room.locks.check(room.cid, limit=10)
    assert isinstance(page, Page)
    await room.locks.release(room.bob, page[9]["file_path"])
    rest = await room.locks.check(room.cid, limit=100, cursor=page.next)
    assert len(rest) == 27


async def test_sessions_come_in_pages_ones_own_first(room: Room) -> None:
    for number in range(12):
        room.clock.now += 1
        await room.sessions.touch(Caller("bob", f"s{number}"))
    await room.sessions.touch(room.ann)
    page = await room.sessions.list(room.ann, limit=5)
    assert isinstance(page, Page) and page.total == 13 and page.next is not None
    assert [one["session_id"] for one in page] == ["s1", "s11", "s10", "s9", "s8"]
    rest = await room.sessions.list(room.ann, limit=100, cursor=page.next)
    assert [one["session_id"] for one in rest] == [f"s{number}" for number in range(7, -1, -1)]


async def test_a_file_is_covered_by_the_lock_that_holds_it_now(room: Room) -> None:
    async def covering(*files: str) -> dict[str, Any]:
        found = await room.store.read(lambda tx: room.locks.covering(tx, files))
        return {name: (lock["locked_by"], lock["file_path"]) for name, lock in found.items()}

    assert await covering("a.py") == {}
    await room.locks.acquire(room.ann, ["src/app.py", "docs", "a[1].py"], ttl_s=90)
    await room.locks.acquire(room.bob, ["lib/**/*.py"], ttl_s=10)
    files = ("src/app.py", "src/b.py", "docs/x/y.md", "lib/a.py", "lib/a.md", "a[1].py", "a1.py")
    held = {
        "src/app.py": ("ann", "src/app.py"),
        "docs/x/y.md": ("ann", "docs"),
        "a[1].py": ("ann", "a[1].py"),
    }
    assert await covering(*files) == held | {"lib/a.py": ("bob", "lib/**/*.py")}
    room.clock.now += 11
    assert await covering(*files) == held
