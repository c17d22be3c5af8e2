"""What agents did to files, on the log: who had seen which write."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from relay.log import events
from relay.log.events import Event, Lane, NewEvent
from relay.log.verify import verify
from relay.model.touches import Kind, Source, Touch
from relay.store.ports import Queries, Row, Store, Tx
from relay.timeline import file_changes
from relay.timeline.projection import rebuild
from tests import engines
from tests.engines import BOTH, all_events

pytestmark = BOTH
SCHEMAS = engines.wings("log", "timeline")
#: What only tests ask of the tables.
Q = Queries(Path(__file__).parent)
A, B = Lane("s1", "CLAUDE"), Lane("s2", "CODEX")
#: All that the issue asks for, with RELAY_HISTORIES=10000.
HISTORIES = int(os.environ.get("RELAY_HISTORIES", "500"))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await engines.open_store(tmp_path, SCHEMAS)
    yield opened
    await opened.close()


def touch(path: str, before: str | None, after: str | None) -> Touch:
    return Touch(path, before, after, Kind.WRITE if after else Kind.DELETE)


async def change(
    tx: Tx, lane: Lane, *touches: Touch, parents: Sequence[str] = (), source: Source = Source.TREE
) -> Event:
    event = await file_changes.record_changes(
        tx, lane, touches, source=source, before="t0", after="t1", parents=parents
    )
    assert event is not None
    return event


async def put(store: Store, lane: Lane, *touches: Touch, parents: Sequence[str] = ()) -> Event:
    return await store.write(lambda tx: change(tx, lane, *touches, parents=parents))


async def rows(store: Store) -> list[Row]:
    return [dict(row) for row in await store.read(lambda tx: tx.all(Q.all_touches))]


async def test_a_write_that_nobody_showed_is_unseen(store: Store) -> None:
    first = await put(store, A, touch("app.py", "0", "a"))
    blind = await put(store, B, touch("app.py", "0", "b"), touch("other.py", None, "c"))
    assert blind.outputs["unseen"] == [{"path": "app.py", "event": first.id}]
    assert blind.causal_deps == ()
    assert blind.file_touches == ("app.py", "other.py")
    assert (blind.inputs, blind.snapshot) == ({"tree": "t0"}, "t1")
    assert [(row["path"], row["lane"], row["unseen"]) for row in await rows(store)] == [
        ("app.py", A.key, None),
        ("app.py", B.key, first.pos),
        ("other.py", B.key, None),
    ]


async def test_a_write_whose_content_stood_in_the_tree_is_a_dependency(store: Store) -> None:
    first = await put(store, A, touch("app.py", "0", "a"))
    second = await put(store, B, touch("app.py", "a", "b"))
    assert second.causal_deps == (first.id,)
    assert "unseen" not in second.outputs
    assert second.clock == {A.key: 1, B.key: 1}


async def test_what_the_author_of_a_seen_write_had_seen_is_seen(store: Store) -> None:
    first = await put(store, A, touch("app.py", "0", "a"))
    await put(store, B, touch("lib.py", "0", "b"), parents=[first.id])
    third = await put(store, Lane("s3", "GEMINI"), touch("lib.py", "b", "c"), touch("app.py", "0", "d"))
    assert "unseen" not in third.outputs


async def test_a_deleted_file_is_content_too(store: Store) -> None:
    gone = await put(store, A, touch("app.py", "0", None))
    made = await put(store, B, touch("app.py", None, "b"))
    assert made.causal_deps == (gone.id,)


async def test_a_read_depends_on_the_last_write_that_its_lane_could_see(store: Store) -> None:
    written = await put(store, A, touch("app.py", "0", "a"))
    for blob, expected in (("0", ()), ("a", (written.id,))):
        read = await store.write(
            lambda tx, blob=blob: file_changes.record_reads(tx, B, {"app.py": blob}, source="tool")
        )
        assert read is not None
        assert read.causal_deps == expected
        assert read.outputs == {"paths": ["app.py"], "source": "tool"}
    assert [row["pos"] for row in await rows(store)] == [written.pos], "a read is no write"


async def test_nothing_touched_is_no_event(store: Store) -> None:
    async def work(tx: Tx) -> None:
        changed = await file_changes.record_changes(tx, A, [], source=Source.TREE, before="t0", after="t0")
        assert changed is await file_changes.record_reads(tx, A, {}, source="tool") is None

    await store.write(work)
    assert await store.read(events.last_pos) == 0


async def test_a_refused_record_leaves_no_row_and_no_gap(store: Store) -> None:
    await put(store, A, touch("app.py", "0", "a"))
    with pytest.raises(events.LaneError):
        await put(store, A, touch("app.py", "a", "b"), parents=["0" * 64])
    again = await put(store, A, touch("app.py", "a", "b"))
    assert again.seq == 2
    assert len(await rows(store)) == 2


async def test_what_is_refused_at_any_step_leaves_no_row_and_no_gap(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict, the event and the rows are one: whichever refuses, none is there, and the lane goes on."""
    await put(store, B, touch("app.py", "0", "b"))
    kept = await rows(store)

    async def refuse(*_: object, **__: object) -> None:
        raise events.LaneError("refused by the test")

    async def read(tx: Tx) -> None:
        await file_changes.record_reads(tx, A, {"app.py": "b"}, source="tool")

    steps = [
        (file_changes, "seen_writes"),
        (events, "append"),
        (file_changes, "project"),
        (events, "_put_head"),
    ]
    for number, (module, step) in enumerate(steps):
        with monkeypatch.context() as patched:
            patched.setattr(module, step, refuse)
            for work in (lambda tx: change(tx, A, touch("app.py", "b", "c")), read):
                with pytest.raises(events.LaneError, match="refused"):
                    await store.write(work)
        assert await rows(store) == kept
        assert [event.type for event in await all_events(store)] == ["files.changed"] * (number + 1)
        done = await put(store, A, touch(f"{number}.py", None, "c"))
        assert done.seq == number + 1
        kept = await rows(store)

    async def many(tx: Tx) -> None:
        await change(tx, A, touch("first.py", None, "c"))
        await change(tx, B, touch("second.py", None, "c"), parents=["0" * 64])

    with pytest.raises(events.LaneError):
        await store.write(many)
    assert await rows(store) == kept
    assert await verify(store) == []


def test_touches_are_read_back() -> None:
    renamed = Touch("new.py", None, "b", Kind.RENAME, origin="old.py")
    assert renamed.as_json() == {
        "path": "new.py",
        "before": None,
        "after": "b",
        "kind": "rename",
        "from": "old.py",
    }
    assert Touch.of_json(renamed.as_json()) == renamed
    assert Touch.of_json(touch("a", "b", None).as_json()) == touch("a", "b", None)


class History:
    """Lanes that write on shared paths in trees of their own, take contents of each other over, and read each other's
    events. `edges`: of each event, those that it names."""

    def __init__(self, number: int) -> None:
        self.chance = random.Random(number)
        self.number = number
        self.lanes = [Lane(f"h{number}", name) for name in "ABC"[: self.chance.randint(2, 3)]]
        self.trees: dict[str, dict[str, str | None]] = {lane.key: {} for lane in self.lanes}
        self.heads: dict[str, str] = {}
        self.edges: dict[str, set[str]] = {}
        self.writes: dict[str, list[Event]] = {}

    def note(self, event: Event) -> None:
        self.edges[event.id] = {*event.parents, *event.causal_deps, *([event.prev] if event.prev else [])}
        self.heads[event.lane_key] = event.id

    def reaches(self, event: str, cause: str) -> bool:
        waiting, visited = [event], set[str]()
        while waiting:
            current = waiting.pop()
            if current == cause:
                return True
            if current not in visited:
                visited.add(current)
                waiting.extend(self.edges.get(current, ()))
        return False

    async def play(self, tx: Tx) -> None:
        for step in range(self.chance.randint(4, 14)):
            lane = self.chance.choice(self.lanes)
            other = self.chance.choice([known for known in self.lanes if known != lane])
            paths = [
                f"h{self.number}/{name}" for name in self.chance.sample("xyz", self.chance.randint(1, 2))
            ]
            act = self.chance.choice(["write", "write", "show", "take", "read", "tools"])
            if act == "show" and other.key in self.heads:
                self.note(await events.append(tx, NewEvent("note", lane, parents=[self.heads[other.key]])))
            elif act == "take":
                # As a merge leaves it, of which the room was told nothing.
                for path in paths:
                    self.trees[lane.key][path] = self.trees[other.key].get(path)
            elif act == "read":
                await self.read(tx, lane, paths)
            elif act == "tools":
                # A turn whose tool edits some, and whose shell edits these once more.
                await self.write(tx, lane, paths[:1], f"{self.number}:{step}:tool", Source.TOOL)
                await self.write(tx, lane, paths, f"{self.number}:{step}")
            else:
                await self.write(tx, lane, paths, f"{self.number}:{step}")

    def last_of_others(self, lane: Lane, path: str) -> Event | None:
        others = [write for write in self.writes.get(path, ()) if write.lane_key != lane.key]
        return others[-1] if others else None

    async def read(self, tx: Tx, lane: Lane, paths: Sequence[str]) -> None:
        """A read depends on the last write of each path that stands in the lane's tree."""
        tree = self.trees[lane.key]
        blobs = {path: tree.get(path) for path in paths}
        event = await file_changes.record_reads(tx, lane, blobs, source="tool")
        assert event is not None
        self.note(event)
        for path in paths:
            last = self.last_of_others(lane, path)
            if last is not None and tree.get(path) == self.content(last, path):
                assert self.reaches(event.id, last.id), (self.number, path)
        standing = {
            last.id
            for path in paths
            if (last := self.last_of_others(lane, path)) and tree.get(path) == self.content(last, path)
        }
        assert standing >= {*event.causal_deps}, "what did not stand there was not read"

    async def write(
        self, tx: Tx, lane: Lane, paths: Sequence[str], content: str, source: Source = Source.TREE
    ) -> None:
        tree = self.trees[lane.key]
        touches = [touch(path, tree.get(path), content) for path in paths]
        event = await change(tx, lane, *touches, source=source)
        self.note(event)
        unseen = {found["path"]: found["event"] for found in event.outputs.get("unseen", ())}
        for path in paths:
            last = self.last_of_others(lane, path)
            seen = last is None or self.reaches(event.id, last.id)
            assert unseen.get(path) == (None if seen or last is None else last.id), (self.number, path)
            if last is not None and tree.get(path) == self.content(last, path):
                assert seen, (self.number, path)
            self.writes.setdefault(path, []).append(event)
            tree[path] = content

    @staticmethod
    def content(event: Event, path: str) -> str | None:
        return next(found["after"] for found in event.outputs["touches"] if found["path"] == path)


async def test_verdict_matches_reachability(store: Store) -> None:
    count = HISTORIES if engines.current() == "sqlite" else HISTORIES // 10
    for number in range(count):
        await store.write(History(number).play)
    kept = await rows(store)
    assert any(row["unseen"] for row in kept)
    assert any(not row["unseen"] for row in kept)
    assert await verify(store) == []


async def test_rebuilt_tables_are_equal_row_by_row(store: Store) -> None:
    for number in range(20):
        await store.write(History(number).play)
    renamed = [Touch("o", "x", None, Kind.RENAME), Touch("n", None, "x", Kind.RENAME, origin="o")]
    await put(store, A, *renamed)
    kept = await rows(store)
    assert await rebuild(store) == len(await all_events(store, "files.changed", "files.read"))
    assert await rows(store) == kept


async def test_authors_at_once_never_miss_each_other(store: Store) -> None:
    """Of two blind writes at the same time, the later one is told of the earlier one."""
    lanes = [Lane(f"s{number}", "AGENT") for number in range(8)]
    await asyncio.gather(*(put(store, lane, touch("app.py", "0", lane.session)) for lane in lanes))
    first, *later = await all_events(store, "files.changed")
    before = first
    for event in later:
        assert event.outputs["unseen"] == [{"path": "app.py", "event": before.id}]
        before = event
    assert "unseen" not in first.outputs
