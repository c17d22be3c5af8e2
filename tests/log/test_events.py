"""The log on every engine: lanes, causes, clocks and followers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.base.vector_clock import hop_count
from relay.log import events, follow
from relay.log.events import Event, Lane, LaneError, NewEvent
from relay.log.follow import PARK_AFTER, PARKED, check_acyclic, run, step, tail
from relay.log.verify import verify
from relay.store.fence import Fenced
from relay.store.ports import OutcomeUnknown, Store, StoreBusy, StoreError, Tx
from tests.store.conftest import OPENERS, Opener

ANN, BOB = Lane("room", "human:ann"), Lane("room", "human:bob")


@pytest.fixture
def store(any_store: Store) -> Store:
    return any_store


async def put(store: Store, lane: Lane, *parents: Event, type: str = "note", **more: object) -> Event:
    new = NewEvent(type=type, lane=lane, parents=[p.id for p in parents], **more)  # type: ignore[arg-type]
    return await store.write(lambda tx: events.append(tx, new))


async def test_append_chains_a_lane_and_reads_back(store: Store) -> None:
    first = await put(store, ANN, inputs={"b": 1, "a": [1.5, "ü"]}, outputs={"x": None}, role="person")
    second = await put(store, ANN)
    assert (first.seq, second.seq) == (1, 2)
    assert (second.prev, second.parents) == (first.id, ())
    assert await store.read(lambda tx: events.get(tx, first.id)) == first
    assert first.inputs == {"b": 1, "a": [1.5, "ü"]}
    assert len(first.id) == 64


async def test_source_key_happens_once(store: Store) -> None:
    once = await put(store, ANN, source_key="file:1")
    again = await put(store, ANN, source_key="file:1", outputs={"other": True})
    assert again == once
    assert await store.read(events.last_pos) == once.pos


async def test_clock_holds_only_what_was_shown(store: Store) -> None:
    asked = await put(store, ANN)
    unseen = await put(store, BOB)
    agent = Lane("c1", "CLAUDE")
    answer = await put(store, agent, asked)
    assert answer.clock == {"room/human:ann": 1, "c1/CLAUDE": 1}
    seen = [await store.read(lambda tx, e=e: events.has_seen(tx, answer, e)) for e in (asked, unseen)]
    assert seen == [True, False]


async def test_cycle_lanes_keep_agents_concurrent_and_out_of_clocks(store: Store) -> None:
    """A hub lane that parents every dispatch would order all agents; one lane a cycle does not."""
    asked = await put(store, ANN)
    cycle = Lane("room", "cycle:1", short=True)
    routed = await put(store, cycle, asked)
    one = await put(store, Lane("c1", "CLAUDE"), routed)
    other = await put(store, Lane("c2", "CODEX"), routed)
    assert "room/cycle:1" not in one.clock
    assert await store.read(lambda tx: events.has_seen(tx, one, routed))
    assert await store.read(lambda tx: events.has_seen(tx, one, asked))
    assert not await store.read(lambda tx: events.has_seen(tx, one, other))
    assert not await store.read(lambda tx: events.has_seen(tx, other, one))


async def test_spawn_inherits_and_debrief_folds(store: Store) -> None:
    ui, sub = Lane("s", "ui"), Lane("s", "sub")
    for _ in range(4):
        await put(store, ui)
    spawned = await store.write(lambda tx: events.spawn(tx, ui, sub))
    assert spawned.outputs == {"child": "s/sub", "depth": 0, "weight": pytest.approx(0.9)}
    first = await put(store, sub)
    assert first.clock == {"s/ui": 5, "s/sub": 1}
    last = await put(store, sub)
    back = await store.write(lambda tx: events.debrief(tx, ui, sub, outputs="found it"))
    assert back.clock == {"s/ui": 6}
    assert (back.prev, back.parents) == (spawned.id, (last.id,))
    assert back.outputs["weight"] == spawned.outputs["weight"]
    assert await store.read(lambda tx: events.has_seen(tx, back, first))
    assert hop_count(last.clock, back.clock) == 1
    with pytest.raises(LaneError, match="folded away"):
        await put(store, sub)
    with pytest.raises(LaneError, match="folded away before"):
        await store.write(lambda tx: events.debrief(tx, ui, sub))


async def test_debrief_wants_a_child_without_open_children(store: Store) -> None:
    a, b, c = Lane("s", "a"), Lane("s", "b"), Lane("s", "c")
    await store.write(lambda tx: events.spawn(tx, a, b))
    nested = await store.write(lambda tx: events.spawn(tx, b, c))
    assert nested.outputs["weight"] == pytest.approx(0.81)
    with pytest.raises(LaneError, match="1 open children"):
        await store.write(lambda tx: events.debrief(tx, a, b))
    with pytest.raises(LaneError, match="not spawned by"):
        await store.write(lambda tx: events.debrief(tx, a, c))
    with pytest.raises(LaneError, match="exists already"):
        await store.write(lambda tx: events.spawn(tx, a, c))
    before = await store.read(events.last_pos)
    await store.write(lambda tx: events.debrief(tx, b, c))
    await store.write(lambda tx: events.debrief(tx, a, b))
    assert await store.read(events.last_pos) == before + 2


async def test_unknown_cause_is_refused_and_nothing_is_written(store: Store) -> None:
    with pytest.raises(LaneError, match="unknown events"):
        await store.write(lambda tx: events.append(tx, NewEvent("note", ANN, parents=["f" * 64])))
    assert await store.read(events.last_pos) == 0


async def test_why_is_a_walk_back_to_the_person(store: Store) -> None:
    asked = await put(store, ANN, type="message")
    routed = await put(store, Lane("room", "cycle:1", short=True), asked, type="routed")
    turn = await put(store, Lane("c", "CLAUDE"), routed, type="turn")
    answer = await put(store, Lane("c", "CLAUDE"), turn, type="answer")
    chain = await store.read(lambda tx: events.why(tx, answer.id))
    assert [event.type for event in chain] == ["answer", "turn", "routed", "message"]


# One step of a random history: who acts, what they do, and which earlier event they were shown.
steps = st.lists(
    st.tuples(
        st.integers(0, 5), st.sampled_from(["note", "note", "cycle", "spawn", "debrief"]), st.integers(0, 60)
    ),
    min_size=1,
    max_size=28,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=steps)
async def test_clock_order_equals_reachability(
    tmp_path_factory: pytest.TempPathFactory, history: list
) -> None:
    await reach("sqlite", tmp_path_factory.mktemp("h"), history)


# Fewer: a database costs more there, and the code is the same.
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=steps)
async def test_clock_order_equals_reachability_on_postgres(tmp_path: Path, history: list) -> None:
    await reach("postgres", tmp_path, history)


async def reach(engine: str, folder: Path, history: list) -> None:
    with OPENERS[engine](folder) as opener:
        opened = await opener((events.FOLDER,))
        try:
            await compare_with_graph(opened, history)
        finally:
            await opened.close()


async def compare_with_graph(opened: Store, history: list) -> None:
    lanes = [Lane("s", f"l{i}") for i in range(3)]
    parent_of: dict[Lane, Lane] = {}
    made: list[Event] = []

    async def build(tx: Tx) -> None:
        for number, (who, what, shown) in enumerate(history):
            lane = lanes[who % len(lanes)]
            cause = [made[shown % len(made)].id] if made else []
            if what == "spawn":
                child = Lane("s", f"sub{number}")
                made.append(await events.spawn(tx, lane, child))
                parent_of[child] = lane
                lanes.append(child)
            elif what == "debrief" and lane in parent_of and lane not in parent_of.values():
                made.append(await events.debrief(tx, parent_of.pop(lane), lane))
                lanes.remove(lane)
            elif what == "cycle":
                short = Lane("s", f"cycle{number % 4}", short=True)
                made.append(await events.append(tx, NewEvent("routed", short, parents=cause)))
            else:
                made.append(await events.append(tx, NewEvent("note", lane, causal_deps=cause)))

    await opened.write(build)
    above: dict[str, set[str]] = {}
    for event in made:
        links = {*event.parents, *event.causal_deps, *([event.prev] if event.prev else [])}
        above[event.id] = {event.id}.union(*(above[link] for link in links))

    async def compare(tx: Tx) -> None:
        for observer in made:
            for event in made:
                reachable = event.id in above[observer.id]
                assert await events.has_seen(tx, observer, event) == reachable, (observer, event)

    await opened.read(compare)
    assert await verify(opened) == []


async def test_tail_gives_the_stored_then_the_live(store: Store) -> None:
    first = await put(store, ANN)
    seen: list[str] = []
    async for batch in tail(store, 0, batch=2):
        seen += [event.id for event in batch]
        if len(seen) == 1:
            later = [await put(store, ANN), await put(store, BOB)]
        if len(seen) == 3:
            break
    assert seen == [first.id, *(event.id for event in later)]


async def test_tail_sees_another_process(open_any: Opener) -> None:
    store, other = await open_any((events.FOLDER,)), await open_any((events.FOLDER,))
    stream = tail(store, 0)
    made = await put(other, ANN)
    assert [event.id for event in await anext(stream)] == [made.id]
    await stream.aclose()  # type: ignore[attr-defined]


class Counting:
    name = "counting"
    reads = frozenset({"note"})
    emits = frozenset({"counted"})

    def __init__(self, poison: str | None = None) -> None:
        self.poison = poison

    async def apply(self, tx: Tx, event: Event) -> None:
        if event.id == self.poison:
            raise ValueError("cannot digest this")
        await events.append(
            tx, NewEvent("counted", Lane("room", f"c:{event.id[:8]}", short=True), parents=[event.id])
        )


async def test_follower_effect_commits_with_its_cursor(store: Store) -> None:
    for _ in range(3):
        await put(store, ANN)
    follower = Counting()
    assert (await step(store, follower, batch=2)).applied == 2
    assert (await step(store, follower, batch=2)).applied == 1
    assert (await step(store, follower)).applied == 0
    counted = await store.read(lambda tx: events.read_after(tx, 0, types=["counted"]))
    assert len(counted) == 3


class Together(Counting):
    """Takes its events together; `fault` is raised by the next try."""

    name = "together"
    fault: Exception | None = None

    async def apply_all(self, tx: Tx, new: Sequence[Event]) -> None:
        fault, self.fault = self.fault, None
        if fault is not None:
            raise fault
        for event in new:
            await self.apply(tx, event)


@pytest.mark.parametrize("made", [Counting, Together])
async def test_a_cursor_that_was_set_back_meanwhile_stays_there(
    store: Store, made: type[Counting], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a rebuild of the memory sets it back while the room goes on."""
    follower = made()
    monkeypatch.setattr(follow, "TOGETHER", 1)
    monkeypatch.setattr(follow, "STEP_S", 0.0)
    for _ in range(3):
        await put(store, ANN)
    honest = store.write

    async def write(work: Any, **options: Any) -> Any:
        result = await honest(work, **options)
        await honest(partial(follow.put_cursor, follower=follower, pos=0))
        return result

    with monkeypatch.context() as patched:
        patched.setattr(store, "write", write)
        progress = await step(store, follower)
    assert (progress.applied, progress.moved) == (1, True)
    progress = await step(store, follower)
    assert (progress.applied, progress.moved) == (3, False)
    assert len(await store.read(lambda tx: events.read_after(tx, 0, types=["counted"]))) == 4


@pytest.mark.parametrize(
    "fault", [OutcomeUnknown("lost in its COMMIT"), StoreBusy("busy"), Fenced("another leads")]
)
async def test_what_is_no_events_fault_is_not_tried_one_by_one(store: Store, fault: Exception) -> None:
    for _ in range(2):
        await put(store, ANN)
    follower = Together()
    follower.fault = fault
    with pytest.raises(type(fault)):
        await step(store, follower)
    follower.fault = ValueError("its own")
    assert (await step(store, follower)).applied == 2


async def test_a_quiet_follower_comes_on_over_the_events_of_others(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who archives the log asks how far all came."""
    monkeypatch.setattr(follow, "POLL_S", 0.02)
    await put(store, ANN)
    running = asyncio.create_task(run(store, Counting()))
    try:
        for _ in range(2):
            other = await put(store, ANN, type="other")
            async with asyncio.timeout(60):
                while True:
                    row = await store.read(lambda tx: tx.one(events.Q.follower, name="counting"))
                    if row is not None and row["pos"] >= other.pos:
                        break
                    await asyncio.sleep(0.02)
        noted = await put(store, ANN)
        async for batch in tail(store, noted.pos, types=["counted"]):
            assert batch[-1].parents == (noted.id,)
            break
    finally:
        running.cancel()


async def test_poison_event_is_parked_and_announced(store: Store) -> None:
    made = [await put(store, ANN) for _ in range(3)]
    running = asyncio.create_task(run(store, Counting(poison=made[1].id)))
    try:
        async for batch in tail(store, 0, types=[PARKED]):
            parked = batch[0]
            break
        async for batch in tail(store, 0, types=["counted"]):
            if batch[-1].parents == (made[2].id,):
                break
    finally:
        running.cancel()
    assert parked.parents == (made[1].id,)
    assert "cannot digest this" in parked.outputs["error"]
    assert PARK_AFTER == 5


def test_followers_may_not_feed_each_other() -> None:
    class Back(Counting):
        name = "back"
        reads = frozenset({"counted"})
        emits = frozenset({"note"})

    check_acyclic([Counting()])
    with pytest.raises(StoreError, match="cycle"):
        check_acyclic([Counting(), Back()])
