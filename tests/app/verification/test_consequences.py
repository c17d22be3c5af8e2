"""What follows from a verification: tasks, skills, memories, what agents are told; and where changes come from."""

from __future__ import annotations

from typing import Any

from relay.app.verification.consequences import Consequences
from relay.app.verification.sources import ChangeSources
from relay.faces.operations.operation import perform
from relay.faces.operations.registry import OPERATIONS
from relay.faces.services import Services, services_of
from relay.log import follow
from relay.memory.observed import observed
from relay.model import Caller
from relay.room.advisory_voice import RoomVoice
from relay.room.dispatch.roster import Member, Policy, Roster
from relay.verification import journal
from relay.verification.landing.entry import EntryState
from relay.verification.verification import Source, State
from tests.app.verification.place import AGENTS, Open, Place, policy, python
from tests.engines import BOTH, all_events, check_log

pytestmark = BOTH

FAILS = policy("unit", python("print('t.py:7: wrong'); raise SystemExit(1)"))
PASSES = policy("unit", python("print('fine')"))
AVA = Caller("AVA", "s1", scopes=frozenset({"work", "memory", "read"}))


class Room:
    """A place with the services of a room, and its followers."""

    def __init__(self, place: Place) -> None:
        self.place, self.store = place, place.store
        self.services: Services = services_of(place.store, place.settings, fold=False)
        roster = Roster({name: Member(name, "played", Policy(name)) for name in AGENTS})
        claims, voice = self.services.work.claims, RoomVoice(roster)
        self.sources = ChangeSources(place.policies, place.registry)
        self.followers = (self.sources, Consequences(claims, voice))

    async def call(self, name: str, caller: Caller = AVA, **values: Any) -> Any:
        return await perform(self.services, caller, OPERATIONS[name], values)

    async def follow(self) -> None:
        for follower in self.followers:
            while True:
                progress = await follow.step(self.store, follower)
                assert progress.error is None, progress.error
                if not progress.applied:
                    break

    async def settle(self) -> None:
        """Until nothing follows from anything any more."""
        for _ in range(3):
            await self.follow()
            for each in await self.store.read(journal.open_verifications):
                await self.place.verifier.finished(each.number)
        await self.follow()

    async def task(self, **more: Any) -> str:
        made = await self.call("submit_work", task_type="fix", task_description="Mend it", **more)
        return str(made["task_id"])

    async def done(self, **more: Any) -> Any:
        claimed = await self.call("get_work")
        assert claimed["task_id"] is not None, claimed
        return await self.call("complete_work", task_id=claimed["task_id"], success=True, **more)

    async def shown(self, task: str) -> Any:
        return await self.call("show_task", task_id=task)


async def opened(open_place: Open, *policies: dict[str, Any]) -> Room:
    place = await open_place()
    if policies:
        place.have(*policies)
    await place.work("AVA", {"app.py": "def total():\n    return 2\n"})
    return Room(place)


async def test_a_failure_opens_the_task_again_and_counts_as_an_attempt(open_place: Open) -> None:
    room = await opened(open_place, FAILS)
    task = await room.task(max_attempts=2)
    await room.done(skill="careful reading")
    await room.settle()
    shown = await room.shown(task)
    assert (shown["status"], shown["attempt"]) == ("pending", 2)
    assert shown["note"] == "Attempt 1 ended: v1 failed: unit failed (exit code 1)."
    said = [text for text in await room.place.messages() if "did not pass" in text]
    assert said == [
        "v1: AVA's change did not pass. unit failed (exit code 1). t1 is open again.\n\n```\nt.py:7: wrong\n```"
    ]
    (asked,) = [job for job in await all_events(room.store, "dispatch.queued")]
    assert asked.outputs["jobs"][0]["agent"] == "AVA"
    skills = await room.call("skill", task_type="fix")
    (skill,) = skills["skills"]
    assert (skill["uses"], skill["successes"]) == (1, 0)
    await check_log(room.store)


async def test_the_last_attempt_is_the_last(open_place: Open) -> None:
    room = await opened(open_place, FAILS)
    task = await room.task(max_attempts=1)
    await room.done()
    await room.settle()
    shown = await room.shown(task)
    assert shown["status"] == "dead"
    assert any("t1 is given up." in text for text in await room.place.messages())
    assert await all_events(room.store, "dispatch.queued") == []


async def test_what_passes_is_noted_on_the_task(open_place: Open) -> None:
    room = await opened(open_place, PASSES)
    task = await room.task()
    await room.done()
    await room.settle()
    shown = await room.shown(task)
    assert (shown["status"], shown["note"]) == ("completed", "Verified: unit passed (v1).")
    assert await room.place.messages() == []


async def test_dependents_wait_again_for_what_did_not_pass(open_place: Open) -> None:
    room = await opened(open_place, FAILS)
    first = await room.task()
    second = await room.task(depends_on=[first])
    await room.done()
    assert (await room.shown(second))["status"] == "pending"
    await room.settle()
    assert (await room.shown(second))["status"] == "blocked"


async def test_without_policies_nothing_is_asked(open_place: Open) -> None:
    room = await opened(open_place)
    task = await room.task()
    await room.done()
    await room.settle()
    assert (await room.shown(task))["status"] == "completed"
    assert await all_events(room.store, journal.ASKED) == []


async def test_a_task_done_may_land(open_place: Open) -> None:
    room = await opened(open_place, PASSES)
    await room.task()
    done = await room.done(land=True)
    assert done["landing"] == {"success": True, "agent": "AVA", "state": "asked", "place": 1}
    await room.place.queue.drain()
    entry = await room.place.entry(1)
    assert entry.state is EntryState.LANDED and entry.task is not None


async def test_a_task_that_does_not_land_is_open_again(open_place: Open) -> None:
    room = await opened(open_place, {**FAILS, "patterns": ["app.py"]})
    room.place.have(
        policy("unit", python("import os; raise SystemExit(os.path.exists('bad.py'))"), patterns=["*.py"])
    )
    await room.place.work("AVA", {"bad.py": "x = 1\n"})
    task = await room.task()
    await room.done(land=True)
    await room.place.queue.drain()
    await room.settle()
    assert (await room.shown(task))["status"] == "pending"
    (put_out,) = await all_events(room.store, "landing.put_out")
    assert put_out.outputs["task"] == task


async def test_an_agent_lands_its_own_branch_only(open_place: Open) -> None:
    room = await opened(open_place)
    assert (await room.call("land"))["success"] is True
    try:
        await room.call("land", agent="BEN")
    except Exception as refusal:
        assert "lands its own branch only" in str(refusal)
    else:
        raise AssertionError("BEN's branch was taken")


async def test_a_missing_tool_is_said_once(open_place: Open) -> None:
    room = await opened(open_place, policy("types", ["no-such-tool"]))
    for _ in range(3):
        await room.task()
        await room.done()
        await room.settle()
    said = [text for text in await room.place.messages() if "could not be verified" in text]
    assert len(said) == 1 and "there is no program 'no-such-tool'" in said[0]


async def test_what_did_not_pass_is_remembered(open_place: Open) -> None:
    room = await opened(open_place, FAILS)
    await room.place.verify()
    (ended,) = await all_events(room.store, journal.ENDED)
    memory = observed(ended)
    assert memory is not None
    assert memory.experience.summary == "AVA's change did not pass: unit failed (exit code 1)."
    assert memory.experience.outcome == "failure"
    assert "It said: t.py:7: wrong" in memory.experience.details
    room.place.have(PASSES)
    await room.place.verify()
    assert observed((await all_events(room.store, journal.ENDED))[-1]) is None


async def test_handoffs_and_variants_are_verified(open_place: Open) -> None:
    room = await opened(open_place, PASSES)
    registry = room.place.registry
    snapshot = await registry.worktrees["AVA"].take_snapshot(everything=True)
    from relay.log import events
    from relay.log.events import Lane, NewEvent

    handed = {"from_agent": "AVA", "to_agent": "BEN", "snapshot_id": snapshot.tree, "commit": snapshot.commit}
    variant = {"agent": "AVA", "name": "fast", "number": 1, "commit": snapshot.commit}
    for type_, outputs in (("handoff", handed), ("exploration.variant_ended", variant)):
        new = NewEvent(type_, Lane("room", type_, short=True), outputs=outputs, snapshot=snapshot.tree)
        await room.store.write(lambda tx, new=new: events.append(tx, new))
    await room.settle()
    found = await room.store.read(lambda tx: journal.newest_verifications(tx, 10))
    assert {(each.change.source, each.state) for each in found} == {
        (Source.HANDOFF, State.PASSED),
        (Source.EXPLORATION, State.PASSED),
    }
