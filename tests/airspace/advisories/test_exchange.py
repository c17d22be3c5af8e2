"""The whole exchange with agents that really take turns: queue, voice, scanner, answers, in real time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from relay.airspace.advisories import intents
from relay.airspace.advisories.rules.advisory import Outcome, Steering
from relay.app.daemon.airspace import AgentTurns
from relay.config.airspace import AirspaceSettings
from relay.git.trial_merge import Merge
from relay.log import follow
from relay.log.follow import check_acyclic
from relay.model import EndPart, Kind, Part, TextPart, Turn
from relay.room.dispatch.roster import Roster
from relay.store.ports import Store
from tests.airspace.house import House
from tests.airspace.parts import FILE, AirspaceRoom, open_airspace_store, work
from tests.engines import BOTH, all_events, check_log
from tests.room.floor import Floor
from tests.room.parts import all_jobs, all_messages, notices, post, until

pytestmark = BOTH

AGENTS = ("CLAUDE", "CODEX")


class Flight(House):
    """A room with two agents that take turns and an airspace, all of it running, by the clock of the machine."""

    def __init__(self, store: Store) -> None:
        room = AirspaceRoom(
            store, time.time, AirspaceSettings(tick_s=0.02, answer_s=60.0, steer_s=60.0, interrupt_s=0.1)
        )
        self.floor = Floor(store)
        self.floor.policy = room.policy("")
        super().__init__(room, AgentTurns(Roster({}), self.floor.turns))
        self.store = store
        self.steers = True
        self.held = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self.played = {name: self.floor.add(name, self._turn) for name in AGENTS}
        async with asyncio.TaskGroup() as group:
            answers = follow.run(self.store, self.room.answers)
            tasks = [group.create_task(run) for run in (self.scanner.run(), answers, self.interrupter.run())]
            try:
                yield
            finally:
                await self.floor.close()
                for task in tasks:
                    task.cancel()

    async def _turn(self, turn: Turn) -> AsyncIterator[Part]:
        if "hold on" in turn.prompt and "cut off" not in turn.prompt:
            await self.held.wait()
        if turn.agent == "CODEX" and "STEER: CODEX" in turn.prompt and self.steers:
            self.trees.sets = [work("CLAUDE", FILE, committed=2.0), work("CODEX", "src/free.py")]
            self.scanner.poke()
            yield TextPart("I leave it to @CLAUDE.\nINTENT: src/free.py")
        else:
            yield TextPart(f"I go on, @CODEX and @CLAUDE.\nINTENT: {FILE}")
        yield EndPart()

    async def settled(self) -> bool:
        jobs = await all_jobs(self.store)
        return bool(jobs) and all(job.state in ("done", "skipped") for job in jobs)


@pytest.fixture
async def flight(tmp_path: Path) -> AsyncIterator[Flight]:
    store = await open_airspace_store(tmp_path)
    made = Flight(store)
    async with made.running():
        yield made
    await check_log(store)
    await store.close()


async def test_one_steers_and_the_room_says_so_from_beginning_to_end(flight: Flight) -> None:
    flight.trees.sets = [work("CLAUDE", FILE, committed=2.0), work("CODEX", FILE)]
    flight.scanner.poke()

    async def closed() -> bool:
        advisories = await flight.room.all()
        return bool(advisories) and not advisories[0].open and set(advisories[0].answers) == set(AGENTS)

    await until(closed)
    advisory = await flight.room.only()
    assert (advisory.steering, advisory.outcome) == (Steering.LEFT, Outcome.AVERTED)
    assert advisory.answers["CODEX"].intent == ("src/free.py",)
    said = [message for message in await all_messages(flight.store) if message.kind is Kind.ADVISORY]
    assert said[0].body.startswith(f"both change {FILE}; HOLD: CLAUDE (2 files committed), STEER: CODEX")
    assert sum(message.body.startswith("clear: ") for message in said) == 1
    assert {job.agent for job in await all_jobs(flight.store)} == set(AGENTS)
    assert len(await all_jobs(flight.store)) == 2, "the answers' mentions set nobody to work"
    assert len(await all_events(flight.store, intents.DECLARED)) == 2
    assert flight.room.protocol.clear


async def test_one_that_ignores_it_is_told_by_the_guard_and_people_are_asked(flight: Flight) -> None:
    flight.steers = False
    flight.room.settings = replace(flight.room.settings, steer_s=0.3)
    flight.trees.told[AGENTS] = Merge((FILE,))
    flight.trees.sets = [work("CLAUDE", FILE, committed=2.0), work("CODEX", FILE)]
    flight.scanner.poke()
    (asked,) = await until(lambda: notices(flight.store, "advisory"))
    assert asked.body.startswith(f"CODEX was to leave {FILE}")
    assert flight.room.protocol.steer("CODEX", FILE) is not None
    advisory = await flight.room.only()
    assert (advisory.steering, advisory.outcome) == (Steering.STAYED, Outcome.TRUE)
    await asyncio.sleep(0.2)
    assert len(await notices(flight.store, "advisory")) == 1


async def test_a_turn_under_way_is_cut_off_and_goes_on_with_the_advisory(flight: Flight) -> None:
    await post(flight.store, "@CODEX hold on", 1.0, agents=AGENTS)

    async def at_work() -> bool:
        return "CODEX" in flight.floor.turns.by_agent

    await until(at_work)
    flight.trees.sets = [work("CLAUDE", FILE, committed=2.0), work("CODEX", FILE)]
    flight.scanner.poke()
    await until(flight.settled)
    first, second = flight.played["CODEX"].turns[:2]
    assert "cut off" not in first.prompt
    assert f"Make no further change in {FILE}" in second.prompt and "hold on" in second.prompt
    assert second.interrupted and "STEER: CODEX" in second.prompt


def test_what_it_follows_it_does_not_feed(flight: Flight) -> None:
    check_acyclic([flight.room.answers])
