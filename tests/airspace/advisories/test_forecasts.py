"""What was foretold of a pair: kept, counted by how it came, and said once, over a restart too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from relay.airspace.advisories import intents, table, wording
from relay.airspace.advisories.rules import forecasts
from relay.airspace.advisories.rules.forecasts import Forecast, ForecastOutcome
from relay.airspace.live.answers import AnswerFollower
from relay.airspace.live.edit_guard import AirspaceGuard
from relay.airspace.readings import Assessment, Evidence, Level, Reading
from relay.git.trial_merge import Merge, Trial, Verdict
from relay.model import Location
from relay.model.working_set import FileTouch, WorkingSet
from relay.room.dispatch.roster import Roster
from tests.airspace.house import House
from tests.airspace.parts import FILE, AirspaceRoom, near, open_airspace_store, touch, work
from tests.engines import BOTH, Clock
from tests.room import parts
from tests.room.office import Office

pytestmark = BOTH
PAIR = ("CLAUDE", "CODEX")
NOTHING = {"true": 0, "false": 0, "open": 0, "n": 0, "precision": None}


@pytest.fixture
async def airspace(tmp_path: Path) -> AsyncIterator[AirspaceRoom]:
    store = await open_airspace_store(tmp_path)
    yield AirspaceRoom(store, Clock())
    await store.close()


async def counts(airspace: AirspaceRoom) -> dict[str, Any]:
    told: dict[str, Any] = (await airspace.store.read(table.counts))["lookahead"]
    return told


async def draw(airspace: AirspaceRoom) -> None:
    """Two work in one file, apart, and a collision is foretold."""
    airspace.sets |= {"CLAUDE": work("CLAUDE", FILE), "CODEX": work("CODEX", FILE)}
    assert await counts(airspace) == NOTHING
    assert await airspace.tick(ahead=frozenset([PAIR]), conflicts={PAIR: ()})
    assert await counts(airspace) == NOTHING | {"open": 1}


async def test_it_came_true_when_git_cannot_merge_the_two(airspace: AirspaceRoom) -> None:
    await draw(airspace)
    assert not await airspace.tick(ahead=frozenset([PAIR]), conflicts={PAIR: ()}), "nothing is new"
    # It is not drawn any more, and was said.
    assert not await airspace.tick(conflicts={PAIR: ()})
    await airspace.tick(conflicts={PAIR: (FILE,)})
    assert await counts(airspace) == {"true": 1, "false": 0, "open": 0, "n": 1, "precision": 1.0}
    assert not airspace.protocol.state.forecasts
    await airspace.tick(ahead=frozenset([PAIR]), conflicts={PAIR: (FILE,)})
    assert (await counts(airspace))["open"] == 0, "what git cannot merge already is not foretold"


@pytest.mark.parametrize("end", ["merged", "dropped", "gone"])
async def test_it_did_not_when_one_ended_clean(airspace: AirspaceRoom, end: str) -> None:
    await draw(airspace)
    if end == "gone":
        del airspace.sets["CLAUDE"]
    else:
        # What it said it would touch is in the main branch by now.
        airspace.sets["CLAUDE"] = WorkingSet("CLAUDE", intent=(touch(FILE),))
    merged = frozenset({"CLAUDE"} if end == "merged" else ())
    await airspace.tick(merged=merged, trials={"CODEX": Trial(Verdict.CLEAN)})
    assert await counts(airspace) == {"true": 0, "false": 1, "open": 0, "n": 1, "precision": 0.0}
    # The next work of the two is another look-ahead.
    airspace.sets["CLAUDE"] = work("CLAUDE", "src/free.py")
    await airspace.tick(ahead=frozenset([PAIR]), conflicts={PAIR: ()})
    assert await counts(airspace) == {"true": 0, "false": 1, "open": 1, "n": 1, "precision": 0.0}


async def test_what_git_was_not_asked_is_unknown(airspace: AirspaceRoom) -> None:
    await draw(airspace)
    await airspace.tick(ahead=frozenset([PAIR]))
    airspace.sets["CLAUDE"] = WorkingSet("CLAUDE")
    await airspace.tick(merged=frozenset(["CLAUDE"]), trials={"CODEX": Trial(Verdict.CLEAN)})
    assert await counts(airspace) == NOTHING | {"open": 1}
    assert not airspace.protocol.state.forecasts


async def test_a_merge_that_sets_the_other_back_is_no_clean_end(airspace: AirspaceRoom) -> None:
    await draw(airspace)
    airspace.sets["CLAUDE"] = WorkingSet("CLAUDE")
    trial = Trial(Verdict.CONFLICTS, (FILE,))
    await airspace.tick(merged=frozenset(["CLAUDE"]), trials={"CODEX": trial})
    assert (await counts(airspace))["n"] == 0


async def test_an_intent_alone_is_no_end(airspace: AirspaceRoom) -> None:
    """Who has only said what it will touch has a branch with nothing in it, and is not done."""
    airspace.sets |= {"CLAUDE": work("CLAUDE", FILE), "CODEX": WorkingSet("CODEX", intent=(touch(FILE),))}
    await airspace.tick(ahead=frozenset([PAIR]), trials={"CODEX": Trial(Verdict.NOTHING)})
    assert (await counts(airspace))["open"] == 1
    airspace.sets["CODEX"] = work("CODEX", FILE)
    await airspace.tick(conflicts={PAIR: (FILE,)})
    assert (await counts(airspace))["true"] == 1


async def test_each_kind_is_counted_apart(airspace: AirspaceRoom) -> None:
    await draw(airspace)
    airspace.seen[PAIR] = near(0.9)
    await airspace.tick(ahead=frozenset([PAIR]), conflicts={PAIR: (FILE,)})
    told = await airspace.store.read(table.counts)
    assert (told["true"], told["n"], told["traffic"]["n"], told["lookahead"]["n"]) == (1, 1, 0, 1)
    assert wording.precision(told) == "Came true so far: resolution 1 of 1, look-ahead 1 of 1."
    assert wording.precision({"n": 0, "traffic": {"n": 0}, "lookahead": NOTHING}) == ""
    # An advisory says more than a look-ahead: what is at a level is not counted as one.
    assert forecasts.update_forecasts({}, (), {}, {}, (), {}, 1.0) == {}
    assert (
        forecasts.update_forecasts({PAIR: Forecast(1.0)}, (), {}, {}, (), {}, 2.0)[PAIR].came
        is ForecastOutcome.UNKNOWN
    )


async def test_switched_off_nobody_knows(airspace: AirspaceRoom) -> None:
    await draw(airspace)
    await airspace.protocol.end_all("the airspace is switched off")
    assert not airspace.protocol.state.forecasts and await counts(airspace) == NOTHING | {"open": 1}


async def test_a_restart_goes_on_with_what_was_foretold(airspace: AirspaceRoom) -> None:
    await draw(airspace)
    airspace.protocol = airspace.another()
    await airspace.protocol.load()
    await airspace.tick(ahead=frozenset([PAIR]), conflicts={PAIR: (FILE,)})
    assert (await counts(airspace))["true"] == 1


async def test_told_once_holds_over_a_restart(tmp_path: Path) -> None:
    """CODEX enters the file that CLAUDE has in hand, and is told; the room starts anew; it is not told again."""
    store = await open_airspace_store(tmp_path)
    house = House(AirspaceRoom(store, Clock()))
    room = house.room
    house.trees.sets = [WorkingSet("CLAUDE", (FileTouch(FILE),)), work("CODEX", "src/free.py")]

    def guard() -> AirspaceGuard:
        return AirspaceGuard(room.context, room.protocol, house.scanner)

    await house.tick()
    assert "CLAUDE changes" in (await guard().decide("CODEX", Location(FILE, None, True))).note
    await house.tick()
    house = House(AirspaceRoom(store, room.clock))
    room = house.room
    house.trees.sets = [WorkingSet("CLAUDE", (FileTouch(FILE),)), work("CODEX", "src/free.py")]
    await room.protocol.load()
    await house.tick()
    assert (await guard().decide("CODEX", Location(FILE, None, True))).note == ""
    # It is over when CLAUDE has left the file: then another time begins.
    house.trees.sets = [WorkingSet("CLAUDE"), work("CODEX", "src/free.py")]
    await house.tick()
    assert not (await store.read(table.load_state)).edit_notices
    house.trees.sets = [WorkingSet("CLAUDE", (FileTouch(FILE),)), work("CODEX", "src/free.py")]
    await house.tick()
    assert "CLAUDE changes" in (await guard().decide("CODEX", Location(FILE, None, True))).note
    await store.close()


async def test_what_is_foretold_where_nobody_is_yet_is_told_once(airspace: AirspaceRoom) -> None:
    airspace.sets |= {"CLAUDE": work("CLAUDE", "src/free.py"), "CODEX": work("CODEX", "docs/a.md")}
    reading = Reading(0.2, foretells=True, evidence=(Evidence(f"CODEX comes near {FILE}", FILE),))
    link = Assessment(0.2, Level.CLEAR, {"nearness": reading}, ahead=True)
    airspace.forecasts = {PAIR: link}
    guard = AirspaceGuard(airspace.context, airspace.protocol, airspace)
    assert "may collide later" in (await guard.decide("CODEX", Location(FILE, None, True))).note
    assert (await guard.decide("CODEX", Location(FILE, None, True))).note == ""


async def test_the_page_and_the_terminal_say_the_same(tmp_path: Path) -> None:
    store = await open_airspace_store(tmp_path)
    house = House(AirspaceRoom(store, Clock()))
    house.measure.foretells = True
    house.trees.sets = [work("CLAUDE", "src/a.py"), work("CODEX", "src/b.py")]
    await house.tick()
    state = await house.live.state()
    assert [one["ahead"] for one in state["links"]] == [True]
    assert state["precision"]["lookahead"] == NOTHING | {"open": 1}
    assert "Came true" not in house.live.who_is_near()
    house.trees.sets = [work("CLAUDE", "src/a.py", FILE), work("CODEX", "src/b.py", FILE)]
    house.trees.told[PAIR] = Merge((FILE,))
    await house.tick()
    state = await house.live.state()
    assert state["precision"]["lookahead"] | {"n": 1} == {
        **NOTHING,
        "true": 1,
        "n": 1,
        "precision": 1.0,
    }
    assert (await house.live.advisories(10))["precision"] == state["precision"]
    assert "look-ahead 1 of 1" in house.live.who_is_near()
    await store.close()


async def test_an_intent_is_answered_with_what_is_in_hand(airspace: AirspaceRoom) -> None:
    """The agent's INTENT line names a file that a third has in hand: it is told so, and nothing is refused."""
    house = House(AirspaceRoom(airspace.store, airspace.clock))
    house.trees.sets = [work("GEMINI", "src/free.py")]
    await house.tick()
    airspace.answers = AnswerFollower(airspace.voice, house.live, clock=airspace.clock)
    await airspace.meet()
    await airspace.turn("CODEX", "INTENT: src/free.py, docs/a.md")
    bodies = [one.body for one in await parts.all_messages(airspace.store) if "your part?" in one.body]
    assert bodies == [
        "GEMINI changes src/free.py now, lines 1-10. What is your part? Keep to it, or agree in the room first."
    ]
    declared = await airspace.store.read(lambda tx: intents.declared(tx, airspace.clock()))
    assert set(declared["CODEX"]) == {"src/free.py", "docs/a.md"}


async def test_a_persons_intent_is_answered_with_what_is_in_hand(airspace: AirspaceRoom) -> None:
    house = House(AirspaceRoom(airspace.store, airspace.clock))
    house.trees.sets = [work("GEMINI", "src/free.py")]
    await house.tick()
    async with Office(
        airspace.store, airspace.clock, Roster(airspace.members), airspace=house.live
    ).at_work() as office:
        answer = await office.ask("/intent @CODEX src/free.py")
    said, _, told = answer.body.partition("\n\n")
    assert said == "CODEX intends to touch `src/free.py`."
    assert told.startswith("GEMINI changes src/free.py now, lines 1-10. What is your part?")
