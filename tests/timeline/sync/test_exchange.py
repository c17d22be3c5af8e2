"""Timelines that go between repositories."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from relay.git.checkout import open_checkout
from relay.git.kept_snapshots import KeptSnapshots
from relay.git.run import Git, GitError
from relay.git.scratch_repository import ScratchRepository
from relay.git.snapshot import Snapshotter
from relay.log import events
from relay.log.commit_trailers import EVENT, commit_trailers
from relay.log.events import Event, Lane, NewEvent
from relay.log.verify import verify
from relay.model.refusals import Refusal
from relay.model.touches import Kind, Source, Touch
from relay.store.ports import Queries, Row, Tx
from relay.timeline import checkpoints, file_changes
from relay.timeline.archive import archive, check_archives
from relay.timeline.checkpoints import CheckpointKind, make_checkpoint
from relay.timeline.conflicts import record_conflict, settle, standing
from relay.timeline.projection import KnownTree, last_tree
from relay.timeline.rewind import history
from relay.timeline.rewind.history import REWOUND, NewOperation, Target
from relay.timeline.sync import outgoing
from relay.timeline.sync.exchange import FETCHED, JOURNALS, TIMELINES, TimelineExchange
from relay.timeline.sync.importing import ImportResult
from relay.timeline.sync.lost_events import LostEvent, LostRun, find_lost
from relay.timeline.sync.order import workspace
from relay.timeline.sync.privacy import Sharing
from tests.engines import BOTH, all_events
from tests.git.repository import git, repository
from tests.timeline.sync.replicas import Replica

pytestmark = BOTH
#: What only tests ask of the tables.
Q = Queries(Path(__file__).parent)
ALL = Sharing.of(["CLAUDE", "ann"])


class Room:
    """A clone of the repository with a room in it."""

    def __init__(self, replica: Replica, snapshotter: Snapshotter, kept: KeptSnapshots) -> None:
        self.replica, self.snapshotter, self.kept = replica, snapshotter, kept
        self.repo = snapshotter.checkout.top
        self.exchange = TimelineExchange(replica.store, snapshotter.checkout.git, kept)

    @classmethod
    async def at(cls, folder: Path, name: str, database: str = "") -> Room:
        repo = folder / f"{name}-repo"
        if not repo.exists():
            git(folder, "clone", "-q", str(folder / "hub.git"), str(repo))
            git(repo, "config", "user.useConfigOnly", "true")
        checkout = await open_checkout(repo)
        scratch = ScratchRepository(folder / f"{name}-scratch.git")
        await scratch.empty(checkout.hash)
        await scratch.borrow([checkout])
        replica = await Replica.at(folder, database or name, known=not database)
        replica.agent = events.Lane(f"s-{name}", "CLAUDE")
        return cls(replica, Snapshotter(scratch, checkout, "main"), KeptSnapshots(scratch, checkout))

    async def write(self, path: str, text: str, parents: list[str] | None = None) -> Event:
        """The agent writes a file, and the turn's end keeps the snapshot."""
        (self.repo / path).write_text(text)
        taken = await self.snapshotter.take()
        await self.kept.keep(taken.tree, taken.parents, lane=self.replica.agent.key, reason="turn", at=1.8e9)
        blob = git(self.repo, "rev-parse", f"{taken.tree}:{path}") if taken.tree else ""

        async def work(tx: Tx) -> Event | None:
            touch = Touch(path, None, blob, Kind.WRITE)
            return await file_changes.record_changes(
                tx,
                self.replica.agent,
                [touch],
                source=Source.TREE,
                before=None,
                after=taken.tree,
                worktree="CLAUDE",
                parents=parents or [],
            )

        event = await self.replica.store.write(work)
        assert event is not None
        return event

    async def heads(self) -> list[Row]:
        rows = await self.replica.store.read(lambda tx: tx.all(Q.all_lanes))
        return [dict(row) for row in rows]


@pytest.fixture
async def rooms(tmp_path: Path) -> AsyncIterator[tuple[Room, Room]]:
    first = repository(tmp_path / "first")
    git(tmp_path, "clone", "-q", "--bare", str(first), "hub.git")
    ann, bob = await Room.at(tmp_path, "ann"), await Room.at(tmp_path, "bob")
    yield ann, bob
    for room in (ann, bob):
        await room.replica.store.close()


async def test_two_rooms_see_each_other(rooms: tuple[Room, Room], tmp_path: Path) -> None:
    ann, bob = rooms
    wrote = await ann.write("a.py", "by ann\n")
    pushed = await ann.exchange.push("origin", ALL)
    assert (pushed.events, pushed.packs, pushed.trees) == (1, 1, 1)
    done = await bob.exchange.pull("origin")
    assert (done.added, done.refused, done.waiting) == (1, (), ())
    assert git(bob.repo, "show", f"{wrote.snapshot}:a.py") == "by ann", "its tree can be shown here"
    git(bob.repo, "gc", "-q", "--prune=now")
    assert git(bob.repo, "show", f"{wrote.snapshot}:a.py") == "by ann"

    answered = await bob.write("b.py", "by bob\n", [wrote.id])
    await bob.exchange.push("origin", ALL)
    await ann.write("c.py", "more\n")
    await ann.exchange.push("origin", ALL)
    assert (await ann.exchange.pull("origin")).added == 1
    assert (await bob.exchange.pull("origin")).added == 1
    assert (await bob.exchange.pull("origin")).added == 0
    there = await ann.replica.store.read(lambda tx: events.get(tx, answered.id))
    assert there is not None
    assert await ann.replica.store.read(lambda tx: events.has_seen(tx, there, wrote))
    unions = [await room.replica.union() for room in rooms]
    assert [event.id for event in unions[0]] == [event.id for event in unions[1]]
    assert workspace(unions[0]) == workspace(unions[1])
    for room in rooms:
        assert await verify(room.replica.store) == []
        assert git(room.repo, "log", "--branches", "--format=%s") == "first", "no branch has any of it"
    assert sorted(git(tmp_path / "hub.git", "for-each-ref", "--format=%(refname)").split()) == sorted(
        ["refs/heads/main", f"{TIMELINES}{ann.replica.id}", f"{TIMELINES}{bob.replica.id}"]
    )


async def test_a_push_gives_what_is_new_and_shared(rooms: tuple[Room, Room]) -> None:
    ann, bob = rooms
    await ann.write("a.py", "1\n")
    await ann.replica.append(NewEvent("message.posted", ann.replica.person, outputs="between us"))
    assert (await ann.exchange.push("origin", Sharing())).events == 0
    assert (await bob.exchange.pull("origin")).added == 0
    assert (await ann.exchange.push("origin", Sharing.of(["CLAUDE"]))).events == 1
    assert (await ann.exchange.push("origin", Sharing.of(["CLAUDE"]))).events == 0
    assert (await ann.exchange.push("origin", ALL)).events == 1, "of who is shared now, all"
    await ann.replica.store.write(
        lambda tx: events.put_setting(tx, f"timeline.sent:{TIMELINES}{ann.replica.id}", "{}")
    )
    assert (await ann.exchange.push("origin", ALL)).events == 0, "the ref says what was given"
    assert (await bob.exchange.pull("origin")).added == 2


async def test_two_clones_of_one_database_push_in_turn(rooms: tuple[Room, Room], tmp_path: Path) -> None:
    ann, bob = rooms
    git(tmp_path, "clone", "-q", str(tmp_path / "hub.git"), "second")
    second = await open_checkout(tmp_path / "second")
    kept = KeptSnapshots(ScratchRepository(tmp_path / "second-scratch.git"), second)
    exchanges = [ann.exchange, TimelineExchange(ann.replica.store, second.git, kept)]
    for at in range(4):
        await ann.write("a.py", f"{at}\n")
        assert (await exchanges[at % 2].push("origin", ALL)).events == 1
    assert (await bob.exchange.pull("origin")).added == 4


async def test_who_shares_a_database_needs_no_push_and_may(
    rooms: tuple[Room, Room], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob = rooms
    second = await Room.at(tmp_path, "second", "ann")
    try:
        first = await ann.write("a.py", "by ann\n")
        other = await second.write("b.py", "by the second\n", [first.id])
        for room in (ann, second):
            assert [event.id for event in await all_events(room.replica.store)] == [first.id, other.id]
            assert (await room.exchange.pull("origin")).added == 0
        # Both push besides: they are one replica, and nobody gets anything twice.
        assert (await ann.exchange.push("origin", ALL)).events == 2
        assert (await second.exchange.push("origin", ALL)).events == 0
        for room in (ann, second):
            assert (await room.exchange.pull("origin")).added == 0
        assert git(tmp_path / "hub.git", "for-each-ref", "--format=%(refname)", TIMELINES).count("\n") == 0
        assert (await bob.exchange.pull("origin")).added == 2
        # Each clone keeps a journal, and goes on with its own.
        for room in (ann, second):
            assert (await room.exchange.keep()).events == 2
            monkeypatch.setattr(room.exchange, "_given", None)
        await ann.write("a.py", "more\n")
        for room in (second, ann):
            assert (await room.exchange.keep()).events == 1
            assert await verify(room.replica.store) == []
    finally:
        await second.replica.store.close()


async def test_what_waits_is_read_again(rooms: tuple[Room, Room], tmp_path: Path) -> None:
    ann, bob = rooms
    eve = await Room.at(tmp_path, "eve")
    try:
        first = await ann.write("a.py", "1\n")
        await ann.exchange.push("origin", ALL)
        await bob.exchange.pull("origin")
        second = await bob.write("b.py", "2\n", [first.id])
        await bob.exchange.push("origin", ALL)
        # Ann's ref is away for a while.
        ref = f"{TIMELINES}{ann.replica.id}"
        commit = git(tmp_path / "hub.git", "rev-parse", ref)
        git(tmp_path / "hub.git", "update-ref", "-d", ref)
        done = await eve.exchange.pull("origin")
        assert [(event.id, event.missing) for event in done.waiting] == [(second.id, (first.id,))]
        git(ann.repo, "push", "-q", "origin", f"{commit}:{ref}")
        done = await eve.exchange.pull("origin")
        assert (done.added, done.waiting) == (2, ())
    finally:
        await eve.replica.store.close()


async def test_rebuilt_from_refs(rooms: tuple[Room, Room], tmp_path: Path) -> None:
    ann, bob = rooms
    rng = random.Random(3)
    with pytest.raises(Refusal):
        await ann.exchange.restore()
    theirs = await bob.write("b.py", "by bob\n")
    await bob.exchange.push("origin", ALL)
    await ann.exchange.pull("origin")
    for at in range(12):
        await ann.replica.act(rng)
        if at == 5:
            await ann.exchange.keep()
    wrote = await ann.write("a.py", "by ann\n", [theirs.id])
    lane, tree = Lane(wrote.session, wrote.lane), wrote.snapshot or ""
    kind = CheckpointKind.USER
    await ann.replica.store.write(lambda tx: make_checkpoint(tx, lane, "here", tree, kind))
    marked = await ann.replica.store.read(checkpoints.newest)
    sides = [("CLAUDE", "CODEX"), ("CLAUDE", "main")]
    found = [
        await ann.replica.store.write(lambda tx, two=two: record_conflict(tx, two, ["a.py"])) for two in sides
    ]
    await ann.replica.store.write(lambda tx: settle(tx, found[0]))
    await ann.exchange.keep()
    await ann.exchange.push("origin", ALL)
    before, union = await ann.heads(), await ann.replica.union()
    recorded = [event.id for event in await all_events(ann.replica.store) if event.id != theirs.id]
    await ann.replica.store.close()

    # The database is gone; the repository is there.
    ann = await Room.at(tmp_path, "ann", "ann-again")
    try:
        done = await ann.exchange.restore()
        assert (done.added, done.refused, done.waiting) == (len(union), (), ())
        assert await ann.heads() == before
        assert await ann.replica.store.read(checkpoints.newest) == marked
        assert await ann.replica.store.read(standing) == found[1:], "so it is not found again"
        restored = [event.id for event in await all_events(ann.replica.store) if event.id != theirs.id]
        assert restored == recorded, "in the order in which they were recorded"
        assert [event.id for event in await ann.replica.union()] == [event.id for event in union]
        assert await verify(ann.replica.store) == []
        # It goes on where it was, under the same name.
        more = await ann.write("a.py", "again\n")
        assert more.seq == wrote.seq + 2
        assert (await ann.exchange.push("origin", ALL)).events == 1
        assert (await bob.exchange.pull("origin")).refused == ()
        assert (await bob.replica.store.read(lambda tx: events.get(tx, more.id))) is not None
    finally:
        await ann.replica.store.close()


async def test_what_the_journal_lacks_comes_from_the_archives(
    rooms: tuple[Room, Room], tmp_path: Path
) -> None:
    """The journal of a clone that came later begins behind what was archived before."""
    ann, bob = rooms
    folder, rng = tmp_path / "archive", random.Random(5)
    theirs = await bob.write("b.py", "by bob\n")
    await bob.exchange.push("origin", ALL)
    await ann.exchange.pull("origin")
    await ann.write("a.py", "by ann\n", [theirs.id])
    for _ in range(12):
        await ann.replica.act(rng)
    await ann.exchange.keep()
    union = await ann.replica.union()
    upto = await ann.replica.store.read(events.last_pos)
    done = await archive(ann.replica.store, folder, upto)
    assert done.events > done.kept and len(done.parts) == 1
    whole = ann.repo, f"{JOURNALS}{ann.replica.id}"
    journal = git(whole[0], "rev-parse", whole[1])
    git(whole[0], "update-ref", "-d", whole[1])
    last = await ann.write("a.py", "more\n")
    await ann.exchange.keep()
    assert await check_archives(ann.replica.store, folder) == []
    later = git(whole[0], "rev-parse", whole[1])
    await ann.replica.store.close()
    ids = {event.id for event in union}
    part = done.parts[0]
    for number, (commit, given, what) in enumerate(
        [
            (later, folder, "whole"),
            (journal, None, "the journal alone, as far as it goes"),
            (later, tmp_path / "none", "named"),
        ]
    ):
        git(whole[0], "update-ref", whole[1], commit)
        again = await Room.at(tmp_path, "ann", f"ann-again-{number}")
        try:
            back = await again.exchange.restore(archives=given)
            have = {event.id for event in await again.replica.union()}
            if what == "named":
                assert any(f"the archive {part.file} cannot be read" in each.reason for each in back.refused)
                continue
            assert (back.refused, back.waiting) == ((), ()), what
            assert ids <= have and (last.id in have) == (commit == later)
            assert await verify(again.replica.store) == []
        finally:
            await again.replica.store.close()


async def test_a_log_is_brought_back_into_an_empty_database_only(
    rooms: tuple[Room, Room], tmp_path: Path
) -> None:
    ann, _ = rooms
    first = await ann.write("a.py", "1\n")
    await ann.exchange.keep()
    with pytest.raises(Refusal, match="empty database only"):
        await ann.exchange.restore()
    await ann.replica.store.close()
    # Another room of this repository has a journal too, or this one had another id before.
    git(ann.repo, "update-ref", f"{JOURNALS}{'0' * 16}", f"{JOURNALS}{ann.replica.id}")
    ann = await Room.at(tmp_path, "ann", "ann-again")
    store = ann.replica.store
    try:
        with pytest.raises(Refusal, match="--replica") as refused:
            await ann.exchange.restore()
        journals = sorted(refused.value.details["candidates"])
        assert journals[0] == "0" * 16
        with pytest.raises(Refusal, match="the journal of nobody"):
            await ann.exchange.restore("nobody")
        # Cut off behind the events: the next one goes on, and then it is over.
        real, ann.exchange._import = ann.exchange._import, cut_off(ann.exchange)  # type: ignore[method-assign]
        with pytest.raises(GitError):
            await ann.exchange.restore(journals[1])
        ann.exchange._import = real  # type: ignore[method-assign]
        assert await store.read(events.last_pos)
        assert (await ann.exchange.restore()).refused == ()
        assert await store.read(lambda tx: last_tree(tx, "CLAUDE")) == KnownTree(
            str(first.snapshot), None, first.id
        )
        with pytest.raises(Refusal, match="empty database only"):
            await ann.exchange.restore()
    finally:
        await store.close()


def cut_off(exchange: TimelineExchange) -> Callable[..., Awaitable[ImportResult]]:
    real = exchange._import

    async def work(*args: Any, **more: Any) -> ImportResult:
        await real(*args, **more)
        raise GitError("cat-file", 1, "cut off")

    return work


async def test_what_commits_name_and_no_pack_has(rooms: tuple[Room, Room], tmp_path: Path) -> None:
    ann, bob = rooms
    kept = await ann.write("a.py", "1\n")
    await ann.exchange.keep()
    lost = [await ann.write("a.py", f"{at}\n") for at in (2, 3)]
    theirs = await bob.write("b.py", "by bob\n")
    for event in (kept, lost[1], theirs):
        said = commit_trailers(event, agent="CLAUDE", branch="tw/ann/claude", tree="0" * 40)
        git(ann.repo, "commit", "-q", "--allow-empty", "-m", "Work", "-m", "\n".join(said))
    commits = git(ann.repo, "log", "--format=%H").split()
    git(ann.repo, "commit", "-q", "--allow-empty", "-m", f"x\n\n{EVENT}: no event")
    assert [event.id for event in (await find_lost(ann.replica.store, Git(ann.repo))).events] == [theirs.id]
    await ann.replica.store.close()
    ann = await Room.at(tmp_path, "ann", "ann-again")
    try:
        assert (await ann.exchange.restore()).added == 1
        found = await find_lost(ann.replica.store, Git(ann.repo))
        assert found.events == (
            LostEvent(theirs.id, commits[0], "CLAUDE"),
            LostEvent(lost[1].id, commits[1], "CLAUDE"),
        )
        assert found.runs == (LostRun(ann.replica.agent.key, 2, 3),), "of bob's lane nothing is known here"
    finally:
        await ann.replica.store.close()


async def shown(room: Room) -> list[object]:
    """What would be undone, and what a checkpoint's name stands for."""
    store = room.replica.store
    return [
        await store.read(history.to_undo),
        await store.read(lambda tx: checkpoints.find(tx, "before lunch")),
    ]


async def test_rewinds_and_checkpoints_come_back(rooms: tuple[Room, Room], tmp_path: Path) -> None:
    ann, _ = rooms
    wrote = await ann.write("a.py", "1\n")
    answer = {"branch": "rw/claude-1", "files": [], "undo_with": "relay timeline undo"}
    new = NewOperation(
        REWOUND,
        None,
        "CLAUDE",
        "",
        Target.BRANCH,
        "refs/heads/rw/claude-1",
        "0" * 40,
        "1" * 40,
        "2" * 40,
        answer,
        "ann",
        ann.replica.person,
        [wrote.id],
    )

    async def work(tx: Tx) -> None:
        tree, kind = str(wrote.snapshot), CheckpointKind.USER
        await make_checkpoint(tx, ann.replica.person, "before lunch", tree, kind)
        event = await history.begin(tx, new)
        operation = await history.of_event(tx, event.id)
        assert operation is not None
        await history.finish(tx, operation)

    await ann.replica.store.write(work)
    before = await shown(ann)
    assert None not in before
    await ann.exchange.keep()
    await ann.replica.store.close()
    ann = await Room.at(tmp_path, "ann", "ann-again")
    try:
        await ann.exchange.restore()
        assert await shown(ann) == before
    finally:
        await ann.replica.store.close()


async def test_keeping_a_few_events_looks_at_no_more(
    rooms: tuple[Room, Room], monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, _ = rooms
    rows = 0
    real = outgoing.as_recorded

    async def counting(tx: Tx, found: Sequence[Row]) -> list[Row]:
        nonlocal rows
        rows += len(found)
        return await real(tx, found)

    monkeypatch.setattr(outgoing, "as_recorded", counting)
    for at in range(60):
        await ann.replica.append(NewEvent("message.posted", ann.replica.person, outputs=str(at)))
    assert (await ann.exchange.keep()).events == 60
    assert rows == 60
    # Another process has kept some meanwhile: nothing is kept twice, and the journal is not read for it.
    second = TimelineExchange(ann.replica.store, ann.exchange._git, ann.kept)
    monkeypatch.setattr(ann.exchange, "_given", None)
    monkeypatch.setattr(second, "_given", None)
    for exchange in (ann.exchange, second, ann.exchange):
        for at in range(5):
            await ann.replica.append(NewEvent("message.posted", ann.replica.person, outputs=str(at)))
        rows = 0
        assert (await exchange.keep()).events == rows == 5
    assert (await ann.exchange.keep()).packs == 0


async def test_the_journal_stays_here(rooms: tuple[Room, Room], tmp_path: Path) -> None:
    ann, _ = rooms
    await ann.write("a.py", "1\n")
    assert (await ann.exchange.keep()).events == 1
    assert (await ann.exchange.keep()).events == 0
    await ann.exchange.push("origin", Sharing())
    assert git(tmp_path / "hub.git", "for-each-ref", "--format=%(refname)") == "refs/heads/main"
    assert (
        git(ann.repo, "for-each-ref", "--format=%(refname)", JOURNALS, FETCHED)
        == f"{JOURNALS}{ann.replica.id}"
    )


async def test_a_damaged_pack_is_named_and_the_rest_comes_in(
    rooms: tuple[Room, Room], tmp_path: Path
) -> None:
    ann, bob = rooms
    await ann.write("a.py", "1\n")
    await ann.exchange.push("origin", ALL)
    ref = f"{TIMELINES}{'0' * 16}"
    git(ann.repo, "push", "-q", "origin", f"main:{ref}", f"main:{TIMELINES}somebody")
    done = await bob.exchange.pull("origin")
    assert done.added == 1
    assert sorted(event.origin for event in done.refused) == ["0" * 16, "somebody"]


async def test_a_remote_that_is_none(rooms: tuple[Room, Room]) -> None:
    ann, _ = rooms
    await ann.write("a.py", "1\n")
    for remote in ("nowhere", "--upload-pack=touch x", "ext::touch x"):
        with pytest.raises(GitError):
            await ann.exchange.pull(remote)
        with pytest.raises(GitError):
            await ann.exchange.push(remote, ALL)
    assert not (ann.repo / "x").exists()
