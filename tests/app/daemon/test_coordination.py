"""What the daemon does about coordination by itself: sweeps, heartbeats, and what the room says and records."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from relay.airspace.advisories import intents
from relay.airspace.advisories.intents import Source
from relay.app.daemon.coordination import CoordinationTasks, take_in
from relay.app.daemon.notices import lines
from relay.app.guard.lookup import KEPT, Room, keep
from relay.config import loading
from relay.config.settings import LiveSettings
from relay.coordination.locks.service import Locks
from relay.coordination.sessions import ENDED
from relay.coordination.writes.lock_guard import OVERRIDDEN, REFUSED, Answer, caller_of
from relay.faces.services import services_of
from relay.log import follow
from relay.model import LOCKED, Caller, LockRefusal
from relay.model.actions import DeclareIntent
from relay.store.ports import Store
from tests import engines
from tests.coordination.desk import over
from tests.engines import SCHEMAS, Clock, all_events
from tests.room.parts import all_messages, until

AGENTS = ("CLAUDE", "CODEX")
CLAUDE = Caller("CLAUDE", "s1")
LOCK = LockRefusal(LOCKED, "a.py", "a.py", "CODEX", "s9", 2_000_000_000.0, 3)


@dataclass
class Desk:
    store: Store
    desk: CoordinationTasks
    locks: Locks
    clock: Clock
    folder: Path
    running: dict[str, Any]

    async def outputs(self, *types: str) -> list[Any]:
        """What the events of these types say, in order."""
        return [event.outputs for event in await all_events(self.store, *types)]

    async def follow(self) -> None:
        """Let the followers take in what is there."""
        for one in self.desk.followers:
            progress = await follow.step(self.store, one)
            assert progress.failed is None, progress.error


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    clock, running = Clock(), dict[str, Any]()
    agents = [{"name": name, "cmd": "x"} for name in AGENTS]
    text = json.dumps({"agents": agents, "coordination": {"session_lease_s": 60.0}})
    settings = LiveSettings(loading.parse(text, tmp_path / "config.json"))
    store = await engines.open_store(tmp_path, SCHEMAS, clock=clock)
    services = services_of(store, settings, fold=False)
    turns: Any = SimpleNamespace(by_agent=running)
    yield Desk(
        store, CoordinationTasks(store, settings, services, turns), services.locks, clock, tmp_path, running
    )
    await store.close()


def at_work(session: str) -> Any:
    return SimpleNamespace(plan=SimpleNamespace(session=session))


async def test_what_the_hooks_kept_is_taken_in_once_and_said(desk: Desk) -> None:
    room = Room(desk.folder / "config.json", "sqlite")
    room.folder.mkdir()
    me = caller_of("ann", None, person=True)
    keep(room, me, Answer((LOCK,), "it burns", True), "commit", override="it burns")
    keep(room, caller_of("CLAUDE", "s1"), Answer((LOCK,)), "push")
    keep(room, me, Answer(), "commit", override="no room", unasked="gone", paths=["x.py"])
    file = room.folder / KEPT
    again = file.read_bytes()
    file.write_bytes(again + b"{damaged\n[1]\n")
    assert await take_in(desk.store, room.folder) == 5
    assert not file.exists() and list(room.folder.iterdir()) == []
    file.write_bytes(again)  # as after a kill between the two
    await take_in(desk.store, room.folder)
    overridden = await desk.outputs(OVERRIDDEN)
    assert [(one["by"], one["paths"], one["reason"], one["act"]) for one in overridden] == [
        ("ann", ["a.py"], "it burns", "commit"),
        ("ann", ["x.py"], "no room", "commit"),
        ("someone", [], "{damaged", "write"),
        ("someone", [], "[1]", "write"),
    ]
    (refused,) = await desk.outputs(REFUSED)
    assert (refused["by"], refused["act"], refused["refusals"][0]["locked_by"]) == ("CLAUDE", "push", "CODEX")
    await desk.follow()
    over, unasked, *_ = await all_messages(desk.store)
    assert over.body == "ann: commit of `a.py` over the lock of @CODEX. it burns."
    assert "notice" not in over.meta, "CODEX is shown it with its next turn"
    assert unasked.meta["notice"] and unasked.body == "ann: commit of `x.py`, unasked. no room."


async def test_a_session_of_a_turn_that_runs_lives_on(desk: Desk) -> None:
    await desk.locks.acquire(CLAUDE, ["a.py"], ttl_s=30.0)
    await desk.locks.acquire(Caller("CODEX", "s2"), ["b.py"], ttl_s=30.0)
    desk.running.update({"CLAUDE": at_work("s1"), "GEMINI": at_work("never-called")})
    for _ in range(4):
        desk.clock.move(40.0)
        await desk.desk.beat()
    await desk.desk.sweep()
    alive = await over(desk.store).sessions.list(Caller("ann", "w", person=True), all=True)
    assert {one["agent_id"]: one["alive"] for one in alive} == {"CLAUDE": True, "CODEX": False, "ann": True}
    assert [one["session"]["agent_id"] for one in await desk.outputs(ENDED)] == ["CODEX"]
    # Once it is dead, a turn that goes on does not bring it back: it was told to nobody that it lived.
    desk.running["CODEX"] = at_work("s2")
    await desk.desk.beat()
    assert [one["session"]["agent_id"] for one in await desk.outputs(ENDED)] == ["CODEX"]


async def test_what_a_session_meant_to_touch_ends_with_it(desk: Desk) -> None:
    now = desk.clock()
    for session, path in (("s1", "a.py"), ("s2", "b.py")):
        await desk.locks.acquire(Caller("CLAUDE", session), [f"{session}.lock"], ttl_s=10.0)
        await desk.store.write(
            lambda tx, session=session, path=path: intents.declare(  # type: ignore[misc]
                tx,
                DeclareIntent("CLAUDE", (path,)),
                source=Source.AGENT,
                by="CLAUDE",
                now=now,
                session=session,
            )
        )
    desk.clock.move(50.0)
    await desk.locks.acquire(Caller("CLAUDE", "s2"), ["s2.lock"])
    desk.clock.move(20.0)
    await desk.desk.sweep()
    await desk.follow()
    held = await desk.store.read(lambda tx: intents.declared(tx, now))
    assert list(held["CLAUDE"]) == ["b.py"], "only the dead one's"


async def test_refused_edits_are_recorded_behind_the_edit(desk: Desk) -> None:
    started: dict[str, Callable[[], Awaitable[None]]] = {}

    def start(name: str, run: Callable[[], Awaitable[None]]) -> None:
        started[name] = run

    desk.desk.start(start, start)
    desk.desk.refused(CLAUDE, [LOCK])
    task = asyncio.create_task(started["coordination-refusals"]())  # type: ignore[arg-type]
    await until(lambda: desk.outputs(REFUSED))
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    ((told),) = await desk.outputs(REFUSED)
    assert (told["by"], told["act"], told["paths"]) == ("CLAUDE", "edit", ["a.py"])
    assert {"coordination-sweep", "coordination-beats", "coordination-notices"} <= started.keys()


def test_what_the_room_says() -> None:
    forced = {"lock": {"file_path": "a.py", "locked_by": "CLAUDE"}, "by": "ann", "reason": "hot fix"}
    changeset = {"agent_id": "CLAUDE", "summary": "tidy", "undeclared": [f"{n}.py" for n in range(7)]}
    task = {"number": 3, "task_description": "Mend it", "attempts": 3, "note": "the lease ran out of CODEX"}
    pair = {"tasks": [{"after": task}]}
    table: list[tuple[str, dict[str, Any], list[str]]] = [
        *[("lock.forced", forced, ["ann took the lock on `a.py` from @CLAUDE. hot fix. Acquire it again before you "
          "write there."])],
        ("lock.forced", {**forced, "reason": None, "lock": {"file_path": "a", "locked_by": "bob"}},
         ["ann took the lock on `a` from bob. Acquire it again before you write there."]),
        ("changeset.recorded", {"changeset": changeset},
         ["@CLAUDE changed what it did not declare: `0.py`, `1.py`, `2.py`, `3.py`, `4.py` and 2 more (tidy.)"]),
        ("changeset.recorded", {"changeset": {**changeset, "undeclared": []}}, []),
        ("changeset.recorded", {"changeset": {**changeset, "undeclared": None}}, []),
        ("task.changed", {"change": "dead", **pair},
         ["Task t3 is given up after 3 attempts: Mend it. the lease ran out of CODEX."]),
        ("task.changed", {"change": "dead", "tasks": [{"after": {**task, "attempts": 1}}]},
         ["Task t3 is given up after 1 attempt: Mend it. the lease ran out of CODEX."]),
        ("task.changed", {"change": "cascaded", "tasks": [{"after": {**task, "note": "#1 failed"}}]},
         ["Task t3 fails with one that it depends on: Mend it. #1 failed."]),
        ("task.changed", {"change": "moved", **pair}, []),
    ]  # fmt: skip
    for type, told, said in table:
        assert lines(type, told, AGENTS) == said


async def test_an_agent_at_work_is_told_once_that_a_path_it_was_refused_is_free(desk: Desk) -> None:
    holder = Caller("CODEX", "s9")
    await desk.locks.acquire(holder, ["a.py", "b.py"])
    assert not (await desk.locks.acquire(CLAUDE, ["a.py"]))["success"]
    desk.desk.refused(CLAUDE, [LockRefusal(LOCKED, "b.py", "b.py", "CODEX", "s9", 2_000_000_000.0, 3)])
    desk.running["CLAUDE"] = at_work("s1")
    await desk.desk.tell_freed()
    assert await all_messages(desk.store) == []
    await desk.locks.release(holder, "a.py")
    for _ in range(2):
        await desk.desk.tell_freed()
    (said,) = await all_messages(desk.store)
    assert said.body.startswith("@CLAUDE: `a.py` is free now.")
    assert said.to == ("CLAUDE",) and said.meta["urgent"] is True
    # What was refused in an earlier turn is nobody's news.
    desk.running["CLAUDE"] = at_work("s2")
    await desk.locks.release(holder, "b.py")
    await desk.desk.tell_freed()
    assert len(await all_messages(desk.store)) == 1
    assert desk.locks.refused == {}
