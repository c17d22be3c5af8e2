"""The protocol in a real room: rows, events, messages, turns, answers, deadlines, steering, outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relay.airspace.advisories import intents, table, wording
from relay.airspace.advisories.rules.advisory import Mark, Outcome, Steering
from relay.airspace.advisories.rules.hysteresis import Sample
from relay.airspace.advisories.rules.observation import PairObservation
from relay.airspace.live.picture import near_text
from relay.airspace.readings import Evidence, Level
from relay.log.follow import step
from relay.log.imported import make_replica_id
from relay.model import Kind
from relay.model.working_set import FileTouch, WorkingSet
from relay.room.dispatch.turns import Idle
from relay.room.dispatch.turns import Outcome as TurnOutcome
from relay.room.journal.frames import SHOWN, frames_of
from relay.room.journal.values import JobState
from relay.store.ports import Tx
from relay.timeline.sync.batch import Incoming
from relay.timeline.sync.importing import import_events
from relay.timeline.sync.outgoing import read_page
from tests.airspace.parts import FILE, AirspaceRoom, near, open_airspace_store, touch, work
from tests.engines import BOTH, Clock, check_log
from tests.room import parts

pytestmark = BOTH


@pytest.fixture
async def airspace(tmp_path: Path) -> AsyncIterator[AirspaceRoom]:
    store = await open_airspace_store(tmp_path)
    yield AirspaceRoom(store, Clock())
    await check_log(store)
    await store.close()


# -- saying and asking


async def test_a_resolution_says_why_in_one_line_and_asks_both(airspace: AirspaceRoom) -> None:
    def tasks(tx: Tx) -> Any:
        return airspace.board.create(tx, "Write the docs", by="ann", lane=table.lane_of("t"))

    await airspace.store.write(tasks)
    one = await airspace.meet()
    (message,) = await airspace.said()
    assert message.body.splitlines()[0] == (
        f"both change lines 40-58 of {FILE}; HOLD: CLAUDE (3 files committed), STEER: CODEX; "
        "nearest free work: t1"
    )
    assert (message.speaker, message.kind, message.to) == ("RELAY", Kind.ADVISORY, ("CLAUDE", "CODEX"))
    assert [(job.agent, job.message_id) for job in await airspace.jobs()] == [
        ("CLAUDE", message.id),
        ("CODEX", message.id),
    ]
    assert await parts.waiting_cycles(airspace.store) == []
    shown = one.as_json()
    assert (shown["level"], shown["hold"], shown["steer"]) == ("resolution", ["CLAUDE"], ["CODEX"])
    assert (shown["message_id"], shown["asked"]) == (message.id, ["CLAUDE", "CODEX"])
    last = (await airspace.events(table.CHANGED))[-1]
    assert last.outputs["advisory"]["id"] == one.id and last.lane == f"advisory:{one.id}"


async def test_a_traffic_advisory_asks_both_to_transmit(airspace: AirspaceRoom) -> None:
    one = await airspace.meet(risk=0.5)
    (message,) = await airspace.said()
    assert message.body.splitlines()[0] == f"both change lines 40-58 of {FILE}; TRANSMIT: CLAUDE, CODEX"
    assert "INTENT: path" in message.body
    assert one.as_json()["steer"] == [] and len(await airspace.jobs()) == 2


async def test_a_task_that_names_the_contested_file_is_no_free_work(airspace: AirspaceRoom) -> None:
    async def tasks(tx: Tx) -> None:
        for title in (f"Mend {FILE}", "Tidy session.py up"):
            await airspace.board.create(tx, title, by="ann", lane=table.lane_of("t"))

    await airspace.store.write(tasks)
    await airspace.meet()
    assert "free work" not in (await airspace.said())[0].body


async def test_it_is_said_once_however_long_it_lasts(airspace: AirspaceRoom) -> None:
    await airspace.meet()
    for _ in range(5):
        assert not await airspace.tick()
    assert len(await airspace.said()) == 1 and len(await airspace.events(table.CHANGED)) == 2


async def test_worse_is_said_again_and_takes_the_place_of_what_waits(airspace: AirspaceRoom) -> None:
    await airspace.meet(risk=0.5)
    airspace.seen[("CLAUDE", "CODEX")] = near(0.9)
    await airspace.tick()
    first, second = await airspace.said()
    assert [(job.agent, job.state, job.message_id == second.id) for job in await airspace.jobs()] == [
        ("CLAUDE", JobState.SKIPPED, False),
        ("CODEX", JobState.SKIPPED, False),
        ("CLAUDE", JobState.PENDING, True),
        ("CODEX", JobState.PENDING, True),
    ]
    await airspace.follow()
    assert (await airspace.only()).unanswered == ("CLAUDE", "CODEX")
    assert [asked.failed for asked in (await airspace.only()).asked.values()] == ["", ""]
    assert first.id != second.id


async def test_easing_is_silent_and_the_end_is_said_once(airspace: AirspaceRoom) -> None:
    await airspace.meet()
    airspace.seen[("CLAUDE", "CODEX")] = near(0.5)
    assert await airspace.tick()
    assert len(await airspace.said()) == 1 and (await airspace.only()).level is Level.TRAFFIC
    del airspace.seen[("CLAUDE", "CODEX")]
    await airspace.tick()
    assert not await airspace.tick()
    _, clear = await airspace.said()
    assert clear.body == f"clear: CLAUDE and CODEX are apart again in {FILE}"
    assert all(job.state is JobState.SKIPPED for job in await airspace.jobs())
    assert not (await airspace.only()).open and airspace.protocol.clear


async def test_within_the_cool_down_it_stands_unsaid_and_is_said_after_it(airspace: AirspaceRoom) -> None:
    await airspace.meet()
    del airspace.seen[("CLAUDE", "CODEX")]
    await airspace.tick()
    airspace.seen[("CLAUDE", "CODEX")] = near(0.9)
    await airspace.tick()
    assert len(await airspace.said()) == 2
    assert airspace.protocol.steer("CODEX", FILE) is not None, "the guard knows it all the same"
    assert airspace.protocol.due_at() is not None
    await airspace.tick(airspace.settings.cooldown_s)
    assert len(await airspace.said()) == 3


async def test_three_in_one_file_get_one_message(airspace: AirspaceRoom) -> None:
    airspace.sets |= {name: work(name, FILE) for name in ("CLAUDE", "CODEX", "GEMINI")}
    airspace.seen |= {
        (a, b): near(0.9) for a, b in (("CLAUDE", "CODEX"), ("CLAUDE", "GEMINI"), ("CODEX", "GEMINI"))
    }
    await airspace.tick()
    (message,) = await airspace.said()
    assert message.to == ("CLAUDE", "CODEX", "GEMINI") and len(await airspace.jobs()) == 3
    assert message.body.startswith(f"CLAUDE, CODEX and GEMINI meet in {FILE} (all change lines 40-58")
    assert "HOLD: CLAUDE (first by name), STEER: CODEX, GEMINI" in message.body


async def test_of_three_who_meet_it_is_said_which_two_change_the_same_lines(airspace: AirspaceRoom) -> None:
    airspace.sets |= {name: work(name, FILE) for name in ("CLAUDE", "CODEX", "GEMINI")}
    airspace.seen |= {
        ("CLAUDE", "CODEX"): near(0.95),
        ("CLAUDE", "GEMINI"): near(0.9, lines=(60, 61)),
        ("CODEX", "GEMINI"): near(0.9, lines=(60, 61)),
    }
    await airspace.tick()
    (message,) = await airspace.said()
    met = f"CLAUDE, CODEX and GEMINI meet in {FILE} (CLAUDE and CODEX both change lines 40-58"
    assert message.body.startswith(met)


async def test_who_is_near_by_intent_is_not_put_ahead_of_who_steers(airspace: AirspaceRoom) -> None:
    airspace.sets |= {
        "CLAUDE": work("CLAUDE", "docs/a.md", started_at=1.0),
        "CODEX": work("CODEX", FILE, started_at=2.0),
        "GEMINI": work("GEMINI", FILE, started_at=3.0),
    }
    airspace.seen |= {
        ("CLAUDE", other): meant(FILE, by="CLAUDE", where=other) for other in ("CODEX", "GEMINI")
    }
    airspace.seen[("CODEX", "GEMINI")] = near(0.9)
    await airspace.tick(announced={"CLAUDE": frozenset({FILE})})
    one = await airspace.only()
    assert [place.agent for place in one.latched] == ["CODEX", "GEMINI", "CLAUDE"]
    (message,) = await airspace.said()
    assert message.body.splitlines()[0] == (
        f"both change lines 40-58 of {FILE}; HOLD: CODEX (started first), STEER: GEMINI, TRANSMIT: CLAUDE"
    )
    assert f"GEMINI: make no further change in {FILE}; CODEX goes first." in message.body
    assert [job.agent for job in await airspace.jobs()] == ["CODEX", "GEMINI"]


async def test_a_bystander_that_was_there_first_goes_ahead_of_nobody(airspace: AirspaceRoom) -> None:
    airspace.sets |= {"CLAUDE": work("CLAUDE", "docs/a.md"), "CODEX": work("CODEX", FILE, started_at=2.0)}
    airspace.seen[("CLAUDE", "CODEX")] = meant(FILE, by="CLAUDE", where="CODEX")
    await airspace.tick()
    airspace.sets["GEMINI"] = work("GEMINI", FILE, started_at=3.0)
    airspace.seen[("CODEX", "GEMINI")] = near(0.9)
    await airspace.tick()
    one = await airspace.only()
    assert [place.agent for place in one.latched] == ["CLAUDE", "CODEX", "GEMINI"]
    assert (one.roles.hold, one.roles.steer, one.roles.near) == (("CODEX",), ("GEMINI",), ("CLAUDE",))
    assert f"GEMINI: make no further change in {FILE}; CODEX goes first." in (await airspace.said())[-1].body


async def test_a_third_joins_at_the_end_and_only_it_is_asked(airspace: AirspaceRoom) -> None:
    one = await airspace.meet()
    airspace.sets["GEMINI"] = work("GEMINI", FILE, committed=99.0)
    airspace.seen |= {("CLAUDE", "GEMINI"): near(0.9), ("CODEX", "GEMINI"): near(0.9)}
    await airspace.tick()
    grown = await airspace.only()
    assert grown.id == one.id and [place.agent for place in grown.latched] == ["CLAUDE", "CODEX", "GEMINI"]
    _, second = await airspace.said()
    assert [job.agent for job in await airspace.jobs() if job.message_id == second.id] == ["GEMINI"]
    assert [job.state for job in await airspace.jobs()] == [JobState.PENDING] * 3


async def test_a_commit_in_the_middle_does_not_turn_it_round(airspace: AirspaceRoom) -> None:
    await airspace.meet()
    airspace.sets["CODEX"] = work("CODEX", FILE, committed=50.0)
    airspace.seen[("CLAUDE", "CODEX")] = near(0.5)
    await airspace.tick()
    airspace.seen[("CLAUDE", "CODEX")] = near(0.95)
    await airspace.tick(airspace.settings.cooldown_s)
    assert (await airspace.only()).roles.hold == ("CLAUDE",)


async def test_two_daemons_decide_it_once(airspace: AirspaceRoom, tmp_path: Path) -> None:
    other_store = await open_airspace_store(tmp_path)
    try:
        other = airspace.another(other_store)
        airspace.sets |= {"CLAUDE": work("CLAUDE", FILE, committed=3.0), "CODEX": work("CODEX", FILE)}
        airspace.seen[("CLAUDE", "CODEX")] = near(0.9)
        theirs = replace(
            airspace.observation(), sets={**airspace.sets, "CODEX": work("CODEX", FILE, committed=9.0)}
        )
        await asyncio.gather(airspace.protocol.observe(airspace.observation()), other.observe(theirs))
        assert len(await airspace.said()) == 1 and len(await airspace.jobs()) == 2
        one = await airspace.only()
        await airspace.protocol.load()
        await other.load()
        paths = [protocol.steer(one.roles.steer[0], FILE) for protocol in (airspace.protocol, other)]
        assert paths[0] == paths[1] is not None
    finally:
        await other_store.close()


async def test_the_latch_is_one_row_that_the_second_finds(airspace: AirspaceRoom) -> None:
    one = await airspace.meet()
    turned = replace(one, id="another", latched=one.latched[::-1])
    assert not await airspace.store.write(lambda tx: table.insert_open(tx, turned))
    assert (await airspace.only()).latched == one.latched


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"enabled": False}, "switched off"),
        ({"installed": False}, "not installed"),
    ],
)
async def test_who_cannot_be_asked_is_not_and_it_says_why(
    airspace: AirspaceRoom, change: dict[str, Any], why: str
) -> None:
    airspace.members["CODEX"] = replace(airspace.members["CODEX"], **change)
    one = await airspace.meet()
    assert [job.agent for job in await airspace.jobs()] == ["CLAUDE"]
    assert f"CODEX was not asked ({why})" in (await airspace.said())[0].body.splitlines()[0]
    assert one.as_json()["not_asked"] == {"CODEX": why}


async def test_a_paused_agent_and_a_person_are_addressed_and_not_asked(airspace: AirspaceRoom) -> None:
    await airspace.store.write(lambda tx: tx.execute(parts.Q.set_paused, name="CLAUDE", paused=1))
    await airspace.meet("CLAUDE", "ann")
    (message,) = await airspace.said()
    assert message.to == ("CLAUDE", "ann") and await airspace.jobs() == []
    assert "CLAUDE was not asked (paused)" in message.body and "ann was not asked" not in message.body
    assert airspace.protocol.due_at() == (await airspace.only()).steer_by


async def test_muted_files_are_no_reason(airspace: AirspaceRoom) -> None:
    muted = ("**/CHANGELOG*",)
    airspace.sets |= {name: work(name, FILE) for name in ("CLAUDE", "CODEX")}
    airspace.seen[("CLAUDE", "CODEX")] = near(0.9, "CHANGELOG.md", muted=muted)
    assert not await airspace.tick()
    airspace.seen[("CLAUDE", "CODEX")] = near(0.9, "CHANGELOG.md", FILE, muted=muted)
    await airspace.tick()
    assert (await airspace.only()).files == (FILE,)


# -- the answer


async def test_an_answers_intent_goes_to_the_other_and_is_declared(airspace: AirspaceRoom) -> None:
    one = await airspace.meet()
    plan = await airspace.turn("CODEX", "I go to the docs.\n\nINTENT: docs/a.md, `src/new.py`\n@CLAUDE go on")
    assert "HOLD: CLAUDE" in plan.prompt and "INTENT: path" in plan.prompt
    answered = await airspace.only()
    assert answered.answers["CODEX"].intent == ("docs/a.md", "src/new.py")
    assert answered.unanswered == ("CLAUDE",)
    held = await airspace.store.read(lambda tx: intents.declared(tx, airspace.clock()))
    assert {agent: sorted(paths) for agent, paths in held.items()} == {"CODEX": ["docs/a.md", "src/new.py"]}
    (declared,) = await airspace.events(intents.DECLARED)
    assert declared.outputs["source"] == "answer" and declared.parents
    after = await airspace.turn("CLAUDE", "INTENT: none")
    assert f"CODEX intends to touch `docs/a.md`, `src/new.py` (its answer to m{one.number})." in after.context
    assert (await airspace.only()).unanswered == ()


async def test_an_answer_sets_nobody_to_work(airspace: AirspaceRoom) -> None:
    await airspace.meet()
    before = len(await airspace.jobs())
    await airspace.turn("CODEX", "@CLAUDE @GEMINI look: INTENT: src/free.py")
    await airspace.turn("CLAUDE", "@CODEX thanks\nINTENT: src/free.py")
    assert len(await airspace.jobs()) == before
    assert await parts.waiting_cycles(airspace.store) == []


async def test_near_only_by_an_answer_is_told_and_not_asked(airspace: AirspaceRoom) -> None:
    airspace.sets["GEMINI"] = work("GEMINI", "src/free.py")
    airspace.sets["CODEX"] = work("CODEX", FILE)
    airspace.seen[("CODEX", "GEMINI")] = near(0.5, "src/free.py")
    await airspace.tick(announced={"CODEX": frozenset({"src/free.py"})})
    assert len(await airspace.said()) == 1 and await airspace.jobs() == []


async def test_without_an_answer_people_are_asked_once(airspace: AirspaceRoom) -> None:
    await airspace.meet()
    await airspace.turn("CLAUDE", "INTENT: none")
    assert not await airspace.protocol.remind()
    airspace.clock.move(airspace.settings.answer_s)
    assert await airspace.protocol.remind()
    assert not await airspace.protocol.remind()
    (asked,) = await airspace.asked_people()
    assert asked.body.startswith("CODEX has not answered within 3 min (m1): both change lines 40-58")
    assert (await airspace.events(table.CHANGED))[-1].outputs["what"] == ["escalated"]


async def test_an_agent_that_cannot_answer_is_reported_at_once(airspace: AirspaceRoom) -> None:
    await airspace.meet()
    await airspace.turn("CLAUDE", "INTENT: none")
    left = await parts.claim(
        airspace.store, airspace.policy("CODEX", unable="it is not installed"), airspace.clock()
    )
    assert isinstance(left, Idle)
    await airspace.follow()
    assert await airspace.protocol.remind()
    (asked,) = await airspace.asked_people()
    assert asked.body.startswith("CODEX cannot answer (it is not installed) (m1):")


async def test_an_answer_after_all_counts(airspace: AirspaceRoom) -> None:
    await airspace.meet()
    airspace.clock.move(airspace.settings.answer_s)
    await airspace.protocol.remind()
    await airspace.turn("CODEX", "INTENT: none")
    assert (await airspace.only()).unanswered == ("CLAUDE",)


async def test_killed_between_the_answer_and_its_effects_nothing_is_lost_or_twice(
    airspace: AirspaceRoom,
) -> None:
    await airspace.meet()
    plan = await parts.plan_of(airspace.store, airspace.policy("CODEX"), airspace.clock())
    await parts.end(airspace.store, plan, TurnOutcome("INTENT: docs/a.md"), airspace.clock())

    class Killed(BaseException):
        pass

    real = airspace.voice.say

    async def dies(*_args: Any, **_more: Any) -> Any:
        raise Killed

    airspace.voice.say = dies  # type: ignore[method-assign]
    with pytest.raises(Killed):
        await step(airspace.store, airspace.answers)
    assert (await airspace.only()).answers == {} and await airspace.events(intents.DECLARED) == []
    airspace.voice.say = real  # type: ignore[method-assign]
    await airspace.follow()
    await airspace.follow()
    assert len(await airspace.events(intents.DECLARED)) == 1
    told = [one for one in await parts.all_messages(airspace.store) if "intent" in one.meta]
    assert len(told) == 1


@pytest.mark.parametrize("at", range(12))
async def test_killed_at_any_step_of_a_tick_it_is_said_once(airspace: AirspaceRoom, at: int) -> None:
    class Killed(BaseException):
        pass

    class Dying:
        """A transaction that dies before its n-th statement."""

        def __init__(self, tx: Tx) -> None:
            self.tx, self.left = tx, at * 3

        async def _one_more(self) -> None:
            if self.left == 0:
                raise Killed
            self.left -= 1

        async def execute(self, *args: Any, **more: Any) -> int:
            await self._one_more()
            return await self.tx.execute(*args, **more)

        async def one(self, *args: Any, **more: Any) -> Any:
            await self._one_more()
            return await self.tx.one(*args, **more)

        async def all(self, *args: Any, **more: Any) -> Any:
            await self._one_more()
            return await self.tx.all(*args, **more)

    class DyingStore:
        async def write(self, work: Any, **more: Any) -> Any:
            return await airspace.store.write(lambda tx: work(Dying(tx)), **more)

        async def read(self, work: Any, **more: Any) -> Any:
            return await airspace.store.read(work, **more)

    airspace.sets |= {"CLAUDE": work("CLAUDE", FILE), "CODEX": work("CODEX", FILE)}
    airspace.seen[("CLAUDE", "CODEX")] = near(0.9)
    dying = airspace.another(DyingStore())  # type: ignore[arg-type]
    with pytest.raises(Killed):
        await dying.observe(airspace.observation())
    assert await airspace.said() == [] and await airspace.jobs() == [] and await airspace.all() == []
    await airspace.tick()
    restarted = airspace.another()
    await restarted.load()
    assert not await restarted.observe(airspace.observation())
    assert len(await airspace.said()) == 1 and len(await airspace.jobs()) == 2


# -- steering


async def test_an_agent_that_leaves_has_steered(airspace: AirspaceRoom) -> None:
    await airspace.meet()
    assert (await airspace.only()).steering is Steering.WAITING
    airspace.sets["CODEX"] = work("CODEX", "src/free.py")
    del airspace.seen[("CLAUDE", "CODEX")]
    await airspace.tick()
    one = await airspace.only()
    assert (one.steering, one.outcome) == (Steering.LEFT, Outcome.AVERTED)
    told = one.as_json()
    assert (told["outcome"], told["verdict"]) == (None, "averted")
    assert (told["hold"], told["steer"], told["agents"]) == (["CLAUDE"], ["CODEX"], ["CLAUDE", "CODEX"])
    assert not await airspace.protocol.remind()


async def test_an_agent_that_stops_there_while_the_risk_falls_has_steered(airspace: AirspaceRoom) -> None:
    await airspace.meet()
    airspace.seen[("CLAUDE", "CODEX")] = near(0.5)
    await airspace.tick()
    assert (await airspace.only()).steering is Steering.LEFT


async def test_an_agent_that_goes_on_there_has_not_and_people_are_asked_once(airspace: AirspaceRoom) -> None:
    await airspace.meet()
    await airspace.turn("CLAUDE", "INTENT: none")
    await airspace.turn("CODEX", "INTENT: none")
    airspace.sets["CODEX"] = WorkingSet("CODEX", (touch(FILE, 1, 99),))
    airspace.seen[("CLAUDE", "CODEX")] = near(0.8)
    await airspace.tick()
    assert (await airspace.only()).steering is Steering.WAITING
    airspace.clock.move(airspace.settings.steer_s)
    assert await airspace.protocol.remind()
    await airspace.tick()
    assert not await airspace.protocol.remind()
    (asked,) = await airspace.asked_people()
    assert asked.body.startswith(f"CODEX was to leave {FILE} within 4 min, and has not (m1):")
    assert (await airspace.only()).steering is Steering.STAYED
    airspace.sets["CODEX"] = work("CODEX", "src/free.py")
    await airspace.tick()
    assert (await airspace.only()).steering is Steering.LEFT


def meant(path: str, *, by: str, where: str) -> PairObservation:
    """A pair at traffic, since one intends to change a file where the other works."""
    text = f"{by} intends to change {path}, where {where} works"
    return PairObservation(Sample(0.5, Level.TRAFFIC), (path,), (Evidence(text, path),))


async def test_files_that_join_by_intent_are_none_that_it_was_told_to_leave(airspace: AirspaceRoom) -> None:
    await airspace.meet()
    await airspace.turn("CLAUDE", "INTENT: none")
    await airspace.turn("CODEX", "INTENT: none")
    airspace.sets["CODEX"] = work("CODEX", "src/util.py")
    airspace.seen[("CLAUDE", "CODEX")] = meant("src/util.py", by="CLAUDE", where="CODEX")
    await airspace.tick()
    one = await airspace.only()
    assert (one.level, one.files) == (Level.TRAFFIC, (FILE, "src/util.py"))
    assert (one.steering, one.stands["CODEX"].files) == (Steering.LEFT, (FILE,))
    await airspace.tick(airspace.settings.steer_s)
    assert not await airspace.protocol.remind() and await airspace.asked_people() == []


@pytest.mark.parametrize("merged", [frozenset[str](), frozenset({"CODEX"})])
async def test_an_emptied_worktree_that_is_near_by_intent_asks_no_people(
    airspace: AirspaceRoom, merged: frozenset[str]
) -> None:
    await airspace.meet()
    await airspace.turn("CLAUDE", "INTENT: none")
    await airspace.turn("CODEX", "INTENT: src/util.py")
    airspace.sets["CODEX"] = WorkingSet("CODEX", intent=(FileTouch("src/util.py"),))
    airspace.seen[("CLAUDE", "CODEX")] = meant("src/util.py", by="CODEX", where="CLAUDE")
    await airspace.tick(merged=merged)
    assert (await airspace.only()).stands["CODEX"].left is not bool(merged), (
        "merged work is in, and has not left"
    )
    await airspace.tick(airspace.settings.steer_s, merged=merged)
    assert not await airspace.protocol.remind() and await airspace.asked_people() == []


async def test_a_resolution_that_is_back_gives_the_time_to_leave_again(airspace: AirspaceRoom) -> None:
    await airspace.meet()
    await airspace.turn("CLAUDE", "INTENT: none")
    await airspace.turn("CODEX", "INTENT: none")
    airspace.sets["CODEX"] = WorkingSet("CODEX", (touch(FILE, 1, 99),))
    airspace.seen[("CLAUDE", "CODEX")] = near(0.5)
    await airspace.tick()
    await airspace.tick(airspace.settings.cooldown_s)
    assert (await airspace.only()).steering is Steering.STAYED
    assert not await airspace.protocol.remind(), "no resolution stands"
    airspace.seen[("CLAUDE", "CODEX")] = near(0.9)
    await airspace.tick()
    one = await airspace.only()
    assert (one.steering, one.steer_by) == (Steering.WAITING, airspace.clock() + airspace.settings.steer_s)
    airspace.sets["CODEX"] = work("CODEX", "src/free.py", FILE)
    await airspace.tick(airspace.settings.steer_s)
    assert await airspace.protocol.remind()
    assert f"CODEX was to leave {FILE} within" in (await airspace.asked_people())[-1].body


async def test_the_guard_is_told_whom_and_where(airspace: AirspaceRoom) -> None:
    await airspace.meet()
    told = airspace.protocol.steer("CODEX", FILE)
    assert told is not None and "STEER: CODEX" in told.reason
    assert airspace.protocol.steer("CODEX", "src/free.py") is None
    assert airspace.protocol.steer("CLAUDE", FILE) is None
    (steer,) = airspace.protocol.steers("CODEX")
    assert steer.files == (FILE,) and steer.since == airspace.clock()
    airspace.settings = replace(airspace.settings, enabled=False)
    assert airspace.protocol.steer("CODEX", FILE) is None


# -- what came of it


async def test_a_conflict_that_git_sees_makes_it_true_at_once(airspace: AirspaceRoom) -> None:
    await airspace.meet(conflicts={("CLAUDE", "CODEX"): (FILE,)})
    assert (await airspace.only()).outcome is Outcome.TRUE
    airspace.sets["CODEX"] = work("CODEX", "src/free.py")
    del airspace.seen[("CLAUDE", "CODEX")]
    await airspace.tick(conflicts={("CLAUDE", "CODEX"): ()})
    assert (await airspace.only()).outcome is Outcome.TRUE, "a conflict once seen is not unseen by steering"


async def test_ended_clean_without_steering_is_a_false_alarm(airspace: AirspaceRoom) -> None:
    await airspace.meet(risk=0.5)
    del airspace.seen[("CLAUDE", "CODEX")]
    await airspace.tick(conflicts={("CLAUDE", "CODEX"): ()})
    assert (await airspace.only()).outcome is Outcome.FALSE


async def test_what_git_was_not_asked_stays_open(airspace: AirspaceRoom) -> None:
    await airspace.meet(risk=0.5)
    del airspace.seen[("CLAUDE", "CODEX")]
    await airspace.tick()
    assert (await airspace.only()).outcome is None


async def test_a_branch_that_was_merged_has_not_steered(airspace: AirspaceRoom) -> None:
    await airspace.meet(conflicts={("CLAUDE", "CODEX"): ()})
    del airspace.sets["CODEX"]
    del airspace.seen[("CLAUDE", "CODEX")]
    await airspace.tick(merged=frozenset({"CODEX"}))
    one = await airspace.only()
    assert one.outcome is Outcome.FALSE
    assert one.closed_why == "CODEX no longer has anything in hand"
    await airspace.store.write(
        lambda tx: airspace.protocol.merged(tx, "CLAUDE", [FILE], now=airspace.clock())
    )
    assert (await airspace.only()).outcome is Outcome.TRUE, "the merge of the other shows it after all"


async def test_precision_counts_what_was_said(airspace: AirspaceRoom) -> None:
    await airspace.meet(conflicts={("CLAUDE", "CODEX"): (FILE,)})
    await airspace.protocol.mark((await airspace.only()).id, Mark.USEFUL, by="ann")
    found = await airspace.store.read(table.counts)
    assert (found["true"], found["false"], found["useful"], found["precision"]) == (1, 0, 1, 1.0)
    assert found["traffic"]["precision"] is None
    last = (await airspace.events(table.CHANGED))[-1].outputs
    assert (last["what"], last["by"], last["advisory"]["mark"]) == (["marked"], "ann", "useful")
    assert await airspace.protocol.mark("no such", None, by="ann") is None


async def test_switched_off_ends_what_stands(airspace: AirspaceRoom) -> None:
    await airspace.meet()
    await airspace.protocol.end_all("the airspace was switched off")
    one = await airspace.only()
    assert not one.open and one.closed_why == "the airspace was switched off"
    assert airspace.protocol.clear and all(job.state is JobState.SKIPPED for job in await airspace.jobs())
    said = (await airspace.said())[-1].body
    assert said == f"over: the airspace was switched off ({FILE})", "nobody has looked: nothing is clear"


async def test_a_stored_advisory_is_the_same(airspace: AirspaceRoom) -> None:
    await airspace.meet()
    await airspace.turn("CODEX", "INTENT: docs/a.md")
    one = await airspace.only()
    assert type(one).of_record(one.record()) == one


async def test_the_message_has_the_advisory_as_its_cause(airspace: AirspaceRoom) -> None:
    await airspace.meet()
    (message,) = await airspace.said()
    (posted,) = await airspace.events("message.posted")
    opened, asked = await airspace.events(table.CHANGED)
    assert posted.outputs["message"]["id"] == message.id
    assert posted.parents == (opened.id,) and posted.id in asked.parents


async def test_a_clear_pair_is_forgotten_after_its_cool_down(airspace: AirspaceRoom) -> None:
    await airspace.meet()
    del airspace.seen[("CLAUDE", "CODEX")]
    await airspace.tick()
    assert list(airspace.protocol.state.tracks) == [("CLAUDE", "CODEX")]
    airspace.clock.move(airspace.settings.cooldown_s)
    airspace.sets |= {name: work(name, FILE) for name in ("CODEX", "GEMINI")}
    airspace.seen[("CODEX", "GEMINI")] = near(0.9)
    await airspace.tick()
    assert list(airspace.protocol.state.tracks) == [("CODEX", "GEMINI")]


async def test_a_restart_keeps_deadlines_and_asks_people_once(airspace: AirspaceRoom) -> None:
    await airspace.meet()
    airspace.protocol = airspace.another()
    await airspace.protocol.load()
    assert airspace.protocol.due_at() == airspace.clock() + airspace.settings.answer_s
    airspace.clock.move(airspace.settings.answer_s)
    assert await airspace.protocol.remind()
    airspace.protocol = airspace.another()
    await airspace.protocol.load()
    assert not await airspace.protocol.remind()
    assert len(await airspace.asked_people()) == 1


async def test_an_answer_to_the_earlier_question_declares_and_does_not_end_the_wait(
    airspace: AirspaceRoom,
) -> None:
    await airspace.meet(risk=0.5)
    plan = await parts.plan_of(airspace.store, airspace.policy("CODEX"), airspace.clock())
    airspace.seen[("CLAUDE", "CODEX")] = near(0.9)
    await airspace.tick()
    await parts.end(airspace.store, plan, TurnOutcome("INTENT: docs/a.md"), airspace.clock())
    await airspace.follow()
    one = await airspace.only()
    assert one.answers["CODEX"].intent == ("docs/a.md",) and "CODEX" in one.unanswered
    await airspace.turn("CODEX", "INTENT: none")
    assert "CODEX" not in (await airspace.only()).unanswered


async def test_a_person_who_does_not_steer_is_not_told_to_be_cancelled(airspace: AirspaceRoom) -> None:
    await airspace.meet("CLAUDE", "ann")
    await airspace.turn("CLAUDE", "INTENT: none")
    airspace.clock.move(airspace.settings.steer_s)
    assert await airspace.protocol.remind()
    (asked,) = await airspace.asked_people()
    assert asked.body.startswith("ann was to leave") and "/cancel" not in asked.body


async def test_connected_clients_get_the_advisory_as_a_stored_frame(airspace: AirspaceRoom) -> None:
    one = await airspace.meet()
    (_, event) = await airspace.events(table.CHANGED)
    (frame,) = frames_of(event)
    assert (frame.cursor, frame.type, frame.data["id"]) == (event.pos, "advisory", one.id)
    assert table.CHANGED in SHOWN and frame.data == wording.shown(one)


async def test_the_line_names_lines_before_what_weighs_more(airspace: AirspaceRoom) -> None:
    seen = near(0.9)
    first = Evidence(f"git cannot merge {FILE}", FILE)
    airspace.sets |= {name: work(name, FILE) for name in ("CLAUDE", "CODEX")}
    airspace.seen[("CLAUDE", "CODEX")] = replace(seen, evidence=(first, *seen.evidence))
    await airspace.tick()
    said = (await airspace.said())[0].body
    assert said.startswith(f"both change lines 40-58 of {FILE}, git cannot merge {FILE}; HOLD:")


def shown(airspace: AirspaceRoom) -> str:
    return near_text({}, list(airspace.protocol.state.advisories.values()), sorted(airspace.sets))


async def test_who_is_near_is_shown_as_it_is_now_and_not_as_it_was_said(airspace: AirspaceRoom) -> None:
    await airspace.meet()
    assert f"- **resolution:** both change lines 40-58 of {FILE}; HOLD: CLAUDE" in shown(airspace)
    airspace.seen[("CLAUDE", "CODEX")] = meant("src/util.py", by="CODEX", where="CLAUDE")
    await airspace.tick()
    now = "CODEX intends to change src/util.py, where CLAUDE works; TRANSMIT: CLAUDE, CODEX"
    assert shown(airspace).splitlines()[1:] == [f"- **traffic:** {now}"]
    airspace.seen[("CLAUDE", "CODEX")] = meant("src/free.py", by="CODEX", where="CLAUDE")
    assert not await airspace.tick(), "nothing is recorded for it"
    assert "- **traffic:** CODEX intends to change src/free.py, where" in shown(airspace)
    assert "STEER: CODEX" in (await airspace.only()).text, "what was said stays what was said"


async def test_who_steers_is_told_why_as_the_roles_are_now(airspace: AirspaceRoom) -> None:
    await airspace.meet()
    airspace.sets["GEMINI"] = work("GEMINI", FILE, started_at=3.0)
    airspace.seen[("CODEX", "GEMINI")] = near(0.9)
    await airspace.tick()
    assert airspace.protocol.steers("CODEX")[0].reason.endswith("STEER: CODEX, GEMINI")
    del airspace.seen[("CODEX", "GEMINI")]
    await airspace.tick()
    assert "GEMINI" in (await airspace.only()).text and not airspace.protocol.steers("GEMINI")
    assert airspace.protocol.steers("CODEX")[0].reason == (
        f"both change lines 40-58 of {FILE}; HOLD: CLAUDE (3 files committed), STEER: CODEX"
    )


async def test_a_pair_that_parted_and_meets_elsewhere_is_told(airspace: AirspaceRoom) -> None:
    await airspace.meet("CLAUDE", "CODEX")
    airspace.sets["GEMINI"] = work("GEMINI", FILE, started_at=3.0)
    airspace.seen[("CODEX", "GEMINI")] = near(0.9)
    await airspace.tick()
    del airspace.seen[("CLAUDE", "CODEX")]
    await airspace.tick()
    airspace.sets["CODEX"] = work("CODEX", FILE, "src/free.py", started_at=2.0)
    airspace.sets["CLAUDE"] = work("CLAUDE", "src/free.py", committed=3.0)
    airspace.seen[("CLAUDE", "CODEX")] = near(0.9, "src/free.py")
    await airspace.tick(400.0)
    second, first = await airspace.all()
    assert (list(first.contacts), first.open) == ([("CODEX", "GEMINI")], True)
    assert (list(second.contacts), second.files) == ([("CLAUDE", "CODEX")], ("src/free.py",))
    assert "src/free.py" in (await airspace.said())[-1].body
    assert airspace.protocol.steer("CODEX", "src/free.py") is not None


async def test_what_was_said_before_the_database_was_lost_is_not_said_again(
    airspace: AirspaceRoom, tmp_path: Path
) -> None:
    over = await airspace.meet(risk=0.5)
    airspace.seen.clear()
    airspace.sets.clear()
    await airspace.tick()
    airspace.clock.move(1000.0)
    airspace.sets |= {"CLAUDE": work("CLAUDE", FILE, committed=3.0), "CODEX": work("CODEX", FILE)}
    airspace.seen["CLAUDE", "CODEX"] = near(0.9)
    await airspace.tick()
    stands = next(each for each in await airspace.all() if each.open)
    own = await airspace.store.write(make_replica_id)
    page = await airspace.store.read(lambda tx: read_page(tx, 0, None, {}))
    incoming = Incoming()
    incoming.read(own, [line for event in page.events.values() for line in event.lines])
    store = await open_airspace_store(tmp_path / "again")
    try:
        await store.write(lambda tx: make_replica_id(tx, own))
        assert (await import_events(store, incoming, own)).refused == ()
        assert await store.write(lambda tx: table.bring_back(tx, airspace.clock())) == 2
        assert await store.write(lambda tx: table.bring_back(tx, airspace.clock())) == 0
        again = AirspaceRoom(store, airspace.clock, sets=airspace.sets, seen=airspace.seen)
        await again.protocol.load()
        for _ in range(400):
            await again.tick()
        assert await again.said() == [] and await again.asked_people() == []
        back = {each.id: each for each in await again.all()}
        assert back.keys() == {over.id, stands.id}
        assert (back[stands.id].contacts, back[stands.id].latched) == (stands.contacts, stands.latched)
        assert not back[over.id].open
        # What is new is said, and what is over too.
        again.seen.clear()
        again.sets.clear()
        await again.tick()
        (clear,) = await again.said()
        assert "lear" in clear.body
        await check_log(store)
    finally:
        await store.close()
