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
from relay.airspace.advisories.rules.decision import Seen
from relay.airspace.advisories.rules.hysteresis import Sample
from relay.airspace.live.picture import near_text
from relay.airspace.readings import Evidence, Level
from relay.log.follow import step
from relay.log.verify import verify
from relay.model import Kind
from relay.model.working_set import FileTouch, WorkingSet
from relay.room.dispatch.queue import Idle
from relay.room.dispatch.queue import Outcome as TurnOutcome
from relay.room.journal.frames import SHOWN, frames_of
from relay.room.journal.values import JobState
from relay.store.ports import Tx
from tests.airspace.parts import FILE, Sky, near, open_sky, touch, work
from tests.engines import BOTH, Clock
from tests.room import parts

pytestmark = BOTH


@pytest.fixture
async def sky(tmp_path: Path) -> AsyncIterator[Sky]:
    store = await open_sky(tmp_path)
    yield Sky(store, Clock())
    assert await verify(store) == []
    await store.close()


# -- saying and asking


async def test_a_resolution_says_why_in_one_line_and_asks_both(sky: Sky) -> None:
    def tasks(tx: Tx) -> Any:
        return sky.board.create(tx, "Write the docs", by="ann", lane=table.lane_of("t"))

    await sky.store.write(tasks)
    one = await sky.meet()
    (message,) = await sky.said()
    assert message.body.splitlines()[0] == (
        f"both change lines 40-58 of {FILE}; HOLD: CLAUDE (3 files committed), STEER: CODEX; "
        "nearest free work: t1"
    )
    assert (message.speaker, message.kind, message.to) == ("RELAY", Kind.ADVISORY, ("CLAUDE", "CODEX"))
    assert [(job.agent, job.message_id) for job in await sky.jobs()] == [
        ("CLAUDE", message.id),
        ("CODEX", message.id),
    ]
    assert await parts.waiting_cycles(sky.store) == []
    shown = one.as_json()
    assert (shown["level"], shown["hold"], shown["steer"]) == ("resolution", ["CLAUDE"], ["CODEX"])
    assert (shown["message_id"], shown["asked"]) == (message.id, ["CLAUDE", "CODEX"])
    last = (await sky.events(table.CHANGED))[-1]
    assert last.outputs["advisory"]["id"] == one.id and last.lane == f"advisory:{one.id}"


async def test_a_traffic_advisory_asks_both_to_transmit(sky: Sky) -> None:
    one = await sky.meet(risk=0.5)
    (message,) = await sky.said()
    assert message.body.splitlines()[0] == f"both change lines 40-58 of {FILE}; TRANSMIT: CLAUDE, CODEX"
    assert "INTENT: path" in message.body
    assert one.as_json()["steer"] == [] and len(await sky.jobs()) == 2


async def test_a_task_that_names_the_contested_file_is_no_free_work(sky: Sky) -> None:
    async def tasks(tx: Tx) -> None:
        for title in (f"Mend {FILE}", "Tidy session.py up"):
            await sky.board.create(tx, title, by="ann", lane=table.lane_of("t"))

    await sky.store.write(tasks)
    await sky.meet()
    assert "free work" not in (await sky.said())[0].body


async def test_it_is_said_once_however_long_it_lasts(sky: Sky) -> None:
    await sky.meet()
    for _ in range(5):
        assert not await sky.tick()
    assert len(await sky.said()) == 1 and len(await sky.events(table.CHANGED)) == 2


async def test_worse_is_said_again_and_takes_the_place_of_what_waits(sky: Sky) -> None:
    await sky.meet(risk=0.5)
    sky.seen[("CLAUDE", "CODEX")] = near(0.9)
    await sky.tick()
    first, second = await sky.said()
    assert [(job.agent, job.state, job.message_id == second.id) for job in await sky.jobs()] == [
        ("CLAUDE", JobState.SKIPPED, False),
        ("CODEX", JobState.SKIPPED, False),
        ("CLAUDE", JobState.PENDING, True),
        ("CODEX", JobState.PENDING, True),
    ]
    await sky.follow()
    assert (await sky.only()).unanswered == ("CLAUDE", "CODEX")
    assert [asked.failed for asked in (await sky.only()).asked.values()] == ["", ""]
    assert first.id != second.id


async def test_easing_is_silent_and_the_end_is_said_once(sky: Sky) -> None:
    await sky.meet()
    sky.seen[("CLAUDE", "CODEX")] = near(0.5)
    assert await sky.tick()
    assert len(await sky.said()) == 1 and (await sky.only()).level is Level.TRAFFIC
    del sky.seen[("CLAUDE", "CODEX")]
    await sky.tick()
    assert not await sky.tick()
    _, clear = await sky.said()
    assert clear.body == f"clear: CLAUDE and CODEX are apart again in {FILE}"
    assert all(job.state is JobState.SKIPPED for job in await sky.jobs())
    assert not (await sky.only()).open and sky.protocol.clear


async def test_within_the_cool_down_it_stands_unsaid_and_is_said_after_it(sky: Sky) -> None:
    await sky.meet()
    del sky.seen[("CLAUDE", "CODEX")]
    await sky.tick()
    sky.seen[("CLAUDE", "CODEX")] = near(0.9)
    await sky.tick()
    assert len(await sky.said()) == 2
    assert sky.protocol.steer("CODEX", FILE) is not None, "the guard knows it all the same"
    assert sky.protocol.due_at() is not None
    await sky.tick(sky.settings.cooldown_s)
    assert len(await sky.said()) == 3


async def test_three_in_one_file_get_one_message(sky: Sky) -> None:
    sky.sets |= {name: work(name, FILE) for name in ("CLAUDE", "CODEX", "GEMINI")}
    sky.seen |= {
        (a, b): near(0.9) for a, b in (("CLAUDE", "CODEX"), ("CLAUDE", "GEMINI"), ("CODEX", "GEMINI"))
    }
    await sky.tick()
    (message,) = await sky.said()
    assert message.to == ("CLAUDE", "CODEX", "GEMINI") and len(await sky.jobs()) == 3
    assert message.body.startswith(f"CLAUDE, CODEX and GEMINI meet in {FILE} (both change lines 40-58")
    assert "HOLD: CLAUDE (first by name), STEER: CODEX, GEMINI" in message.body


async def test_who_is_near_by_intent_is_not_put_ahead_of_who_steers(sky: Sky) -> None:
    sky.sets |= {
        "CLAUDE": work("CLAUDE", "docs/a.md", started_at=1.0),
        "CODEX": work("CODEX", FILE, started_at=2.0),
        "GEMINI": work("GEMINI", FILE, started_at=3.0),
    }
    sky.seen |= {("CLAUDE", other): meant(FILE, by="CLAUDE", where=other) for other in ("CODEX", "GEMINI")}
    sky.seen[("CODEX", "GEMINI")] = near(0.9)
    await sky.tick(announced={"CLAUDE": frozenset({FILE})})
    one = await sky.only()
    assert [place.agent for place in one.latched] == ["CODEX", "GEMINI", "CLAUDE"]
    (message,) = await sky.said()
    assert message.body.splitlines()[0] == (
        f"both change lines 40-58 of {FILE}; HOLD: CODEX (started first), STEER: GEMINI, TRANSMIT: CLAUDE"
    )
    assert f"GEMINI: make no further change in {FILE}; CODEX goes first." in message.body
    assert [job.agent for job in await sky.jobs()] == ["CODEX", "GEMINI"]


async def test_a_bystander_that_was_there_first_goes_ahead_of_nobody(sky: Sky) -> None:
    sky.sets |= {"CLAUDE": work("CLAUDE", "docs/a.md"), "CODEX": work("CODEX", FILE, started_at=2.0)}
    sky.seen[("CLAUDE", "CODEX")] = meant(FILE, by="CLAUDE", where="CODEX")
    await sky.tick()
    sky.sets["GEMINI"] = work("GEMINI", FILE, started_at=3.0)
    sky.seen[("CODEX", "GEMINI")] = near(0.9)
    await sky.tick()
    one = await sky.only()
    assert [place.agent for place in one.latched] == ["CLAUDE", "CODEX", "GEMINI"]
    assert (one.roles.hold, one.roles.steer, one.roles.near) == (("CODEX",), ("GEMINI",), ("CLAUDE",))
    assert f"GEMINI: make no further change in {FILE}; CODEX goes first." in (await sky.said())[-1].body


async def test_a_third_joins_at_the_end_and_only_it_is_asked(sky: Sky) -> None:
    one = await sky.meet()
    sky.sets["GEMINI"] = work("GEMINI", FILE, committed=99.0)
    sky.seen |= {("CLAUDE", "GEMINI"): near(0.9), ("CODEX", "GEMINI"): near(0.9)}
    await sky.tick()
    grown = await sky.only()
    assert grown.id == one.id and [place.agent for place in grown.latched] == ["CLAUDE", "CODEX", "GEMINI"]
    _, second = await sky.said()
    assert [job.agent for job in await sky.jobs() if job.message_id == second.id] == ["GEMINI"]
    assert [job.state for job in await sky.jobs()] == [JobState.PENDING] * 3


async def test_a_commit_in_the_middle_does_not_turn_it_round(sky: Sky) -> None:
    await sky.meet()
    sky.sets["CODEX"] = work("CODEX", FILE, committed=50.0)
    sky.seen[("CLAUDE", "CODEX")] = near(0.5)
    await sky.tick()
    sky.seen[("CLAUDE", "CODEX")] = near(0.95)
    await sky.tick(sky.settings.cooldown_s)
    assert (await sky.only()).roles.hold == ("CLAUDE",)


async def test_two_daemons_decide_it_once(sky: Sky, tmp_path: Path) -> None:
    other_store = await open_sky(tmp_path)
    try:
        other = sky.another(other_store)
        sky.sets |= {"CLAUDE": work("CLAUDE", FILE, committed=3.0), "CODEX": work("CODEX", FILE)}
        sky.seen[("CLAUDE", "CODEX")] = near(0.9)
        theirs = replace(sky.observation(), sets={**sky.sets, "CODEX": work("CODEX", FILE, committed=9.0)})
        await asyncio.gather(sky.protocol.observe(sky.observation()), other.observe(theirs))
        assert len(await sky.said()) == 1 and len(await sky.jobs()) == 2
        one = await sky.only()
        await sky.protocol.load()
        await other.load()
        paths = [protocol.steer(one.roles.steer[0], FILE) for protocol in (sky.protocol, other)]
        assert paths[0] == paths[1] is not None
    finally:
        await other_store.close()


async def test_the_latch_is_one_row_that_the_second_finds(sky: Sky) -> None:
    one = await sky.meet()
    turned = replace(one, id="another", latched=one.latched[::-1])
    assert not await sky.store.write(lambda tx: table.latch(tx, turned))
    assert (await sky.only()).latched == one.latched


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"enabled": False}, "switched off"),
        ({"installed": False}, "not installed"),
    ],
)
async def test_who_cannot_be_asked_is_not_and_it_says_why(sky: Sky, change: dict[str, Any], why: str) -> None:
    sky.members["CODEX"] = replace(sky.members["CODEX"], **change)
    one = await sky.meet()
    assert [job.agent for job in await sky.jobs()] == ["CLAUDE"]
    assert f"CODEX was not asked ({why})" in (await sky.said())[0].body.splitlines()[0]
    assert one.as_json()["not_asked"] == {"CODEX": why}


async def test_a_paused_agent_and_a_person_are_addressed_and_not_asked(sky: Sky) -> None:
    await sky.store.write(lambda tx: tx.execute(parts.Q.set_paused, name="CLAUDE", paused=1))
    await sky.meet("CLAUDE", "ann")
    (message,) = await sky.said()
    assert message.to == ("CLAUDE", "ann") and await sky.jobs() == []
    assert "CLAUDE was not asked (paused)" in message.body and "ann was not asked" not in message.body
    assert sky.protocol.due_at() == (await sky.only()).steer_by


async def test_muted_files_are_no_reason(sky: Sky) -> None:
    muted = ("**/CHANGELOG*",)
    sky.sets |= {name: work(name, FILE) for name in ("CLAUDE", "CODEX")}
    sky.seen[("CLAUDE", "CODEX")] = near(0.9, "CHANGELOG.md", muted=muted)
    assert not await sky.tick()
    sky.seen[("CLAUDE", "CODEX")] = near(0.9, "CHANGELOG.md", FILE, muted=muted)
    await sky.tick()
    assert (await sky.only()).files == (FILE,)


# -- the answer


async def test_an_answers_intent_goes_to_the_other_and_is_declared(sky: Sky) -> None:
    one = await sky.meet()
    plan = await sky.turn("CODEX", "I go to the docs.\n\nINTENT: docs/a.md, `src/new.py`\n@CLAUDE go on")
    assert "HOLD: CLAUDE" in plan.prompt and "INTENT: path" in plan.prompt
    answered = await sky.only()
    assert answered.answers["CODEX"].intent == ("docs/a.md", "src/new.py")
    assert answered.unanswered == ("CLAUDE",)
    held = await sky.store.read(lambda tx: intents.declared(tx, sky.clock()))
    assert {agent: sorted(paths) for agent, paths in held.items()} == {"CODEX": ["docs/a.md", "src/new.py"]}
    (declared,) = await sky.events(intents.DECLARED)
    assert declared.outputs["source"] == "answer" and declared.parents
    after = await sky.turn("CLAUDE", "INTENT: none")
    assert f"CODEX intends to touch `docs/a.md`, `src/new.py` (its answer to m{one.number})." in after.context
    assert (await sky.only()).unanswered == ()


async def test_an_answer_sets_nobody_to_work(sky: Sky) -> None:
    await sky.meet()
    before = len(await sky.jobs())
    await sky.turn("CODEX", "@CLAUDE @GEMINI look: INTENT: src/free.py")
    await sky.turn("CLAUDE", "@CODEX thanks\nINTENT: src/free.py")
    assert len(await sky.jobs()) == before
    assert await parts.waiting_cycles(sky.store) == []


async def test_near_only_by_an_answer_is_told_and_not_asked(sky: Sky) -> None:
    sky.sets["GEMINI"] = work("GEMINI", "src/free.py")
    sky.sets["CODEX"] = work("CODEX", FILE)
    sky.seen[("CODEX", "GEMINI")] = near(0.5, "src/free.py")
    await sky.tick(announced={"CODEX": frozenset({"src/free.py"})})
    assert len(await sky.said()) == 1 and await sky.jobs() == []


async def test_without_an_answer_people_are_asked_once(sky: Sky) -> None:
    await sky.meet()
    await sky.turn("CLAUDE", "INTENT: none")
    assert not await sky.protocol.remind()
    sky.clock.move(sky.settings.answer_s)
    assert await sky.protocol.remind()
    assert not await sky.protocol.remind()
    (asked,) = await sky.asked_people()
    assert asked.body.startswith("CODEX has not answered within 3 min (m1): both change lines 40-58")
    assert (await sky.events(table.CHANGED))[-1].outputs["what"] == ["escalated"]


async def test_an_agent_that_cannot_answer_is_reported_at_once(sky: Sky) -> None:
    await sky.meet()
    await sky.turn("CLAUDE", "INTENT: none")
    left = await parts.claim(sky.store, sky.policy("CODEX", unable="it is not installed"), sky.clock())
    assert isinstance(left, Idle)
    await sky.follow()
    assert await sky.protocol.remind()
    (asked,) = await sky.asked_people()
    assert asked.body.startswith("CODEX cannot answer (it is not installed) (m1):")


async def test_an_answer_after_all_counts(sky: Sky) -> None:
    await sky.meet()
    sky.clock.move(sky.settings.answer_s)
    await sky.protocol.remind()
    await sky.turn("CODEX", "INTENT: none")
    assert (await sky.only()).unanswered == ("CLAUDE",)


async def test_killed_between_the_answer_and_its_effects_nothing_is_lost_or_twice(sky: Sky) -> None:
    await sky.meet()
    plan = await parts.plan_of(sky.store, sky.policy("CODEX"), sky.clock())
    await parts.end(sky.store, plan, TurnOutcome("INTENT: docs/a.md"), sky.clock())

    class Killed(BaseException):
        pass

    real = sky.voice.say

    async def dies(*_args: Any, **_more: Any) -> Any:
        raise Killed

    sky.voice.say = dies  # type: ignore[method-assign]
    with pytest.raises(Killed):
        await step(sky.store, sky.answers)
    assert (await sky.only()).answers == {} and await sky.events(intents.DECLARED) == []
    sky.voice.say = real  # type: ignore[method-assign]
    await sky.follow()
    await sky.follow()
    assert len(await sky.events(intents.DECLARED)) == 1
    told = [one for one in await parts.all_messages(sky.store) if "intent" in one.meta]
    assert len(told) == 1


@pytest.mark.parametrize("at", range(12))
async def test_killed_at_any_step_of_a_tick_it_is_said_once(sky: Sky, at: int) -> None:
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
            return await sky.store.write(lambda tx: work(Dying(tx)), **more)

        async def read(self, work: Any, **more: Any) -> Any:
            return await sky.store.read(work, **more)

    sky.sets |= {"CLAUDE": work("CLAUDE", FILE), "CODEX": work("CODEX", FILE)}
    sky.seen[("CLAUDE", "CODEX")] = near(0.9)
    dying = sky.another(DyingStore())  # type: ignore[arg-type]
    with pytest.raises(Killed):
        await dying.observe(sky.observation())
    assert await sky.said() == [] and await sky.jobs() == [] and await sky.all() == []
    await sky.tick()
    restarted = sky.another()
    await restarted.load()
    assert not await restarted.observe(sky.observation())
    assert len(await sky.said()) == 1 and len(await sky.jobs()) == 2


# -- steering


async def test_an_agent_that_leaves_has_steered(sky: Sky) -> None:
    await sky.meet()
    assert (await sky.only()).steering is Steering.WAITING
    sky.sets["CODEX"] = work("CODEX", "src/free.py")
    del sky.seen[("CLAUDE", "CODEX")]
    await sky.tick()
    one = await sky.only()
    assert (one.steering, one.outcome) == (Steering.LEFT, Outcome.AVERTED)
    told = one.as_json()
    assert (told["outcome"], told["verdict"]) == (None, "averted")
    assert (told["hold"], told["steer"], told["agents"]) == (["CLAUDE"], ["CODEX"], ["CLAUDE", "CODEX"])
    assert not await sky.protocol.remind()


async def test_an_agent_that_stops_there_while_the_risk_falls_has_steered(sky: Sky) -> None:
    await sky.meet()
    sky.seen[("CLAUDE", "CODEX")] = near(0.5)
    await sky.tick()
    assert (await sky.only()).steering is Steering.LEFT


async def test_an_agent_that_goes_on_there_has_not_and_people_are_asked_once(sky: Sky) -> None:
    await sky.meet()
    await sky.turn("CLAUDE", "INTENT: none")
    await sky.turn("CODEX", "INTENT: none")
    sky.sets["CODEX"] = WorkingSet("CODEX", (touch(FILE, 1, 99),))
    sky.seen[("CLAUDE", "CODEX")] = near(0.8)
    await sky.tick()
    assert (await sky.only()).steering is Steering.WAITING
    sky.clock.move(sky.settings.steer_s)
    assert await sky.protocol.remind()
    await sky.tick()
    assert not await sky.protocol.remind()
    (asked,) = await sky.asked_people()
    assert asked.body.startswith(f"CODEX was to leave {FILE} within 4 min, and has not (m1):")
    assert (await sky.only()).steering is Steering.STAYED
    sky.sets["CODEX"] = work("CODEX", "src/free.py")
    await sky.tick()
    assert (await sky.only()).steering is Steering.LEFT


def meant(path: str, *, by: str, where: str) -> Seen:
    """A pair at traffic, since one intends to change a file where the other works."""
    text = f"{by} intends to change {path}, where {where} works"
    return Seen(Sample(0.5, Level.TRAFFIC), (path,), (Evidence(text, path),))


async def test_files_that_join_by_intent_are_none_that_it_was_told_to_leave(sky: Sky) -> None:
    await sky.meet()
    await sky.turn("CLAUDE", "INTENT: none")
    await sky.turn("CODEX", "INTENT: none")
    sky.sets["CODEX"] = work("CODEX", "src/util.py")
    sky.seen[("CLAUDE", "CODEX")] = meant("src/util.py", by="CLAUDE", where="CODEX")
    await sky.tick()
    one = await sky.only()
    assert (one.level, one.files) == (Level.TRAFFIC, (FILE, "src/util.py"))
    assert (one.steering, one.stands["CODEX"].files) == (Steering.LEFT, (FILE,))
    await sky.tick(sky.settings.steer_s)
    assert not await sky.protocol.remind() and await sky.asked_people() == []


@pytest.mark.parametrize("merged", [frozenset[str](), frozenset({"CODEX"})])
async def test_an_emptied_worktree_that_is_near_by_intent_asks_no_people(
    sky: Sky, merged: frozenset[str]
) -> None:
    await sky.meet()
    await sky.turn("CLAUDE", "INTENT: none")
    await sky.turn("CODEX", "INTENT: src/util.py")
    sky.sets["CODEX"] = WorkingSet("CODEX", intent=(FileTouch("src/util.py"),))
    sky.seen[("CLAUDE", "CODEX")] = meant("src/util.py", by="CODEX", where="CLAUDE")
    await sky.tick(merged=merged)
    assert (await sky.only()).stands["CODEX"].left is not bool(merged), "merged work is in, and has not left"
    await sky.tick(sky.settings.steer_s, merged=merged)
    assert not await sky.protocol.remind() and await sky.asked_people() == []


async def test_a_resolution_that_is_back_gives_the_time_to_leave_again(sky: Sky) -> None:
    await sky.meet()
    await sky.turn("CLAUDE", "INTENT: none")
    await sky.turn("CODEX", "INTENT: none")
    sky.sets["CODEX"] = WorkingSet("CODEX", (touch(FILE, 1, 99),))
    sky.seen[("CLAUDE", "CODEX")] = near(0.5)
    await sky.tick()
    await sky.tick(sky.settings.cooldown_s)
    assert (await sky.only()).steering is Steering.STAYED
    assert not await sky.protocol.remind(), "no resolution stands"
    sky.seen[("CLAUDE", "CODEX")] = near(0.9)
    await sky.tick()
    one = await sky.only()
    assert (one.steering, one.steer_by) == (Steering.WAITING, sky.clock() + sky.settings.steer_s)
    sky.sets["CODEX"] = work("CODEX", "src/free.py", FILE)
    await sky.tick(sky.settings.steer_s)
    assert await sky.protocol.remind()
    assert f"CODEX was to leave {FILE} within" in (await sky.asked_people())[-1].body


async def test_the_guard_is_told_whom_and_where(sky: Sky) -> None:
    await sky.meet()
    told = sky.protocol.steer("CODEX", FILE)
    assert told is not None and "STEER: CODEX" in told.reason
    assert sky.protocol.steer("CODEX", "src/free.py") is None
    assert sky.protocol.steer("CLAUDE", FILE) is None
    (steer,) = sky.protocol.steers("CODEX")
    assert steer.files == (FILE,) and steer.since == sky.clock()
    sky.settings = replace(sky.settings, enabled=False)
    assert sky.protocol.steer("CODEX", FILE) is None


# -- what came of it


async def test_a_conflict_that_git_sees_makes_it_true_at_once(sky: Sky) -> None:
    await sky.meet(conflicts={("CLAUDE", "CODEX"): (FILE,)})
    assert (await sky.only()).outcome is Outcome.TRUE
    sky.sets["CODEX"] = work("CODEX", "src/free.py")
    del sky.seen[("CLAUDE", "CODEX")]
    await sky.tick(conflicts={("CLAUDE", "CODEX"): ()})
    assert (await sky.only()).outcome is Outcome.TRUE, "a conflict once seen is not unseen by steering"


async def test_ended_clean_without_steering_is_a_false_alarm(sky: Sky) -> None:
    await sky.meet(risk=0.5)
    del sky.seen[("CLAUDE", "CODEX")]
    await sky.tick(conflicts={("CLAUDE", "CODEX"): ()})
    assert (await sky.only()).outcome is Outcome.FALSE


async def test_what_git_was_not_asked_stays_open(sky: Sky) -> None:
    await sky.meet(risk=0.5)
    del sky.seen[("CLAUDE", "CODEX")]
    await sky.tick()
    assert (await sky.only()).outcome is None


async def test_a_branch_that_was_merged_has_not_steered(sky: Sky) -> None:
    await sky.meet(conflicts={("CLAUDE", "CODEX"): ()})
    del sky.sets["CODEX"]
    del sky.seen[("CLAUDE", "CODEX")]
    await sky.tick(merged=frozenset({"CODEX"}))
    one = await sky.only()
    assert one.outcome is Outcome.FALSE
    assert one.closed_why == "CODEX no longer has anything in hand"
    await sky.store.write(lambda tx: sky.protocol.merged(tx, "CLAUDE", [FILE], now=sky.clock()))
    assert (await sky.only()).outcome is Outcome.TRUE, "the merge of the other shows it after all"


async def test_precision_counts_what_was_said(sky: Sky) -> None:
    await sky.meet(conflicts={("CLAUDE", "CODEX"): (FILE,)})
    await sky.protocol.mark((await sky.only()).id, Mark.USEFUL, by="ann")
    found = await sky.store.read(table.counts)
    assert (found["true"], found["false"], found["useful"], found["precision"]) == (1, 0, 1, 1.0)
    assert found["traffic"]["precision"] is None
    last = (await sky.events(table.CHANGED))[-1].outputs
    assert (last["what"], last["by"], last["advisory"]["mark"]) == (["marked"], "ann", "useful")
    assert await sky.protocol.mark("no such", None, by="ann") is None


async def test_switched_off_ends_what_stands(sky: Sky) -> None:
    await sky.meet()
    await sky.protocol.end_all("the airspace was switched off")
    one = await sky.only()
    assert not one.open and one.closed_why == "the airspace was switched off"
    assert sky.protocol.clear and all(job.state is JobState.SKIPPED for job in await sky.jobs())
    said = (await sky.said())[-1].body
    assert said == f"over: the airspace was switched off ({FILE})", "nobody has looked: nothing is clear"


async def test_a_stored_advisory_is_the_same(sky: Sky) -> None:
    await sky.meet()
    await sky.turn("CODEX", "INTENT: docs/a.md")
    one = await sky.only()
    assert type(one).of_record(one.record()) == one


async def test_the_message_has_the_advisory_as_its_cause(sky: Sky) -> None:
    await sky.meet()
    (message,) = await sky.said()
    (posted,) = await sky.events("message.posted")
    opened, asked = await sky.events(table.CHANGED)
    assert posted.outputs["message"]["id"] == message.id
    assert posted.parents == (opened.id,) and posted.id in asked.parents


async def test_a_clear_pair_is_forgotten_after_its_cool_down(sky: Sky) -> None:
    await sky.meet()
    del sky.seen[("CLAUDE", "CODEX")]
    await sky.tick()
    assert list(sky.protocol.standing.tracks) == [("CLAUDE", "CODEX")]
    sky.clock.move(sky.settings.cooldown_s)
    sky.sets |= {name: work(name, FILE) for name in ("CODEX", "GEMINI")}
    sky.seen[("CODEX", "GEMINI")] = near(0.9)
    await sky.tick()
    assert list(sky.protocol.standing.tracks) == [("CODEX", "GEMINI")]


async def test_a_restart_keeps_deadlines_and_asks_people_once(sky: Sky) -> None:
    await sky.meet()
    sky.protocol = sky.another()
    await sky.protocol.load()
    assert sky.protocol.due_at() == sky.clock() + sky.settings.answer_s
    sky.clock.move(sky.settings.answer_s)
    assert await sky.protocol.remind()
    sky.protocol = sky.another()
    await sky.protocol.load()
    assert not await sky.protocol.remind()
    assert len(await sky.asked_people()) == 1


async def test_an_answer_to_the_earlier_question_declares_and_does_not_end_the_wait(sky: Sky) -> None:
    await sky.meet(risk=0.5)
    plan = await parts.plan_of(sky.store, sky.policy("CODEX"), sky.clock())
    sky.seen[("CLAUDE", "CODEX")] = near(0.9)
    await sky.tick()
    await parts.end(sky.store, plan, TurnOutcome("INTENT: docs/a.md"), sky.clock())
    await sky.follow()
    one = await sky.only()
    assert one.answers["CODEX"].intent == ("docs/a.md",) and "CODEX" in one.unanswered
    await sky.turn("CODEX", "INTENT: none")
    assert "CODEX" not in (await sky.only()).unanswered


async def test_a_person_who_does_not_steer_is_not_told_to_be_cancelled(sky: Sky) -> None:
    await sky.meet("CLAUDE", "ann")
    await sky.turn("CLAUDE", "INTENT: none")
    sky.clock.move(sky.settings.steer_s)
    assert await sky.protocol.remind()
    (asked,) = await sky.asked_people()
    assert asked.body.startswith("ann was to leave") and "/cancel" not in asked.body


async def test_connected_clients_get_the_advisory_as_a_stored_frame(sky: Sky) -> None:
    one = await sky.meet()
    (_, event) = await sky.events(table.CHANGED)
    (frame,) = frames_of(event)
    assert (frame.cursor, frame.type, frame.data["id"]) == (event.pos, "advisory", one.id)
    assert table.CHANGED in SHOWN and frame.data == wording.shown(one)


async def test_the_line_names_lines_before_what_weighs_more(sky: Sky) -> None:
    seen = near(0.9)
    first = Evidence(f"git cannot merge {FILE}", FILE)
    sky.sets |= {name: work(name, FILE) for name in ("CLAUDE", "CODEX")}
    sky.seen[("CLAUDE", "CODEX")] = replace(seen, evidence=(first, *seen.evidence))
    await sky.tick()
    said = (await sky.said())[0].body
    assert said.startswith(f"both change lines 40-58 of {FILE}, git cannot merge {FILE}; HOLD:")


def shown(sky: Sky) -> str:
    return near_text({}, list(sky.protocol.standing.advisories.values()), sorted(sky.sets))


async def test_who_is_near_is_shown_as_it_is_now_and_not_as_it_was_said(sky: Sky) -> None:
    await sky.meet()
    assert f"- **resolution:** both change lines 40-58 of {FILE}; HOLD: CLAUDE" in shown(sky)
    sky.seen[("CLAUDE", "CODEX")] = meant("src/util.py", by="CODEX", where="CLAUDE")
    await sky.tick()
    now = "CODEX intends to change src/util.py, where CLAUDE works; TRANSMIT: CLAUDE, CODEX"
    assert shown(sky).splitlines()[1:] == [f"- **traffic:** {now}"]
    sky.seen[("CLAUDE", "CODEX")] = meant("src/free.py", by="CODEX", where="CLAUDE")
    assert not await sky.tick(), "nothing is recorded for it"
    assert "- **traffic:** CODEX intends to change src/free.py, where" in shown(sky)
    assert "STEER: CODEX" in (await sky.only()).text, "what was said stays what was said"


async def test_who_steers_is_told_why_as_the_roles_are_now(sky: Sky) -> None:
    await sky.meet()
    sky.sets["GEMINI"] = work("GEMINI", FILE, started_at=3.0)
    sky.seen[("CODEX", "GEMINI")] = near(0.9)
    await sky.tick()
    assert sky.protocol.steers("CODEX")[0].reason.endswith("STEER: CODEX, GEMINI")
    del sky.seen[("CODEX", "GEMINI")]
    await sky.tick()
    assert "GEMINI" in (await sky.only()).text and not sky.protocol.steers("GEMINI")
    assert sky.protocol.steers("CODEX")[0].reason == (
        f"both change lines 40-58 of {FILE}; HOLD: CLAUDE (3 files committed), STEER: CODEX"
    )


async def test_a_pair_that_parted_and_meets_elsewhere_is_told(sky: Sky) -> None:
    await sky.meet("CLAUDE", "CODEX")
    sky.sets["GEMINI"] = work("GEMINI", FILE, started_at=3.0)
    sky.seen[("CODEX", "GEMINI")] = near(0.9)
    await sky.tick()
    del sky.seen[("CLAUDE", "CODEX")]
    await sky.tick()
    sky.sets["CODEX"] = work("CODEX", FILE, "src/free.py", started_at=2.0)
    sky.sets["CLAUDE"] = work("CLAUDE", "src/free.py", committed=3.0)
    sky.seen[("CLAUDE", "CODEX")] = near(0.9, "src/free.py")
    await sky.tick(400.0)
    second, first = await sky.all()
    assert (list(first.contacts), first.open) == ([("CODEX", "GEMINI")], True)
    assert (list(second.contacts), second.files) == ([("CLAUDE", "CODEX")], ("src/free.py",))
    assert "src/free.py" in (await sky.said())[-1].body
    assert sky.protocol.steer("CODEX", "src/free.py") is not None
