"""The whole exchange with agents that really take turns: queue, voice, scanner, answers, in real time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relay.airspace.advisories import intents, table
from relay.airspace.advisories.answers import Answers
from relay.airspace.advisories.edit_guard import Interrupter
from relay.airspace.advisories.protocol import AdvisoryProtocol
from relay.airspace.advisories.rules.advisory import Outcome, Steering
from relay.airspace.live.scanner import Scanner
from relay.config.airspace import AirspaceSettings
from relay.coordination.tasks.board import Board
from relay.git.trial_merge import Merge
from relay.log import follow
from relay.log.follow import check_acyclic
from relay.log.verify import verify
from relay.model import EndPart, Kind, Part, TextPart, Turn
from relay.room.advisory_voice import RoomVoice
from relay.room.dispatch.queue import Policy
from relay.room.dispatch.roster import Member, Roster
from relay.room.dispatch.worker import Drain, Seat
from relay.room.journal.live_bus import Live
from relay.store.ports import Store
from tests.airspace.live.test_scanner import PlayedMeasure, PlayedTrees
from tests.airspace.parts import FILE, open_sky, work
from tests.engines import BOTH, all_events
from tests.room.parts import Played, all_jobs, all_messages, notices, post, until

pytestmark = BOTH

AGENTS = ("CLAUDE", "CODEX")


class Flight:
    """A room with two agents and an airspace, all of it running."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.settings = AirspaceSettings(tick_s=0.02, answer_s=60.0, steer_s=60.0, interrupt_s=0.1)
        self.trees, self.measure, self.live = PlayedTrees(), PlayedMeasure(), Live()
        self.played = {name: Played(name, self._turn) for name in AGENTS}
        self.policies = {name: Policy(name, names=AGENTS, agent_mentions=True) for name in AGENTS}
        self.members = {name: Member(name, "played", self.policies[name]) for name in AGENTS}
        self.drain = Drain(store, self.live, holder="me")
        voice = RoomVoice(lambda: Roster(self.members))
        self.protocol = AdvisoryProtocol(store, voice, self._airspace, board=Board())
        self.answers = Answers(voice)
        self.interrupter = Interrupter(
            self.protocol,
            self._airspace,
            working=lambda: {name: one.plan.started_at for name, one in self.drain.running.items()},
            guarded=lambda _agent: False,
            interrupt=self.drain.interrupt,
        )
        self.scanner = Scanner(
            store,
            self.protocol,
            self.trees,
            self.measure,
            self._airspace,
            agents=lambda: AGENTS,
            publish=self.live.publish,
            after_tick=self.interrupter.look,
        )
        self.steers = True
        self.held = asyncio.Event()

    def _airspace(self) -> AirspaceSettings:
        return self.settings

    def runs(self) -> list[Coroutine[Any, Any, None]]:
        """What runs for ever."""
        return [
            self.drain.dispatch_drain_loop(),
            self.scanner.run(),
            follow.run(self.store, self.answers),
            self.interrupter.run(),
        ]

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
    store = await open_sky(tmp_path)
    one = Flight(store)
    tasks = [asyncio.create_task(run) for run in one.runs()]
    one.drain.set_seats(
        {name: Seat(one.played[name], lambda name=name: one.policies[name]) for name in AGENTS}  # type: ignore[misc]
    )
    yield one
    await one.drain.stop(0.0)
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task
    assert await verify(store) == []
    await store.close()


async def test_one_steers_and_the_room_says_so_from_beginning_to_end(flight: Flight) -> None:
    flight.trees.sets = [work("CLAUDE", FILE, committed=2.0), work("CODEX", FILE)]
    flight.scanner.poke()

    async def closed() -> bool:
        found = await flight.store.read(lambda tx: table.latest(tx, 10))
        return bool(found) and not found[0].open and set(found[0].answers) == set(AGENTS)

    await until(closed)
    (one,) = await flight.store.read(lambda tx: table.latest(tx, 10))
    assert (one.steering, one.outcome) == (Steering.LEFT, Outcome.AVERTED)
    assert one.answers["CODEX"].intent == ("src/free.py",)
    said = [message for message in await all_messages(flight.store) if message.kind is Kind.ADVISORY]
    assert said[0].body.startswith(f"both change {FILE}; HOLD: CLAUDE (2 files committed), STEER: CODEX")
    assert sum(message.body.startswith("clear: ") for message in said) == 1
    assert {job.agent for job in await all_jobs(flight.store)} == set(AGENTS)
    assert len(await all_jobs(flight.store)) == 2, "the answers' mentions set nobody to work"
    assert len(await all_events(flight.store, intents.DECLARED)) == 2
    assert flight.protocol.clear


async def test_one_that_ignores_it_is_told_by_the_guard_and_people_are_asked(flight: Flight) -> None:
    flight.steers = False
    flight.settings = replace(flight.settings, steer_s=0.3)
    flight.trees.told[AGENTS] = Merge((FILE,))
    flight.trees.sets = [work("CLAUDE", FILE, committed=2.0), work("CODEX", FILE)]
    flight.scanner.poke()
    (asked,) = await until(lambda: notices(flight.store, "advisory"))
    assert asked.body.startswith(f"CODEX was to leave {FILE}")
    assert flight.protocol.steer("CODEX", FILE) is not None
    (one,) = await flight.store.read(lambda tx: table.latest(tx, 10))
    assert (one.steering, one.outcome) == (Steering.STAYED, Outcome.TRUE)
    await asyncio.sleep(0.2)
    assert len(await notices(flight.store, "advisory")) == 1


async def test_a_turn_under_way_is_cut_off_and_goes_on_with_the_advisory(flight: Flight) -> None:
    await post(flight.store, "@CODEX hold on", 1.0, agents=AGENTS)

    async def at_work() -> bool:
        return "CODEX" in flight.drain.running

    await until(at_work)
    flight.trees.sets = [work("CLAUDE", FILE, committed=2.0), work("CODEX", FILE)]
    flight.scanner.poke()
    await until(flight.settled)
    first, second = flight.played["CODEX"].turns[:2]
    assert "cut off" not in first.prompt
    assert f"Make no further change in {FILE}" in second.prompt and "hold on" in second.prompt
    assert second.interrupted and "STEER: CODEX" in second.prompt


def test_what_it_follows_it_does_not_feed(flight: Flight) -> None:
    check_acyclic([flight.answers])
