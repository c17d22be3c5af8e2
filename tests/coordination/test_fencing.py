from __future__ import annotations

import pytest

from relay.coordination.lock import Verdict
from relay.model import Rejected
from tests.coordination.conftest import Room
from tests.engines import BOTH

pytestmark = BOTH


async def verdicts(room: Room, who: object, *paths: str, token: int | None = None) -> list[Verdict]:
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


async def test_who_slept_is_stale_until_it_takes_it_anew(room: Room) -> None:
    await room.locks.acquire(room.ann, ["src/a.py"], ttl_s=60)
    await room.locks.acquire(room.ann, ["lib"], ttl_s=600)
    room.clock.at += 60
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
    room.clock.at += 60
    assert await said(room, room.ann, "a", "b", token=first) == ["stale", "stale"]
    second = (await room.locks.acquire(room.ann, ["a"]))["fencing_token"]
    assert await said(room, room.ann, "a", token=first) == ["stale"]
    assert str(first) in (await verdicts(room, room.ann, "a", token=first))[0].message(room.clock())
    assert await said(room, room.ann, "a", token=second) == ["ok"]


async def test_who_takes_what_covers_it_anew_is_stale_no_more(room: Room) -> None:
    async def lose(*paths: str) -> None:
        for path in paths:
            await room.locks.acquire(room.ann, [path], ttl_s=1)
        room.clock.at += 2

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
            with pytest.raises(Rejected) as over:
                await room.locks.release(room.ann, path)
            assert over.value.code == "not_held", path
        for path in beside:
            with pytest.raises(Rejected) as over:
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
    room.clock.at += room.settings.process_lease_s
    assert await said(room, room.process, "a") == ["stale"], "asleep, its own lease lies ahead"
    await room.sessions.touch(room.process)
    assert await said(room, room.process, "a") == ["stale"], "awake again"
    await room.locks.acquire(room.ann, ["b"])
    await room.locks.force_release(room.person, "b", reason="hotfix")
    told = (await verdicts(room, room.ann, "b"))[0]
    assert (
        told.verdict == "stale"
        and "eve" in told.message(room.clock())
        and "hotfix" in told.message(room.clock())
    )


async def test_a_stale_mark_is_kept_for_a_day(room: Room) -> None:
    await room.locks.acquire(room.ann, ["a"], ttl_s=60)
    room.clock.at += 60 + 24 * 3600 - 1
    await room.locks.prune()
    assert await said(room, room.ann, "a") == ["stale"]
    room.clock.at += 2
    await room.locks.prune()
    assert await said(room, room.ann, "a") == ["ok"]
