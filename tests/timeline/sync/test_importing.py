"""What enters a log from others, and what stays out by name."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.coordination.tasks.projection import TASK_EVENTS
from relay.log import events
from relay.log.encoding import dumps, loads
from relay.log.event_hash import event_id
from relay.log.events import NewEvent
from relay.log.imported import PREFIX
from relay.log.verify import verify
from relay.room.journal.frames import SHOWN
from relay.room.journal.ledger import OF_THE_ROOM
from relay.timeline import moments, projection
from relay.timeline.sync.packs import BadPack, PackedEvent, pack, read_line, unpack
from tests.engines import BOTH, all_events
from tests.timeline.sync.replicas import Replica

pytestmark = BOTH


@pytest.fixture
async def ann(tmp_path: Path) -> AsyncIterator[Replica]:
    replica = await Replica.at(tmp_path, "ann")
    yield replica
    await replica.store.close()


@pytest.fixture
async def bob(tmp_path: Path) -> AsyncIterator[Replica]:
    replica = await Replica.at(tmp_path, "bob")
    yield replica
    await replica.store.close()


def rewritten(line: str, **columns: object) -> str:
    """The line with other columns, under the id that goes with them."""
    row = loads(line) | columns
    event = read_line(line)
    assert isinstance(event, PackedEvent)
    return dumps(row | {"id": event_id({**event.row, **columns})})


async def test_a_line_says_the_whole_event(ann: Replica) -> None:
    await ann.act(random.Random(1))
    await ann.append(
        NewEvent("said", ann.person, inputs={"ü": [1, None]}, outputs="x\n", branch="b", role="r")
    )
    lines = await ann.lines()
    assert unpack(pack(lines)) == lines
    for line, event in zip(lines, await all_events(ann.store), strict=True):
        read = read_line(line)
        assert isinstance(read, PackedEvent)
        assert (read.id, read.row["inputs"], read.row["outputs"], dict(read.clock)) == (
            *(event.id, event.stored_inputs, event.stored_outputs, event.clock),
        )
    for damaged in (b"", b"no", pack(lines)[:-5]):
        with pytest.raises(BadPack):
            unpack(damaged)


async def test_forged_event_is_named(ann: Replica, bob: Replica) -> None:
    for at in range(4):
        await ann.change(ann.agent, "a.py", f"a{at}")
        await ann.change(ann.person, "b.py", f"b{at}")
    lines = await ann.lines()
    agent = [line for line in lines if ann.agent.name in line]
    person = [line for line in lines if line not in agent]
    forged = loads(agent[2])
    forged["outputs"] = forged["outputs"].replace("a2", "evil")
    done = await bob.take([(ann.id, [*person, agent[0], agent[1], dumps(forged), agent[3], "{", "[]"])])
    assert [(event.id, event.reason) for event in done.refused] == [
        (forged["id"], "its content is not what was hashed"),
        ("?", done.refused[1].reason),
        ("?", "it is no object"),
    ]
    assert [(event.id, event.missing) for event in done.waiting] == [(loads(agent[3])["id"], (forged["id"],))]
    assert done.added == 6, "one bad event does not stop the rest"
    assert await verify(bob.store) == []

    fork = rewritten(agent[1], at="2020-01-01T00:00:00.000Z")
    done = await bob.take([(ann.id, [fork, agent[2]])])
    assert [(event.id, event.reason) for event in done.refused] == [
        (loads(fork)["id"], f"the lane {ann.agent.key} is forked at its event 2")
    ]
    assert done.added == 1
    assert (await bob.take([(ann.id, lines)])).added == 1
    assert await verify(bob.store) == []


async def test_nobody_adds_to_a_lane_of_another(ann: Replica, bob: Replica, tmp_path: Path) -> None:
    for at in range(2):
        await bob.change(bob.agent, "a.py", f"b{at}")
        await bob.change(bob.person, "b.py", f"b{at}")
    lines = await bob.lines()
    # Bob's room as it was before its last two events, which Ann gives to it as if they were hers.
    before = await Replica.at(tmp_path, "before")
    try:
        await before.take([(before.id, lines[:2])])
        there = await all_events(before.store)
        session = f"room@{before.id}"
        person = rewritten(lines[3], session=session, clock=dumps({f"{session}/{bob.person.name}": 2}))
        done = await before.take([(ann.id, [lines[2], person])])
        assert sorted(event.reason for event in done.refused) == sorted(
            [
                f"{bob.person.key} is a lane of another replica's",
                f"{bob.agent.key} is a lane of the replica {before.id}",
            ]
        )
        assert await all_events(before.store) == there
    finally:
        await before.store.close()


async def test_an_import_starts_nothing(ann: Replica, bob: Replica) -> None:
    """Whatever the room's readers read, an event of another's is not it."""
    acting = sorted(
        {*SHOWN, *OF_THE_ROOM, *TASK_EVENTS, "worktree.changed", "timeline.rewound", "files.changed"}
    )
    for type in acting:
        await ann.append(NewEvent(type, ann.agent, outputs={"worktree": "CLAUDE"}, source_key=f"once:{type}"))
    done = await bob.take([(ann.id, await ann.lines())])
    assert done.added == len(acting)
    assert await all_events(bob.store, *acting) == []
    imported = await all_events(bob.store)
    assert {event.type for event in imported} == {PREFIX + type for type in acting}
    # What happens once happens here too.
    own = await bob.append(NewEvent(acting[0], bob.agent, source_key=f"once:{acting[0]}"))
    assert own.lane_key == bob.agent.key
    assert await projection.rebuild(bob.store) == 0
    assert await bob.store.read(lambda tx: projection.last_tree(tx, "CLAUDE")) is None
    assert await verify(bob.store) == []


async def test_lanes_that_every_room_has_stay_apart(ann: Replica, bob: Replica) -> None:
    theirs = await ann.change(ann.person, "a.py", "a0")
    assert (await bob.take([(ann.id, await ann.lines())])).added == 1
    mine = await bob.change(bob.person, "a.py", "b0")
    there = await bob.store.read(lambda tx: events.get(tx, theirs.id))
    assert there is not None
    assert (there.lane_key, there.clock) == (f"room@{ann.id}/human:ann", {f"room@{ann.id}/human:ann": 1})
    assert not await bob.store.read(lambda tx: events.has_seen(tx, mine, there))
    # And back: what Bob did with it is about Ann's own event.
    shown = await bob.change(bob.agent, "b.py", "b1", [theirs.id])
    assert (await ann.take([(bob.id, await bob.lines())])).added == 2
    back = await ann.store.read(lambda tx: events.get(tx, shown.id))
    assert back is not None
    assert back.clock == {"room/human:ann": 1, bob.agent.key: 1}
    assert await ann.store.read(lambda tx: events.has_seen(tx, back, theirs))
    assert await verify(ann.store) == await verify(bob.store) == []


async def test_a_time_is_found_among_what_was_imported(ann: Replica, bob: Replica) -> None:
    for hour in (1, 2, 3):
        await ann.append(NewEvent("said", ann.agent, at=f"2026-01-01T0{hour}:00:00.000Z"))
    first = await bob.append(NewEvent("said", bob.agent, at="2026-01-01T04:00:00.000Z"))
    await bob.take([(ann.id, await ann.lines())])
    last = await bob.append(NewEvent("said", bob.agent, at="2026-01-01T06:00:00.000Z"))
    for time, event in (("05:00", first.id), ("06:30", last.id), ("03:30", None)):
        moment = await bob.store.read(
            lambda tx, time=time: moments.resolve(tx, f"2026-01-01T{time}:00Z")  # type: ignore[misc]
        )
        assert moment.event == event


async def test_what_waits_comes_in_when_its_causes_do(ann: Replica, bob: Replica) -> None:
    first = await ann.change(ann.person, "a.py", "a0")
    await ann.change(ann.agent, "a.py", "a1", [first.id])
    person, agent = await ann.lines()
    done = await bob.take([(ann.id, [agent])])
    assert (done.added, [event.missing for event in done.waiting]) == (0, [(first.id,)])
    assert (await bob.take([(ann.id, [agent, person])])).added == 2
