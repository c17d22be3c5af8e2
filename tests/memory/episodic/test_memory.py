from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from relay.coordination.idempotency import once
from relay.log.verify import verify
from relay.memory.episodic import recalling
from relay.memory.episodic.keeping import MERGE_S
from relay.memory.episodic.memory import EpisodicMemory
from relay.memory.experience import Experience
from relay.memory.ranking.weights import HALF_LIFE_S, OUTCOMES
from relay.model import Caller, Fault, Refusal
from relay.store.ports import Store
from tests import engines
from tests.coordination.standins import Beats
from tests.engines import BOTH, Clock, all_events

pytestmark = BOTH

SCHEMAS = engines.wings("log", "coordination", "memory", "knowledge")
A, A2, B = Caller("CLAUDE", "a1"), Caller("CLAUDE", "a2"), Caller("CODEX", "b1")
START = 1_800_000_000.0


@pytest.fixture
def clock() -> Clock:
    return Clock(START)


Open = Callable[[], Coroutine[Any, Any, Store]]


@pytest.fixture
def opened(tmp_path: Path, clock: Clock) -> Open:
    return lambda: engines.open_store(tmp_path, SCHEMAS, clock=clock)


@pytest.fixture
async def store(opened: Open) -> AsyncIterator[Store]:
    store = await opened()
    yield store
    assert await verify(store) == []
    await store.close()


@pytest.fixture
def memory(store: Store) -> EpisodicMemory:
    return EpisodicMemory(store, sessions=Beats(), once=once)


async def found(memory: EpisodicMemory, asked: str, **more: Any) -> list[str]:
    return [one["summary"] for one in await memory.recall(A, asked, **more)]


async def test_the_same_within_an_hour_is_one_and_loses_nothing(
    memory: EpisodicMemory, clock: Clock, store: Store
) -> None:
    first = await memory.remember(
        A, "bug", "Pru\u0308fe es", details={"n": 1}, outcome="failure", lessons=["x"], tags=["t"]
    )
    assert first == {"success": True, "memory_id": first["memory_id"], "number": 1, "merged": False}
    clock.now += MERGE_S - 1
    again = await memory.remember(
        A2, "bug", "Prüfe es", details=[{"n": 1}, "seen"], outcome="success", lessons=["y", "x"], tags=["u"]
    )
    assert again == {"success": True, "memory_id": first["memory_id"], "number": 1, "merged": True}
    [told] = await memory.recall(B, "prufe")
    assert (told["lessons"], told["tags"], told["outcome"]) == (["x", "y"], ["t", "u"], "success")
    assert told["content"] == (
        'Prüfe es\nOutcome: success\nLesson: x\nLesson: y\nDetails: {"n": 1}; {"outcome": "failure"}; seen'
    )
    assert (told["memory_type"], told["agent_id"], told["event_type"]) == ("episodic", "CLAUDE", "bug")
    # The hour counts from the last time; another agent, type or spelling is another memory.
    clock.now += MERGE_S - 1
    assert (await memory.remember(A, "bug", "Prüfe es"))["merged"]
    for who, kind, said in ((B, "bug", "Prüfe es"), (A, "fix", "Prüfe es"), (A, "bug", "prüfe es")):
        assert not (await memory.remember(who, kind, said))["merged"]
    clock.now += MERGE_S
    assert not (await memory.remember(A, "bug", "Prüfe es"))["merged"]
    log = await all_events(store)
    assert [event.type for event in log] == ["memory.remembered"] * 7
    assert log[1].lane_key == "a2/CLAUDE"


async def test_a_key_remembers_once(memory: EpisodicMemory, clock: Clock) -> None:
    first = await memory.remember(A, "e", "s", lessons=["x"], idempotency_key="k")
    clock.now += 2 * MERGE_S
    assert await memory.remember(A, "e", "s", lessons=["x"], idempotency_key="k") == {
        **first,
        "repeated": True,
    }
    with pytest.raises(Refusal) as refused:
        await memory.remember(A, "e", "s", lessons=["y"], idempotency_key="k")
    assert (refused.value.fault, refused.value.code) == (Fault.REFUSED, "idempotency_key_reused")


async def test_it_is_found_by_its_words(memory: EpisodicMemory) -> None:
    for said in (
        "Renamed get_user in src/app.py",
        "Fixed fetchUserName",
        "Die Übersicht der Größen war falsch",
        "Testing the deploy script",
        "C++ build with AND OR NOT",
    ):
        await memory.remember(A, "fix", said)
    for asked, summary in (
        ("get_user", "Renamed get_user in src/app.py"),
        ("src/app.py", "Renamed get_user in src/app.py"),
        ("where is `app.py`?", "Renamed get_user in src/app.py"),
        ("fetchUserName", "Fixed fetchUserName"),
        ("fetch_user_name", "Fixed fetchUserName"),
        ("fetch the name of a user", "Fixed fetchUserName"),
        ("ubersicht", "Die Übersicht der Größen war falsch"),
        ("GRÖßEN", "Die Übersicht der Größen war falsch"),
        ("run the tests", "Testing the deploy script"),
        ('AND "build', "C++ build with AND OR NOT"),
        ("NEAR(build) - * ^ : {", "C++ build with AND OR NOT"),
    ):
        assert (await found(memory, asked))[:1] == [summary], asked
    assert await found(memory, "zebra") == []
    assert await found(memory, "???") == []


async def test_relevance_is_text_times_outcome_times_age(memory: EpisodicMemory, clock: Clock) -> None:
    await memory.remember(A, "fix", "login timeout", outcome="success")
    await memory.remember(A2, "fix", "login timeout of old", outcome="failure", details="login timeout")
    await memory.remember(B, "fix", "logout page", outcome="failure", lessons=["login first"])
    told = await memory.recall(A, "login timeout")
    relevances = [one["relevance"] for one in told]
    assert relevances == sorted(relevances, reverse=True)
    assert all(0 < one <= 1 for one in relevances)
    assert [one["summary"] for one in told] == ["login timeout", "login timeout of old", "logout page"]
    fresh = relevances[0]
    clock.now += HALF_LIFE_S
    assert (await memory.recall(A, "login timeout"))[0]["relevance"] == pytest.approx(0.9 * fresh, rel=1e-3)


async def test_old_but_only_hit_is_told(memory: EpisodicMemory, clock: Clock) -> None:
    await memory.remember(A, "lesson", "never mock the clock, it hid a bug", outcome="failure")
    clock.now += 20 * 365 * 86_400
    for number in range(20):
        await memory.remember(B, "fix", f"deploy script {number}", outcome="success")
    for asked in ("mock the clock", "may I mock the clock in the test of the deploy script?"):
        assert "never mock the clock, it hid a bug" in await found(memory, asked), asked
    assert await found(memory, "clock") == ["never mock the clock, it hid a bug"]


async def test_tags_choose_and_an_empty_question_asks_for_the_newest(
    memory: EpisodicMemory, clock: Clock
) -> None:
    for said, tags in (("a x", ["api"]), ("b x", ["db", "slow"]), ("c x", [])):
        await memory.remember(A, "e", said, tags=tags)
        clock.now += 10
    assert sorted(await found(memory, "x", tags=["api", "slow"])) == ["a x", "b x"]
    assert await found(memory, "x", tags=["slow"]) == ["b x"]
    assert await found(memory, "", tags=["db"]) == ["b x"]
    assert await found(memory, " ", tags=["none"]) == []
    assert await found(memory, "") == await found(memory, " \n") == ["c x", "b x", "a x"]
    assert await found(memory, "", limit=1) == ["c x"]
    assert (await memory.recall(A, ""))[0]["relevance"] == pytest.approx(OUTCOMES["partly"], rel=1e-3)


@pytest.mark.parametrize(
    "what",
    [
        {"event_type": ""},
        {"event_type": "x" * 65},
        {"summary": " \n"},
        {"summary": "x" * 4097},
        {"summary": "a\0"},
        {"details": float("nan")},
        {"details": "x" * 262_144},
        {"lessons": "one"},
        {"lessons": [1]},
        {"tags": ["x" * 101]},
        {"outcome": "x" * 201},
        {"limit": 0},
        {"limit": 101},
        {"limit": True},
        {"task_description": "x" * 16_385},
    ],
)
async def test_what_is_malformed(memory: EpisodicMemory, what: dict[str, Any]) -> None:
    asked = {"event_type": "e", "summary": "s"} | what
    with pytest.raises(Refusal) as refused:
        if {"limit", "task_description"} & set(what):
            await memory.recall(A, **({"task_description": "s"} | what))
        else:
            await memory.remember(A, **asked)
    assert refused.value.fault is Fault.MALFORMED
    assert refused.value.fix


async def test_what_would_grow_too_large_is_a_new_memory(memory: EpisodicMemory) -> None:
    made = [
        (await memory.remember(A, "e", "s", details=f"{n}" + "x" * 200_000))["memory_id"] for n in range(7)
    ]
    assert [len({*made[:5]}), len({*made})] == [1, 2]


async def test_it_survives_a_restart(opened: Open) -> None:
    for answer in ([], ["s"], ["s"]):
        store = await opened()
        memory = EpisodicMemory(store, sessions=Beats(), once=once)
        assert await found(memory, "s") == answer
        await memory.remember(A, "e", "s")
        await store.close()


WRITER = """
import asyncio, sys
from relay.coordination.idempotency import once
from relay.memory.episodic.memory import EpisodicMemory
from relay.model import Caller
from tests import engines
from tests.coordination.standins import Beats
from tests.memory.episodic.test_memory import SCHEMAS

async def main(path, writer):
    store = await engines.join(path, SCHEMAS)
    memory = EpisodicMemory(store, sessions=Beats(), once=once)
    for number in range(300):
        await memory.remember(Caller("CLAUDE", writer), "e", f"s{number}", lessons=[f"from {writer}"])
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_four_processes_that_store_the_same_leave_it_once(store: Store, tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, engines.address_of(tmp_path)]
    writers = [await asyncio.create_subprocess_exec(*command, f"w{n}") for n in range(4)]
    assert [await writer.wait() for writer in writers] == [0, 0, 0, 0]
    rows = await store.read(lambda tx: tx.all(recalling.Q.newest_memories, limit=2000))
    assert sorted(row["summary"] for row in rows) == sorted(f"s{n}" for n in range(300))
    assert {len(Experience.of_row(row).lessons) for row in rows} == {4}
    assert {row["merged"] for row in rows} == {4}
