"""What other rooms recorded, shown beside what this one did."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.log import events
from relay.log.events import Event, Lane, NewEvent
from relay.model.touches import Kind, Source, Touch
from relay.timeline import file_changes, reading
from relay.timeline.heads import heads
from relay.timeline.others import as_shown, origins_of, workspace_of_others
from relay.timeline.reading import Filter
from relay.timeline.sync.privacy import Sharing
from tests.engines import BOTH
from tests.timeline.sync.replicas import Replica

pytestmark = BOTH


@pytest.fixture
async def rooms(tmp_path: Path) -> AsyncIterator[tuple[Replica, Replica]]:
    ann, bob = await Replica.at(tmp_path, "ann"), await Replica.at(tmp_path, "bob")
    yield ann, bob
    for room in (ann, bob):
        await room.store.close()


async def shown(room: Replica, wanted: Filter) -> list[tuple[str, str, str]]:
    """Each event: whose room (empty: this one), who, and what it did."""

    async def work(tx: events.Tx) -> list[tuple[str, str, str]]:
        found = await reading.page(tx, wanted, 10)
        origins = await origins_of(tx, found)
        heads = await reading.heads(tx, wanted, 10)
        assert heads == [reading.head(event, origins.get(event.pos)) for event in found]
        return [(origins.get(each.pos, ""), reading.author(each), reading.words(each)) for each in found]

    return await room.store.read(work)


async def test_events_of_another_room_are_shown_as_its(rooms: tuple[Replica, Replica]) -> None:
    ann, bob = rooms
    theirs = await ann.change(ann.agent, "src/a.py", "a0")
    await bob.take([(ann.id, await ann.lines())])
    mine = await bob.change(bob.agent, "src/a.py", "b0", [theirs.id])
    of_ann, of_bob = (ann.id, "CLAUDE", "wrote 1"), ("", "CLAUDE", "wrote 1")
    for wanted in (
        Filter(),
        Filter(path="src"),
        Filter(path="src/a.py"),
        Filter("CLAUDE"),
        Filter("CLAUDE", "src"),
    ):
        assert await shown(bob, wanted) == [of_bob]
        everybody = Filter(wanted.name, wanted.path, others=True)
        assert await shown(bob, everybody) == [of_ann, of_bob]
    assert await shown(bob, Filter(ann.agent.key, others=True)) == [of_ann]
    assert await shown(bob, Filter(ann.agent.key)) == []
    assert await shown(bob, Filter(path="other", others=True)) == []
    assert await shown(bob, Filter(after=theirs.pos, others=True)) != []

    async def whole(tx: events.Tx) -> tuple[dict[str, object], dict[str, object], str | None]:
        imported = await events.get(tx, theirs.id)
        own = await events.get(tx, mine.id)
        assert imported is not None and own is not None
        return (
            await reading.whole(tx, await as_shown(tx, imported)),
            await reading.whole(tx, own),
            reading.undo_with(imported, {}),
        )

    first, second, undo_with = await bob.store.read(whole)
    assert (first["type"], first["replica"], undo_with) == ("files.changed", ann.id, None)
    assert (second["type"], second["replica"]) == ("files.changed", None)
    assert first["outputs"] == theirs.outputs


async def test_heads_have_those_of_other_rooms_on_rows_of_their_own(rooms: tuple[Replica, Replica]) -> None:
    ann, bob = rooms
    theirs = await ann.change(ann.agent, "src/a.py", "a0")
    person = await ann.change(ann.person, "b.py", "b0")
    await bob.take([(ann.id, await ann.lines())])
    mine = await bob.change(bob.agent, "src/a.py", "c0", [theirs.id])
    told = await bob.store.read(heads)
    mark = ann.id[:8]
    assert [told["names"][place] for place in told["who"]] == [f"CLAUDE@{mark}", f"ann@{mark}", "CLAUDE"]
    assert [told["types"][place] for place in told["type"]] == ["files.changed"] * 3
    assert told["replica"] == [0, 0, -1] and told["replicas"] == [ann.id]
    assert told["causes"][-1] == [told["number"][0]]
    for way in ({}, {"before": 2**53}):
        for path, found in (("src", [theirs, mine]), ("b.py", [person]), ("none", [])):
            page = await bob.store.read(lambda tx, path=path, way=way: heads(tx, path=path, **way))
            here = [await bob.store.read(lambda tx, id=each.id: events.get(tx, id)) for each in found]
            assert page["number"] == [each.pos for each in here if each]
            half = await bob.store.read(lambda tx, path=path, way=way: heads(tx, path=path, limit=1, **way))
            assert half["number"] == (page["number"][-1:] if way else page["number"][:1])
            assert half["more"] is (len(found) > 1)


async def test_what_is_here_is_found_behind_much_that_is_not(rooms: tuple[Replica, Replica]) -> None:
    ann, bob = rooms
    mine = [await bob.change(bob.agent, "a.py", f"{at}") for at in range(3)]
    for at in range(30):
        await ann.change(ann.agent, "a.py", f"{at}")
    await bob.take([(ann.id, await ann.lines())])

    async def work(tx: events.Tx) -> list[str]:
        return [event.id for event in await reading.page(tx, Filter(), 2)]

    assert await bob.store.read(work) == [event.id for event in mine[1:]]


async def test_what_others_wrote_is_in_a_view_of_its_own(rooms: tuple[Replica, Replica]) -> None:
    ann, bob = rooms
    await ann.change(ann.agent, "src/a.py", "a0")
    last = await ann.change(ann.person, "src/a.py", "a1")
    await ann.change(ann.agent, "b.py", "b0")
    await bob.take([(ann.id, await ann.lines())])
    wrote = await bob.change(bob.agent, "src/a.py", "c0")
    assert "unseen" not in wrote.outputs, "no verdict of this room is about another's writes"
    files = await bob.store.read(reading.workspace)
    assert [(file["path"], file["event"]) for file in files] == [("src/a.py", wrote.id)]
    others = await bob.store.read(lambda tx: workspace_of_others(tx, "src"))
    expected = {"path": "src/a.py", "blob": "a1", "replica": ann.id, "event": last.id, "at": last.at}
    assert others == [{**expected, "by": f"room@{ann.id}/human:ann"}]
    every = await bob.store.read(workspace_of_others)
    assert [file["path"] for file in every] == ["b.py", "src/a.py"]
    assert await ann.store.read(workspace_of_others) == []


async def test_a_payload_that_stayed_there_or_has_another_shape(rooms: tuple[Replica, Replica]) -> None:
    ann, bob = rooms
    for outputs in (
        {"touches": 3},
        {"touches": [{"path": 1}, "x"]},
        ["no"],
        None,
        {"touches": [{"kind": "\x1b[2J"}]},
    ):
        await ann.append(NewEvent("files.changed", ann.agent, outputs=outputs, file_touches=["a.py"]))
    await ann.append(NewEvent("worktree.changed", ann.agent, outputs={"agent": ["x"]}))
    await ann.append(NewEvent("handoff", ann.agent, outputs={"validation": {"failure_info": 1}}))
    await ann.append(NewEvent("checkpoint.made", ann.agent, outputs={"name": {"a": 5}, "sides": 3}))
    key = "sk-" + "a" * 40
    touch = Touch("a.py", None, key, Kind.WRITE)
    await ann.store.write(
        lambda tx: file_changes.record_changes(
            tx, ann.agent, [touch], source=Source.TREE, before=None, after="t", worktree="CLAUDE"
        )
    )
    done = await bob.take([(ann.id, await ann.lines(Sharing.of(["CLAUDE"])))])
    assert (done.added, done.refused) == (9, ())
    assert {line[:2] for line in await shown(bob, Filter(others=True))} == {(ann.id, "CLAUDE")}
    assert await bob.store.read(workspace_of_others) == []

    async def wholes(tx: events.Tx) -> list[dict[str, object]]:
        return [await reading.whole(tx, each) for each in await reading.page(tx, Filter(others=True), 10)]

    assert len(await bob.store.read(wholes)) == 9
    told = await bob.store.read(heads)
    assert len(told["number"]) == 9 and all(isinstance(word, str) for word in told["words"])
    # A file that is no path never enters.
    bad = await ann.append(NewEvent("files.changed", Lane("s-ann", "CODEX"), file_touches=[3]))  # type: ignore[list-item]
    done = await bob.take([(ann.id, await ann.lines())])
    assert [(event.id, event.reason) for event in done.refused] == [(bad.id, "its files are no paths")]


async def test_what_a_room_has_back_from_a_copy_is_its_own(tmp_path: Path) -> None:
    ann = await Replica.at(tmp_path, "ann")
    started: Event = await ann.append(NewEvent("turn.started", ann.agent, outputs={}))
    lines = await ann.lines()
    again = await Replica.at(tmp_path, "again", known=False)
    again.id = ann.id
    try:
        await again.take([(ann.id, lines)])
        assert await shown(again, Filter()) == [("", "CLAUDE", "began a turn")]
        [head] = await again.store.read(lambda tx: reading.heads(tx, Filter(others=True)))
        assert (head["id"], head["type"], head["replica"]) == (started.id, "turn.started", None)
    finally:
        await ann.store.close()
        await again.store.close()
