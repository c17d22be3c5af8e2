"""Skills on both stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.config.coordination import CoordinationSettings
from relay.coordination.locks.service import Locks
from relay.coordination.sessions import Heartbeat
from relay.coordination.tasks.claims import working_on
from relay.coordination.tasks.service import WorkQueue
from relay.log.verify import verify
from relay.memory import procedural
from relay.memory.procedural import Skills
from relay.memory.skill import MOST_RATE, PRIOR, effectiveness, ranked, rate
from relay.memory.skill_index import found
from relay.model import Caller, Fault, Refusal
from relay.store.ports import Store
from tests import engines
from tests.engines import BOTH, Clock, all_events

SCHEMAS = engines.wings("log", "coordination", "memory")
A, A2, B = Caller("CLAUDE", "a1"), Caller("CLAUDE", "a2"), Caller("CODEX", "b1")


class Room:
    """Skills, and the work that feeds them."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store, self.clock = store, clock
        settings = CoordinationSettings()
        heartbeat = Heartbeat(settings)
        self.skills = Skills(store, sessions=heartbeat, working=working_on)
        locks = Locks(store, heartbeat)
        self.work = WorkQueue(store, settings, heartbeat=heartbeat, locks=locks, outcomes=self.skills)

    async def claimed(self, caller: Caller, task_type: str = "fix", **more: Any) -> str:
        await self.work.submit(caller, task_type, "do it", **more)
        return str((await self.work.get(caller, [task_type]))["task_id"])

    async def counts(self, task_type: str = "fix") -> dict[str, tuple[int, int]]:
        told = await self.skills.list(A, task_type)
        return {skill["name"]: (skill["uses"], skill["successes"]) for skill in told["skills"]}


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Room]:
    clock = Clock()
    store = await engines.open_store(tmp_path, SCHEMAS, clock=clock)
    yield Room(store, clock)
    assert await verify(store) == []
    await store.close()


@BOTH
async def test_procedural_skill_tracking(room: Room) -> None:
    assert await room.skills.list(A, "fix") == {"success": True, "skills": []}
    first = await room.skills.use(A, "fix", "write the failing test first", True, steps=["test", "fix"])
    [skill] = first["skills"]
    assert skill == {
        "name": "write the failing test first",
        "task_type": "fix",
        "uses": 1,
        "successes": 1,
        "effectiveness": round(effectiveness(1, 1, rate(1, 1)), 4),
        "steps": ["test", "fix"],
    }
    worse = await room.skills.use(B, "fix", "write the failing test first", False)
    assert worse["skills"][0]["effectiveness"] < skill["effectiveness"]
    assert (worse["skills"][0]["uses"], worse["skills"][0]["successes"]) == (2, 1)
    assert worse["skills"][0]["steps"] == ["test", "fix"]
    room.clock.move(1)
    newer = await room.skills.use(B, "fix", "write the failing test first", True, steps=["fix"])
    assert newer["skills"][0]["steps"] == ["fix"]
    await room.skills.use(A, "deploy", "by hand", True)
    assert list(await room.counts()) == ["write the failing test first"]
    assert await room.skills.list(A, "fix", name="another") == {"success": True, "skills": []}
    used = await all_events(room.store, procedural.USED)
    assert [event.outputs["skill"]["success"] for event in used] == [True, False, True, True]


@BOTH
async def test_one_of_one_does_not_pass_ninety_five_of_a_hundred(room: Room) -> None:
    for at in range(100):
        await room.skills.use(A, "fix", "proven", at >= 5)
    await room.skills.use(B, "fix", "new", True)
    told = (await room.skills.list(A, "fix"))["skills"]
    assert [(skill["name"], skill["uses"], skill["successes"]) for skill in told] == [
        ("proven", 100, 95),
        ("new", 1, 1),
    ]


@BOTH
async def test_eight_writers_at_once_are_all_counted(room: Room) -> None:
    async def write(writer: int) -> None:
        caller = Caller(f"AGENT{writer % 4}", f"s{writer}")
        for at in range(5):
            await room.skills.use(caller, "fix", "shared", at % 2 == 0)

    await asyncio.gather(*(write(writer) for writer in range(8)))
    assert await room.counts() == {"shared": (40, 24)}


@BOTH
async def test_one_task_counts_once_and_its_last_outcome_stands(room: Room) -> None:
    task = await room.claimed(A)
    for success in (True, False, True):
        await room.skills.use(A, "fix", "split it", success)
    assert await room.counts() == {"split it": (1, 1)}
    # Another session of the agent works on no task.
    await room.skills.use(A2, "fix", "split it", True)
    assert await room.counts() == {"split it": (2, 2)}
    for _ in range(2):
        await room.work.complete(A, task, True, skill="split it")
    assert await room.counts() == {"split it": (2, 2)}
    other = await room.claimed(B)
    await room.work.complete(B, other, True, skill="split it")
    assert await room.counts() == {"split it": (3, 3)}


@BOTH
async def test_tasks_that_fail_and_die_are_failures_of_what_they_name(room: Room) -> None:
    task = await room.claimed(A)
    await room.work.complete(A, task, False, error_message="no", skill="guess")
    assert await room.counts() == {"guess": (1, 0)}
    task = await room.claimed(A)
    await room.skills.use(A, "fix", "hope", True)
    await room.work.complete(A, task, False)
    assert await room.counts() == {"guess": (1, 0), "hope": (1, 0)}
    # Dead, given back by its agent: the last attempt is lost.
    task = await room.claimed(B, "port", max_attempts=1)
    await room.skills.use(B, "port", "rewrite", True)
    assert (await room.work.release(B, task))["status"] == "dead"
    assert await room.counts("port") == {"rewrite": (1, 0)}
    # Dead, taken back since its lease ran out; another agent's use is set right too.
    task = await room.claimed(A, "move", max_attempts=1)
    await room.skills.use(A, "move", "copy", True)
    room.clock.move(10_000_000)
    await room.work.take_back()
    assert await room.counts("move") == {"copy": (1, 0)}
    events = await all_events(room.store, procedural.USED)
    assert all(event.parents for event in events if not event.outputs["skill"]["counted"])


@BOTH
async def test_a_task_that_two_agents_had_counts_once(room: Room) -> None:
    await room.claimed(A, max_attempts=3)
    await room.skills.use(A, "fix", "split it", False)
    task = (await room.work.list(A))["tasks"][0]["id"]
    await room.work.release(A, task)
    room.clock.move(100_000)
    assert (await room.work.get(B, ["fix"]))["task_id"] == task
    await room.skills.use(B, "fix", "split it", True)
    await room.work.complete(B, task, True, skill="split it")
    assert await room.counts() == {"split it": (1, 1)}


@BOTH
async def test_a_question_finds_skills_by_their_words(room: Room) -> None:
    for name, task_type, steps, successes in (
        ("bisect the history", "bug", ["git bisect start", "run the failing test"], 3),
        ("read the stack trace", "bug", ["find the first frame of ours"], 3),
        ("write the failing test first", "bug", ["one test", "make it pass"], 0),
        ("failing over by hand", "deploy", ["switch the address"], 1),
    ):
        for at in range(3):
            await room.skills.use(A, task_type, name, at < successes, steps=steps)

    async def names(question: str, limit: int = 10) -> list[str]:
        told = await room.store.read(lambda tx: found(tx, B, question, limit), actor=B)
        assert all(0 < each.relevance <= 1 and each.memory_type == "procedural" for each in told)
        return [each.more["name"] for each in told]

    assert await names("how to bisect?") == ["bisect the history"]
    assert set(await names("a failing test")) == {
        "bisect the history",
        "write the failing test first",
        "failing over by hand",
    }
    assert await names("a failing test", 1) == ["write the failing test first"]
    assert await names("switched addresses") == ["failing over by hand"]
    assert await names("nothing of it") == []
    [hit] = await room.store.read(lambda tx: found(tx, B, "frames", 5))
    assert hit.why["words"] == ["frames"] and hit.id == "bug/read the stack trace"
    assert hit.content == (
        "read the stack trace (for bug; 3 of 3 uses went well)\n1. find the first frame of ours"
    )
    # What it is found by is what it says now.
    await room.skills.use(B, "bug", "read the stack trace", True, steps=["look at the last line"])
    assert await names("frames") == []
    assert await names("last line") == ["read the stack trace"]


@BOTH
async def test_names_and_steps_are_made_plain(room: Room) -> None:
    told = await room.skills.use(A, "fix", "  two \n words ", True, steps=["use ghp_" + "a" * 36])
    assert told["skills"][0]["name"] == "two words"
    assert told["skills"][0]["steps"] == ["use [secret]"]
    for wrong in ({"name": " "}, {"name": "x" * 201}, {"name": "a\0"}):
        with pytest.raises(Refusal) as no:
            await room.skills.use(A, "fix", success=True, **wrong)
        assert no.value.fault is Fault.MALFORMED


def row(name: str, uses: int, successes: int) -> dict[str, Any]:
    told = {"agent_id": "A", "steps": None, "steps_at": None}
    return {"name": name, "task_type": "t", "uses": uses, "successes": successes, **told}


COUNTS = st.integers(0, 500).flatmap(lambda uses: st.tuples(st.just(uses), st.integers(0, uses)))


@given(st.lists(COUNTS, max_size=8))
def test_whatever_else_is_known_one_of_one_comes_behind(others: list[tuple[int, int]]) -> None:
    rows = [row("proven", 100, 95), row("new", 1, 1)]
    rows += [row(f"other{at}", *counts) for at, counts in enumerate(others)]
    told = ranked(rows)
    order = [skill.name for skill in told]
    assert order.index("proven") < order.index("new")
    assert all(0 < skill.effectiveness < 1 for skill in told)


@given(COUNTS, COUNTS)
def test_the_posterior_mean_lies_between_the_record_and_the_prior(
    own: tuple[int, int], type_counts: tuple[int, int]
) -> None:
    prior = rate(*type_counts)
    assert 0 < prior <= MOST_RATE
    mean = effectiveness(*own, prior)
    record = own[1] / own[0] if own[0] else prior
    assert min(record, prior) - 1e-9 <= mean <= max(record, prior) + 1e-9
    assert effectiveness(own[0] + 1, own[1] + 1, prior) > mean > effectiveness(own[0] + 1, own[1], prior)
    assert effectiveness(0, 0, prior) == pytest.approx(prior) and PRIOR == 10
