"""Archives: old events leave the database, and the log is checked across the cut."""

from __future__ import annotations

import asyncio
import hashlib
import random
from pathlib import Path

import pytest

from relay.log import events
from relay.log.archived import ARCHIVED, archived_parts
from relay.log.events import Lane, LaneError, NewEvent
from relay.log.verify import LogFault, verify
from relay.store.ports import Queries, Row, Store, Tx
from relay.timeline import archive as archives
from relay.timeline import projection, reading
from relay.timeline.archive import archive, check_archives, needs, preview, read_archive
from relay.timeline.sync.packs import pack, unpack
from relay.timeline.sync.privacy import Sharing
from tests.engines import BOTH
from tests.timeline.sync.replicas import Replica

pytestmark = BOTH
Q = Queries(Path(__file__).parent)
SHARED = Sharing.of(["CLAUDE"])


async def lived(folder: Path, name: str = "ann", acts: int = 60, seed: int = 1) -> Replica:
    """A room in which things have happened."""
    replica = await Replica.at(folder, name)
    dice = random.Random(seed)
    for _ in range(acts):
        await replica.act(dice)
    return replica


async def faults(store: Store, folder: Path) -> list[LogFault]:
    return [*await check_archives(store, folder), *await verify(store, batch=7)]


async def tables(store: Store) -> list[list[Row]]:
    async def work(tx: Tx) -> list[list[Row]]:
        return [[dict(row) for row in await tx.all(query)] for query in (Q.all_touches, Q.all_trees)]

    return await store.read(work)


async def last_pos(store: Store) -> int:
    return await store.read(events.last_pos)


async def places(store: Store) -> list[int]:
    async def work(tx: Tx) -> list[int]:
        return [event.pos for event in await events.read_after(tx, 0, limit=100_000)]

    return await store.read(work)


@pytest.mark.parametrize("seed", range(4))
async def test_archive_keeps_verify(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "AT_ONCE", 20)
    monkeypatch.setattr(archives, "BATCH", 8)
    replica, dice, folder = (
        await lived(tmp_path, acts=40, seed=seed),
        random.Random(seed),
        tmp_path / "archive",
    )
    store, workspace = replica.store, await replica.store.read(reading.workspace)
    for _ in range(3):
        before, upto = await places(store), await last_pos(store) * 2 // 3
        expected = await preview(store, upto)
        done = await archive(store, folder, upto)
        assert (done.events, done.kept) == (expected.events, expected.kept) and done.events > done.kept
        assert done.size == sum((folder / part.file).stat().st_size for part in done.parts) > 0
        assert len(await places(store)) == len(before) - done.events + done.kept + len(done.parts)
        assert await faults(store, folder) == []
        # What is shown of the files is as it was, but for who had written before the last.
        now = await store.read(reading.workspace)
        assert [(file["path"], file["event"]) for file in now] == [
            (file["path"], file["event"]) for file in workspace
        ]
        kept = await tables(store)
        await projection.rebuild(store)
        assert await tables(store) == kept
        for _ in range(15):
            await replica.act(dice)
        assert await faults(store, folder) == []
        workspace = await store.read(reading.workspace)
    parts = await store.read(archived_parts)
    found = [event for part in parts for event in await asyncio.to_thread(read_archive, folder, part)]
    assert [event.pos for event in found] == sorted({event.pos for event in found})
    assert (await archive(store, folder, parts[-1].upto)).parts == ()
    await store.close()


async def test_an_archived_event_is_still_a_cause(tmp_path: Path) -> None:
    replica = await Replica.at(tmp_path, "ann")
    store, lane, other = replica.store, Lane("s1", "A"), Lane("s2", "B")
    cycle = Lane("room", "cycle:1", short=True)
    first = await replica.append(NewEvent("said", lane, outputs="x"))
    short = await replica.append(NewEvent("turn.started", cycle, parents=[first.id]))
    await archive(store, tmp_path / "archive", short.pos)
    assert await store.read(lambda tx: events.get(tx, first.id)) is None
    later = await replica.append(
        NewEvent("said", other, outputs="y", parents=[first.id], causal_deps=[short.id])
    )
    assert later.clock == {lane.key: 1, other.key: 1}
    assert await store.read(lambda tx: events.seen_by(tx, later.clock, cycle.key, 1))
    with pytest.raises(LaneError, match="unknown events"):
        await replica.append(NewEvent("said", other, parents=["0" * 64]))
    again = await replica.append(NewEvent("said", lane, outputs="z"))
    assert (again.seq, again.prev) == (2, first.id)
    assert await faults(store, tmp_path / "archive") == []
    await store.close()


async def test_a_forged_archive_is_named(tmp_path: Path) -> None:
    replica, folder = await lived(tmp_path), tmp_path / "archive"
    store = replica.store
    done = await archive(store, folder, await last_pos(store))
    (part,) = done.parts
    file = folder / part.file
    data = file.read_bytes()
    lines = unpack(data)
    for wrong, what in (
        (pack(lines[:-1]), "is not what was archived"),
        (data[:-1], "is not what was archived"),
        (None, "is not there"),
    ):
        if wrong is None:
            file.unlink()
        else:
            file.write_bytes(wrong)
        (fault,) = await faults(store, folder)
        assert fault.id == part.file and what in fault.what
    file.write_bytes(data)
    assert await faults(store, folder) == []
    await store.close()


async def test_a_digest_that_was_changed_with_its_archive_is_found(tmp_path: Path) -> None:
    """The event of the cut has a hash too."""
    replica, folder = await lived(tmp_path), tmp_path / "archive"
    store = replica.store
    (part,) = (await archive(store, folder, await last_pos(store))).parts
    file = folder / part.file
    forged = pack(unpack(file.read_bytes())[:-1])
    file.write_bytes(forged)
    digest = hashlib.sha256(forged).hexdigest()
    await store.write(lambda tx: tx.execute(Q.forge_digest, type=ARCHIVED, old=part.sha256, new=digest))
    named = await faults(store, folder)
    assert "its content is not what was hashed" in {fault.what for fault in named}
    assert any("other events than were archived" in fault.what for fault in named)
    await store.close()


async def test_an_event_that_went_without_an_archive_is_missed(tmp_path: Path) -> None:
    replica, folder = await lived(tmp_path), tmp_path / "archive"
    store = replica.store
    done = await archive(store, folder, await last_pos(store) // 2)
    await store.write(lambda tx: tx.execute(Q.drop_event, pos=done.upto + 2))
    assert any("jumps" in fault.what or "missing" in fault.what for fault in await faults(store, folder))
    await store.close()


async def test_what_is_needed_is_named(tmp_path: Path) -> None:
    replica = await lived(tmp_path, acts=20)
    store, upto = replica.store, await last_pos(replica.store)
    assert await needs(store, upto) == []

    async def work(tx: Tx) -> None:
        await tx.execute(events.Q.put_follower, name="airspace", pos=4)
        await events.put_setting(tx, "timeline.sent:refs/relay/timeline/0", '{"pos":2}')
        await events.put_setting(tx, "timeline.sent:refs/relay/journal/0", f'{{"pos":{upto}}}')

    await store.write(work)
    named = await needs(store, upto)
    assert [need.pos for need in named] == [3, 5]
    assert "refs/relay/timeline/0" in named[0].what and "airspace" in named[1].what
    assert await needs(store, 2) == []
    await store.close()


async def test_others_go_on_after_the_cut(tmp_path: Path) -> None:
    """What was taken in and is archived is not taken in again, and what comes behind it is."""
    ann, ben = await lived(tmp_path, "ann"), await lived(tmp_path, "ben", seed=2)
    await ben.take([(ann.id, await ann.lines())])
    done = await archive(ben.store, tmp_path / "archive", await last_pos(ben.store))
    assert done.events > 0
    again = await ben.take([(ann.id, await ann.lines())])
    assert (again.added, again.refused, again.waiting) == (0, (), ())
    dice = random.Random(3)
    for _ in range(10):
        await ann.act(dice)
    more = await ben.take([(ann.id, await ann.lines())])
    assert more.added > 0 and (more.refused, more.waiting) == ((), ())
    assert await faults(ben.store, tmp_path / "archive") == []
    # Causes that are archived go out as what stays at home does.
    await archive(ann.store, tmp_path / "of-ann", await last_pos(ann.store))
    lane = Lane("s-new", "CLAUDE")
    parts = await ann.store.read(archived_parts)
    found = await asyncio.to_thread(read_archive, tmp_path / "of-ann", parts[0])
    cause = next(event.event.id for event in found if event.lane == ann.person.key)
    await ann.change(lane, "new.py", "1", [cause])
    eve = await Replica.at(tmp_path, "eve")
    taken = await eve.take(
        [(ann.id, [line for line in await ann.lines(SHARED) if "s-new" in line or "stub" in line])]
    )
    assert taken.added == 1 and taken.waiting == ()
    for replica in (ann, ben, eve):
        await replica.store.close()
