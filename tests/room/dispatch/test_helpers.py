"""Helpers of agents as lanes of their own: what a real program printed, printed again by a process of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relay.agents.factory import AgentSpec, CommandAgent
from relay.log import events
from relay.log.events import Event, Lane
from relay.log.verify import verify
from relay.model import BriefPart, DebriefPart, EndPart, Part, TextPart, Turn
from relay.room.dispatch import helpers
from relay.room.dispatch.recovery import recover_stale_active
from relay.room.dispatch.roster import Member, Policy
from relay.store.ports import Store
from relay.timeline import heads, reading
from tests.engines import BOTH, all_events
from tests.room.floor import Floor
from tests.room.parts import plan_of, post, until

pytestmark = BOTH
TESTS = Path(__file__).parents[2]
RECORDED = TESTS / "agents" / "recorded"
BRIEF = "Count the files of the project and say how many."
#: Of Claude's stream the lines until its helper has begun and used a tool.
BEGUN = 24


@pytest.fixture
async def floor(store: Store) -> AsyncIterator[Floor]:
    one = Floor(store)
    yield one
    await one.close()


def program(folder: Path, preset: str, *, lines: int = 0) -> CommandAgent:
    """An agent of this preset whose program prints what the real one did."""
    folder.joinpath("bin").mkdir()
    (folder / "bin" / preset).symlink_to(TESTS / "fakes" / "agent.py")
    env = {
        "FAKE_ACT": "replay",
        "FAKE_DIR": str(folder),
        "FAKE_REPLAY": str(RECORDED / f"{preset}-helper.jsonl"),
        "FAKE_LINES": str(lines),
    }
    path = f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    spec = AgentSpec("ALPHA", preset=preset, cwd=folder, env=env)
    return CommandAgent(spec, daemon_env={"PATH": path, "HOME": str(folder)})


def employ(floor: Floor, agent: Any) -> None:
    policy = replace(floor.policy, agent="ALPHA")
    floor.set_members(Member("ALPHA", agent.kind, policy, agent=agent))


async def of_types(store: Store, *types: str) -> list[Event]:
    return [event for event in await all_events(store) if event.type in types]


async def folded(store: Store, lane: Lane) -> bool:
    row = await store.read(lambda tx: tx.one(events.Q.lane, session=lane.session, lane=lane.name))
    assert row is not None
    return bool(row["folded"])


async def words(store: Store) -> list[str]:
    async def work(tx: Any) -> list[str]:
        page = await reading.page(tx, reading.Filter())
        return [f"{reading.author(event)} {reading.words(event)}" for event in page]

    return await store.read(work)


@pytest.mark.parametrize(
    ("preset", "sort", "result", "tools"),
    [
        ("claude", "general-purpose", "There are 2 files.", ["Glob: *"]),
        ("codex", "", "There are 2 files.", []),
        ("gemini", "generalist", "", []),
    ],
)
async def test_brief_and_debrief(
    store: Store, floor: Floor, tmp_path: Path, preset: str, sort: str, result: str, tools: list[str]
) -> None:
    """001: a helper's lane inherits its starter's clock, and comes back to it by the maximum; then it is folded."""
    employ(floor, program(tmp_path, preset))
    await floor.ask("@ALPHA hello")
    await floor.reach("done")
    spawn, debrief = await of_types(store, "spawn", "debrief")
    started, ended = await of_types(store, "helper.started", "helper.ended")
    (turn,) = await of_types(store, "turn.started")
    (over,) = await of_types(store, "turn.ended")
    lane = Lane(turn.session, "ALPHA.1")
    assert (spawn.lane, debrief.lane) == ("ALPHA", "ALPHA")
    assert spawn.inputs == {"brief": BRIEF, "sort": sort}
    assert started.outputs == {"by": "ALPHA", **spawn.inputs}
    assert spawn.outputs == {"child": lane.key, "depth": 0, "weight": pytest.approx(0.9)}
    assert debrief.outputs == {**spawn.outputs, "result": result}
    assert (started.lane_key, started.prev, started.parents) == (lane.key, spawn.id, (turn.id,))
    assert (ended.lane_key, ended.prev, debrief.parents) == (lane.key, started.id, (ended.id,))
    assert ended.outputs == {"by": "ALPHA", "result": result, "failed": False, "tools": tools}
    assert started.clock == {**spawn.clock, lane.key: 1}
    assert over.clock[turn.lane_key] > spawn.clock[turn.lane_key] and lane.key not in over.clock
    assert await store.read(lambda tx: events.has_seen(tx, over, ended))
    assert await folded(store, lane) and await verify(store) == []

    said = await words(store)
    assert f"ALPHA.1 began, started by ALPHA: {BRIEF}" in said
    assert f"ALPHA.1 answered ALPHA{': ' * bool(result)}{result}" in said
    shown = await store.read(heads.heads)
    rows = {shown["names"][who] for who, kind in zip(shown["who"], shown["type"], strict=True) if kind >= 0}
    assert rows == {"ALPHA", "ALPHA.1"}
    at = shown["number"].index(started.pos)
    assert shown["causes"][at] == [turn.pos]
    (page,) = await store.read(lambda tx: reading.page(tx, reading.Filter(name="ALPHA.1"), 1))
    assert page.id == ended.id


async def test_a_turn_that_is_cut_off_folds_its_helpers(store: Store, floor: Floor, tmp_path: Path) -> None:
    employ(floor, program(tmp_path, "claude", lines=BEGUN))
    await floor.ask("@ALPHA hello")
    await until(lambda: of_types(store, "helper.started"))
    await until(lambda: _exists(tmp_path / "hangs"))
    assert floor.turns.cancel("ALPHA", "ann")
    await floor.reach("skipped")
    (ended,) = await of_types(store, "helper.ended")
    assert ended.outputs == {
        "by": "ALPHA",
        "result": "",
        "failed": True,
        "tools": ["Glob: *"],
        "why": "its turn ended",
    }
    assert await folded(store, Lane(ended.session, "ALPHA.1")) and await verify(store) == []


async def _exists(path: Path) -> bool:
    return path.exists()


async def test_a_turn_that_ends_folds_the_innermost_first(store: Store, floor: Floor) -> None:
    async def play(_turn: Turn) -> AsyncIterator[Part]:
        yield BriefPart("a", "outer\ud800")
        yield BriefPart("b", "inner", by="a")
        yield BriefPart("c", "unknown starter", by="never")
        yield DebriefPart("c", "c" * 20_000)
        yield DebriefPart("c", "again")
        yield DebriefPart("never")
        yield TextPart("done")
        yield EndPart()

    floor.add("ALPHA", play)
    await floor.ask("@ALPHA hello")
    await floor.reach("done")
    ended = await of_types(store, "helper.ended")
    assert [(event.lane, event.outputs["by"], event.outputs["failed"]) for event in ended] == [
        ("ALPHA.3", "ALPHA", False),
        ("ALPHA.1.2", "ALPHA.1", True),
        ("ALPHA.1", "ALPHA", True),
    ]
    assert len(ended[0].outputs["result"]) == helpers.MOST_TEXT
    weights = [event.outputs["weight"] for event in await of_types(store, "spawn")]
    assert weights == [pytest.approx(0.9), pytest.approx(0.9 * 0.9), pytest.approx(0.9)]
    assert await verify(store) == []


async def test_the_next_start_folds_what_a_killed_daemon_had_open(store: Store) -> None:
    await post(store, "@ALPHA hello", 1.0)
    plan = await plan_of(store, Policy("ALPHA"), 1.0, "dead")
    outer = await store.write(lambda tx: helpers.begin(tx, plan, BriefPart("a", "outer")))
    inner = await store.write(lambda tx: helpers.begin(tx, plan, BriefPart("b", "inner"), outer.lane))
    # Another agent's, whose name begins alike, and whose daemon lives.
    await post(store, "@ALPHA-2 hello", 2.0, agents=("ALPHA", "ALPHA-2"))
    other = await plan_of(store, Policy("ALPHA-2"), 2.0, "alive")
    spared = await store.write(lambda tx: helpers.begin(tx, other, BriefPart("a", "spared")))
    await store.write(
        lambda tx: recover_stale_active(
            tx, now=3.0, stale_after_s=600.0, holder="new", is_dead=lambda job: job.holder == "dead"
        )
    )
    assert [await folded(store, one.lane) for one in (outer, inner, spared)] == [True, True, False]
    assert {event.outputs["why"] for event in await of_types(store, "helper.ended")} == {
        "its turn was cut off"
    }
    # It is told late that they have ended: nothing is written twice.
    before = len(await all_events(store))
    await store.write(lambda tx: helpers.end(tx, inner, result="late"))
    assert len(await all_events(store)) == before and await verify(store) == []
