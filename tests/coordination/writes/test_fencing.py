from __future__ import annotations

import pytest

from relay.coordination.locks.lock import WriteVerdict
from relay.coordination.locks.table import RELEASED
from relay.coordination.tasks.service import WorkQueue
from relay.coordination.writes.fencing import FEW, file_target
from relay.log.events import Lane
from relay.model import Caller, Refusal
from relay.model.actions import ForceRelease
from tests.coordination.conftest import Room
from tests.engines import BOTH

pytestmark = BOTH


async def verdicts(room: Room, who: object, *paths: str, token: int | None = None) -> list[WriteVerdict]:
    return await room.store.read(lambda tx: room.judge.verdicts(tx, who, list(paths), token))  # type: ignore[arg-type]


async def said(room: Room, who: object, *paths: str, token: int | None = None) -> list[str]:
    return [one.verdict for one in await verdicts(room, who, *paths, token=token)]


async def test_what_another_holds_is_locked_and_what_nobody_holds_is_free(room: Room) -> None:
    await room.locks.acquire(room.ann, ["src/**"], reason="moving")
    await room.locks.acquire(room.bob, ["docs"], mode="shared")
    assert await said(room, room.cid, "src/a.py", "lib/a.py", "docs/x") == ["locked", "ok", "locked"]
    assert await said(room, room.ann, "src/a.py", "lib/a.py") == ["ok", "ok"]
    assert await said(room, room.ann2, "src/a.py") == ["locked"], "another session of hers"
    assert await said(room, room.bob, "docs/x") == ["ok"], "he alone shares it"
    await room.locks.acquire(room.cid, ["docs"], mode="shared")
    assert await said(room, room.bob, "docs/x") == ["locked"], "shared is for reading"
    told = (await verdicts(room, room.cid, "src/a.py"))[0]
    assert told.lock is not None and told.lock.agent == "ann"
    assert "ann (session s1)" in told.message(room.clock()) and "2027-01-15T" in told.message(room.clock())
    # A file is no pattern and no key, whatever its name.
    assert await said(room, room.cid, "src*", "{lib,src}", "db:x") == ["ok", "ok", "ok"]


async def test_what_is_refused_is_refused_among_many_and_cannot_be_acquired(room: Room) -> None:
    held = [
        "pk/{next.js,react.js}",
        "*.js",
        "{x.com,y.com}",
        "g18/*.py",
        "**/*.md",
        "src/*/x",
        "v1.2",
        "./db:x",
    ]
    asked = [
        *("pk/next.js/src/i.ts", "pk/next.js", "pk/next", "next.js/i.ts", ".js/x", "x.com/a/b.html", "x.org"),
        *(
            "g18/pkg.py/deep/y.c",
            "g18/pkg",
            "a/b.md/c",
            "a/b.mdx",
            "src/app.py/x",
            "src/app.py",
            "v1.2/a.b/c",
        ),
        *("src", "db:x", "db:x/y", "g18/*.py", "a\\b.md"),
    ]
    wrong, refused = [], 0
    for lock in held:
        await room.locks.acquire(room.ann, [lock])
        many = await said(room, room.bob, *asked)
        for file, among in zip(asked, many, strict=True):
            alone = (await said(room, room.bob, file))[0]
            refused += alone == "locked"
            target = file_target(file, fold=False)
            assert target is not None
            taken = await room.locks.acquire(room.bob, [target.path])
            if taken["success"]:
                await room.locks.release(room.bob, target.path)
            if alone != among or (alone == "locked" and taken["success"]):
                wrong.append((lock, file, alone, among, taken["success"]))
        await room.locks.release(room.ann, lock)
    assert wrong == []
    assert refused >= len(held)
    assert len(asked) > FEW


async def test_who_slept_is_stale_until_it_takes_it_anew(room: Room) -> None:
    await room.locks.acquire(room.ann, ["src/a.py"], ttl_s=60)
    await room.locks.acquire(room.ann, ["lib"], ttl_s=600)
    room.clock.now += 60
    assert await said(room, room.ann, "src/a.py", "src/b.py", "lib/x") == ["stale", "ok", "ok"]
    assert "ran out" in (await verdicts(room, room.ann, "src/a.py"))[0].message(room.clock())
    # Others come and go: it is still stale, and locked while another holds it.
    await room.locks.acquire(room.bob, ["src"])
    assert await said(room, room.ann, "src/a.py") == ["locked"]
    await room.locks.release(room.bob, "src")
    assert await said(room, room.ann, "src/a.py") == ["stale"]
    assert await said(room, room.bob, "src/a.py") == ["ok"], "it is the other's lease that is over"
    # A wider one, taken anew, will do.
    await room.locks.acquire(room.ann, ["src/**"])
    assert await said(room, room.ann, "src/a.py") == ["ok"]
    await room.locks.release(room.ann, "src/**")
    assert await said(room, room.ann, "src/a.py") == ["ok"], "and the lease that was over is forgotten"
    await room.locks.acquire(room.ann, ["src/a.py"])
    await room.locks.release(room.ann, "src/a.py")
    assert await said(room, room.ann, "src/a.py") == ["ok"], "released in time"


async def test_a_token_is_good_while_its_lease_holds(room: Room) -> None:
    first = (await room.locks.acquire(room.ann, ["a"], ttl_s=60))["fencing_token"]
    assert await said(room, room.ann, "a", "b", token=first) == ["ok", "ok"]
    assert await said(room, room.bob, "b", token=first) == ["stale"], "another's token"
    assert await said(room, room.ann, "b", token=first + 1) == ["stale"]
    room.clock.now += 60
    assert await said(room, room.ann, "a", "b", token=first) == ["stale", "stale"]
    second = (await room.locks.acquire(room.ann, ["a"]))["fencing_token"]
    assert await said(room, room.ann, "a", token=first) == ["stale"]
    assert str(first) in (await verdicts(room, room.ann, "a", token=first))[0].message(room.clock())
    assert await said(room, room.ann, "a", token=second) == ["ok"]


async def test_who_takes_what_covers_it_anew_is_stale_no_more(room: Room) -> None:
    async def lose(*paths: str) -> None:
        for path in paths:
            await room.locks.acquire(room.ann, [path], ttl_s=1)
        room.clock.now += 2

    for cover, below, beside in [
        ("src", ["src/a.py", "src/x/b.py", "src/**/*.md", "src/x/{a,b}"], ["srcs", "lib/a.py"]),
        ("web/**/*.ts", ["web/a.ts", "web/x/b.ts", "web/x/*.ts", "web/**/?.ts"], ["web/a.css", "web/x/*"]),
        ("doc/**", ["doc/*.md", "doc/a/**/b*", "{doc/a,doc/b}/*.md", "doc"], ["{doc,lib}/*.md", "docs/*.md"]),
    ]:
        await lose(*below, *beside)
        await room.locks.acquire(room.bob, ["elsewhere"])
        assert (await room.locks.acquire(room.ann, [cover]))["action"] == "acquired"
        await room.locks.release(room.ann, cover)
        for path in below:
            with pytest.raises(Refusal) as over:
                await room.locks.release(room.ann, path)
            assert over.value.code == "not_held", path
        for path in beside:
            with pytest.raises(Refusal) as over:
                await room.locks.release(room.ann, path)
            assert over.value.code == "stale_token", path
        # What is over is on record for its holder alone: no answer shows it.
        for path in (*below, *beside):
            assert (await room.locks.status(room.bob, path))["locks"] == []
            told = await room.locks.explain(room.bob, path)
            assert told["free"] and not told["locks"] and not told["why"]
        assert [one["file_path"] for one in await room.locks.check(room.bob)] == ["elsewhere"]
    assert await said(room, room.ann, "src/a.py", "src/x/b.py", "web/a.ts", "doc/a/x.md") == ["ok"] * 4
    assert await said(room, room.ann, "srcs", "web/a.css", "docs/a.md") == ["stale"] * 3


async def test_a_dead_session_is_stale_and_so_is_who_lost_it_to_a_person(room: Room) -> None:
    await room.locks.acquire(room.process, ["a"], ttl_s=3600)
    room.clock.now += room.settings.process_lease_s
    assert await said(room, room.process, "a") == ["stale"], "asleep, its own lease lies ahead"
    await room.sessions.touch(room.process)
    assert await said(room, room.process, "a") == ["stale"], "awake again"
    await room.locks.acquire(room.ann, ["b"])
    await room.locks.force_release(room.person, ForceRelease("b", "hotfix"))
    told = (await verdicts(room, room.ann, "b"))[0]
    assert (
        told.verdict == "stale"
        and "eve" in told.message(room.clock())
        and "hotfix" in told.message(room.clock())
    )


async def test_a_stale_mark_is_kept_for_a_day(room: Room) -> None:
    await room.locks.acquire(room.ann, ["a"], ttl_s=60)
    room.clock.now += 60 + 24 * 3600 - 1
    await room.locks.prune()
    assert await said(room, room.ann, "a") == ["stale"]
    room.clock.now += 2
    await room.locks.prune()
    assert await said(room, room.ann, "a") == ["ok"]


async def lost_with_claim(room: Room, work: WorkQueue, how: str) -> Caller:
    """Somebody whose claim of a task with the files `src/b.py` and `lib` was lost in this way, or given back."""
    task = (await work.submit(room.person, how, "x", files=["src/b.py", "lib"]))["task_id"]
    who = room.process if how == "its process died" else Caller("sleepy", how.replace(" ", "-"))
    number = (await work.get(who, [how], lease_s=60))["number"]
    assert await said(room, who, "src/b.py", "lib/x") == ["ok", "ok"]
    board, lane = room.board, Lane("room", "human:eve")

    async def move(to: str) -> None:
        await room.store.write(lambda tx: board.move(tx, number, to, by="eve", lane=lane))

    if how == "its lease ran out":
        room.clock.now += 61
        await work.take_back()
    elif how == "its process died":
        room.clock.now += room.settings.process_lease_s
        await work.get(room.bob, ["none"])
    elif how == "a person moved it":
        await move("pending")
    elif how == "a person archived it":
        await room.store.write(lambda tx: board.clear_all(tx, by="eve", lane=lane))
    elif how == "a person ended its session":
        assert (await room.sessions.end(who, reason="asleep", by="eve"))["ended"]
    elif how == "it ended its session":
        await room.sessions.end(who)
    elif how == "it gave it back":
        await work.release(who, task)
    else:
        await work.complete(who, task, how == "it completed it")
    return who


async def test_who_lost_a_claim_is_stale_for_its_files_and_who_ended_it_is_not(room: Room) -> None:
    work = room.work
    taken = "eve took your lock on src/b.py away"
    for how, told in {
        "its lease ran out": "ran out",
        "its process died": "ran out",
        "a person moved it": taken,
        "a person archived it": taken,
        "a person ended its session": taken,
        "it ended its session": None,
        "it gave it back": None,
        "it completed it": None,
        "it failed": None,
    }.items():
        before = len(await room.told(RELEASED))
        who = await lost_with_claim(room, work, how)
        freed = [event.outputs["lock"] for event in (await room.told(RELEASED))[before:]]
        assert all(lock["expires_at"] > lock["acquired_at"] for lock in freed), "as it was held"
        assert len(freed) == (0 if told == "ran out" else 2), how
        # Another comes and goes: nothing that it does clears the mark.
        await room.locks.acquire(room.bob, ["src"])
        assert await said(room, who, "src/b.py") == ["locked"], how
        await room.locks.release(room.bob, "src")
        assert await said(room, who, "src/b.py", "lib/x", "doc") == ["stale" if told else "ok"] * 2 + [
            "ok"
        ], how
        if told is not None:
            assert told in (await verdicts(room, who, "src/b.py"))[0].message(room.clock()), how
        with pytest.raises(Refusal) as unheld:
            await room.locks.release(who, "src/b.py")
        assert unheld.value.code == ("stale_token" if told else "not_held"), how
        assert await room.locks.check(room.bob) == []
        await room.locks.acquire(who, ["src/b.py"])
        assert await said(room, who, "src/b.py") == ["ok"], how
        await room.locks.release(who, "src/b.py")
        assert await said(room, who, "src/b.py") == ["ok"], how


async def test_the_end_of_a_claim_clears_no_loss_from_before(room: Room) -> None:
    work = room.work
    lane = Lane("room", "human:eve")
    for how in ("complete", "release", "lapse", "end"):
        who = Caller("sleepy", how)
        task = (await work.submit(room.person, "fix", "x", files=["a", "b"]))["task_id"]
        await work.get(who, lease_s=60)
        await room.locks.force_release(room.person, ForceRelease("a", "hotfix"))
        if how == "complete":
            await work.complete(who, task, True)
        elif how == "release":
            await work.release(who, task)
        elif how == "end":
            await room.sessions.end(who)
        else:
            room.clock.now += 61
            await work.take_back()
        assert await said(room, who, "a", "b") == ["stale", "stale" if how == "lapse" else "ok"], how
        assert "hotfix" in (await verdicts(room, who, "a"))[0].message(room.clock()), how
        # The same task, taken by another and ended, forgets its own locks and no mark of the first one's.
        room.clock.now += room.settings.backoff_max_s
        if how != "complete":
            assert (await work.get(room.bob))["task_id"] == task
            await work.complete(room.bob, task, True)
        assert await said(room, room.bob, "a", "b") == ["ok", "ok"], how
        assert await said(room, who, "a") == ["stale"], how
    # Another title takes nothing from who works on it.
    await work.submit(room.person, "fix", "x", files=["a"])
    number = (await work.get(room.ann))["number"]
    board = room.board
    await room.store.write(lambda tx: board.rename(tx, number, "y", by="eve", lane=lane))
    assert await said(room, room.ann, "a") == ["ok"]
    assert [lock["locked_by"] for lock in await room.locks.check(room.bob)] == ["ann"]


async def test_a_session_that_a_person_ended_is_stale(room: Room) -> None:
    await room.locks.acquire(room.ann, ["a"])
    await room.locks.acquire(room.ann, ["b"], ttl_s=1)
    room.clock.now += 2
    await room.sessions.end(room.ann, reason="its key was revoked", by="eve")
    room.clock.now += 1
    assert await said(room, room.ann, "a", "b", "c") == ["stale", "stale", "ok"]
    lost = [one.message(room.clock()) for one in await verdicts(room, room.ann, "a", "b")]
    assert "eve took your lock on a away" in lost[0] and "key was revoked" in lost[0] and "ran out" in lost[1]
    await room.sessions.touch(room.ann)
    assert await said(room, room.ann, "a", "b") == ["stale", "stale"], "awake again"
    with pytest.raises(Refusal) as over:
        await room.locks.release(room.ann, "a")
    assert (over.value.code, over.value.details["forced_by"]) == ("stale_token", "eve")
    await room.locks.acquire(room.ann, ["a"])
    await room.sessions.end(room.ann)
    assert await said(room, room.ann, "a", "b") == ["ok", "stale"], "its own end clears no loss"
    room.clock.now += 24 * 3600
    await room.locks.prune()
    assert await said(room, room.ann, "b") == ["ok"]
