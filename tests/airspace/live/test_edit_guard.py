"""What stands against an edit, and which turn is cut off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from relay.airspace.live.edit_guard import AirspaceGuard
from relay.airspace.live.interrupter import Interrupter
from relay.airspace.readings import Assessment, Evidence, Level, Reading
from relay.model import Location
from relay.model.working_set import FileTouch, Span, WorkingSet
from tests.airspace.parts import FILE, AirspaceRoom, near, open_airspace_store, work
from tests.engines import Clock
from tests.room.parts import until


@pytest.fixture
async def airspace(tmp_path: Path) -> AsyncIterator[AirspaceRoom]:
    store = await open_airspace_store(tmp_path)
    yield AirspaceRoom(store, Clock())
    await store.close()


@pytest.fixture
def guard(airspace: AirspaceRoom) -> AirspaceGuard:
    return AirspaceGuard(airspace.context, airspace.protocol, airspace)


async def test_a_standing_resolution_answers_for_who_steers(
    airspace: AirspaceRoom, guard: AirspaceGuard
) -> None:
    one = await airspace.meet()
    told = await guard.decide("CODEX", Location(FILE))
    assert told.steer and told.advisory == one.id
    assert told.reason.startswith(f"Steer clear of {FILE}: both change lines 40-58")
    assert not (await guard.decide("CLAUDE", Location(FILE))).steer
    assert not (await guard.decide("CODEX", Location("src/free.py"))).steer
    assert not (await guard.decide("CODEX", Location(FILE, writes=False))).steer


async def test_muted_or_switched_off_nothing_is_contested(
    airspace: AirspaceRoom, guard: AirspaceGuard
) -> None:
    await airspace.meet()
    airspace.settings = replace(airspace.settings, muted=("src/**",))
    assert not (await guard.decide("CODEX", Location(FILE))).steer
    airspace.settings = replace(airspace.settings, muted=(), enabled=False)
    assert not (await guard.decide("CODEX", Location(FILE))).steer


async def test_an_edit_that_no_scan_has_seen_is_looked_ahead_of(
    airspace: AirspaceRoom, guard: AirspaceGuard
) -> None:
    held = FileTouch(FILE, lines=(Span(40, 58, new_count=19),))
    airspace.sets["CLAUDE"] = WorkingSet("CLAUDE", (held,), committed=2.0)
    told = await guard.decide("CODEX", Location(FILE, (50, 51), True))
    assert told.steer and told.advisory is None and "CLAUDE has changed lines 40-58" in told.reason
    assert not (await guard.decide("CODEX", Location(FILE, (1, 2), True))).steer
    assert not (await guard.decide("CODEX", Location(FILE, None, True))).steer


async def test_of_two_one_may_always_go_on(airspace: AirspaceRoom, guard: AirspaceGuard) -> None:
    """CLAUDE holds; CODEX commits more afterwards, which would turn a fresh right of way round."""
    await airspace.meet()
    held = FileTouch(FILE, lines=(Span(40, 58, new_count=19),))
    airspace.sets["CODEX"] = WorkingSet("CODEX", (held,), committed=9.0)
    airspace.sets["CLAUDE"] = WorkingSet("CLAUDE", (held,), committed=3.0)
    assert not (await guard.decide("CLAUDE", Location(FILE, (50, 51), True))).steer
    assert (await guard.decide("CODEX", Location(FILE, (50, 51), True))).steer


async def test_who_enters_a_file_in_hand_is_told_once_and_goes_on(airspace: AirspaceRoom) -> None:
    airspace.asked = {"CLAUDE": "Round the total\nof the cart"}
    guard = AirspaceGuard(airspace.context, airspace.protocol, airspace)
    held = FileTouch(FILE, lines=(Span(10, 30, new_count=21), Span(31, 40, new_count=3)))
    airspace.sets["CLAUDE"] = WorkingSet("CLAUDE", (held,))
    told = await guard.decide("CODEX", Location(FILE, (90, 91), True))
    assert not told.refused and told.as_json()["decision"] == "allow"
    assert told.note.startswith(f"CLAUDE changes {FILE} now, lines 10-40, for: Round the total of the cart.")
    assert "your part?" in told.note and told.as_json()["note"] == told.note
    assert (await guard.decide("CODEX", Location(FILE, (95, 96), True))).note == ""
    assert "note" not in (await guard.decide("CODEX", Location("src/free.py", None, True))).as_json()
    assert (await guard.decide("CODEX", Location(FILE, None, False))).note == ""
    assert told.note.endswith("This edit is allowed.")
    # CLAUDE is in its own file; who comes third is told of both.
    assert (await guard.decide("CLAUDE", Location(FILE, (12, 12), True))).note == ""
    airspace.sets["CODEX"] = work("CODEX", FILE)
    note = (await guard.decide("GEMINI", Location(FILE, None, True))).note
    assert f"CLAUDE changes {FILE}" in note and f"CODEX changes {FILE}" in note
    # When CLAUDE has left and is back, that is another time.
    airspace.sets["CLAUDE"] = WorkingSet("CLAUDE")
    assert (await guard.decide("GEMINI", Location(FILE, None, True))).note == ""
    airspace.sets["CLAUDE"] = WorkingSet("CLAUDE", (held,))
    assert "CLAUDE changes" in (await guard.decide("GEMINI", Location(FILE, None, True))).note


async def test_what_is_foretold_is_told_once_at_the_edit_it_is_about(airspace: AirspaceRoom) -> None:
    mine, other = work("CLAUDE", FILE), work("CODEX", FILE)
    airspace.sets |= {"CLAUDE": mine, "CODEX": other}
    reading = Reading(0.15, foretells=True, evidence=(Evidence("both were asked about cart and total"),))
    nearness = Reading(0.1, foretells=True, evidence=(Evidence(f"both work in {FILE}", FILE),))
    link = Assessment(0.2, Level.CLEAR, {"words": reading, "nearness": nearness}, ahead=True)
    airspace.forecasts = {("CLAUDE", "CODEX"): link}
    guard = AirspaceGuard(airspace.context, airspace.protocol, airspace)
    assert (await guard.decide("CODEX", Location("src/free.py", None, True))).note == ""
    told = await guard.decide("CODEX", Location(FILE, (90, 91), True))
    # Both are in the file already: what is new is what is foretold.
    assert told.note.startswith("You and CLAUDE may collide later: both were asked about cart and total;")
    assert not told.refused
    assert (await guard.decide("CODEX", Location(FILE, (90, 91), True))).note == ""
    assert "You and CODEX may" in (await guard.decide("CLAUDE", Location(FILE, None, True))).note


class Turns:
    """Who works since when, and what was cut off."""

    def __init__(self, airspace: AirspaceRoom) -> None:
        self.since: dict[str, float] = {}
        self.cut: list[tuple[str, str]] = []
        self.asked_before: set[str] = set()
        self.one = Interrupter(airspace.context, airspace.protocol, self)

    def working(self) -> dict[str, float]:
        return self.since

    def guarded(self, agent: str) -> bool:
        return agent in self.asked_before

    async def interrupt(self, agent: str, text: str) -> bool:
        self.cut.append((agent, text))
        return True


async def test_a_turn_that_cannot_be_asked_is_cut_off_once(airspace: AirspaceRoom) -> None:
    turns = Turns(airspace)
    turns.since = {"CLAUDE": airspace.clock(), "CODEX": airspace.clock()}
    await airspace.meet()
    task = asyncio.create_task(turns.one.run())

    async def was_cut() -> bool:
        return bool(turns.cut)

    try:
        turns.one.look()
        assert not turns.one._due(), "it has time to end by itself"
        airspace.clock.move(airspace.settings.interrupt_s)
        turns.one.look()
        await until(was_cut)
        turns.one.look()
        assert turns.one._due() == []
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    ((agent, text),) = turns.cut
    assert agent == "CODEX" and f"Make no further change in {FILE}" in text


async def test_a_turn_that_began_after_it_or_is_asked_goes_on(airspace: AirspaceRoom) -> None:
    turns = Turns(airspace)
    await airspace.meet()
    airspace.clock.move(airspace.settings.interrupt_s)
    turns.since = {"CODEX": airspace.clock()}
    assert turns.one._due() == []
    turns.since = {"CODEX": 0.0}
    assert [agent for agent, _ in turns.one._due()] == ["CODEX"]
    turns.asked_before.add("CODEX")
    assert turns.one._due() == []


async def test_a_resolution_that_comes_back_cuts_off_again(airspace: AirspaceRoom) -> None:
    turns = Turns(airspace)
    turns.since = {"CODEX": 0.0}
    one = await airspace.meet()
    airspace.clock.move(airspace.settings.interrupt_s)
    turns.one._done[("CODEX", one.id)] = turns.one._due()[0][1].since
    airspace.seen[("CLAUDE", "CODEX")] = near(0.5)
    await airspace.tick()
    assert turns.one._due() == []
    airspace.sets["CODEX"] = work("CODEX", FILE, "x.py")
    airspace.seen[("CLAUDE", "CODEX")] = near(0.9)
    await airspace.tick(airspace.settings.cooldown_s)
    await airspace.tick(airspace.settings.interrupt_s)
    assert [agent for agent, _ in turns.one._due()] == ["CODEX"]
