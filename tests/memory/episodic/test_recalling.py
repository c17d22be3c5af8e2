"""What a question finds, in which order, and why: the same on both stores."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from relay.coordination.idempotency import once
from relay.memory.episodic import recalling
from relay.memory.episodic.forgetting import forget
from relay.memory.episodic.indexing import index_the_rest
from relay.memory.episodic.keeping import NewMemory, keep, new_counts
from relay.memory.episodic.memory import EpisodicMemory
from relay.memory.episodic.recalling import Wanted
from relay.memory.experience import experience
from relay.model import Caller
from relay.store.ports import Store, Tx
from tests import engines
from tests.coordination.standins import Beats
from tests.engines import BOTH, ENGINES, Clock
from tests.memory.episodic.test_memory import SCHEMAS

NAMES = ["café", "Größe", "getUserName", "src/app.py"]
NOUNS = ["cache", "deploy", "login", "timeout", "index", "token", "parser", "lock", "room", *NAMES]
VERBS = ["broke", "fixed", "renamed", "measured", "forgot", "tested", "moved"]
A = Caller("CLAUDE", "a1")
AGENTS = ("CLAUDE", "CODEX", "Ann Lee")


def made(seed: int, number: int) -> list[NewMemory]:
    """Memories of conversations, some alike, of many ages."""
    chosen = random.Random(seed)
    memories = []
    for at in range(number):
        said = " ".join(chosen.choices(NOUNS + VERBS, k=chosen.randint(2, 9)))
        told = experience(
            "message",
            said,
            details=" ".join(chosen.choices(NOUNS, k=3)) if chosen.random() < 0.5 else None,
            outcome=chosen.choice([None, "success", "failure"]),
            tags=chosen.sample(["api", "db", "ui"], chosen.randint(0, 2)),
        )
        session, agent = f"s{at // 25}", chosen.choice(AGENTS)
        when = 1_500_000_000.0 + chosen.randint(0, 40) * 86_400 + at
        memories.append(NewMemory(told, agent, session, when, key=f"k{at}", imported_by="ann"))
    return memories


async def fill(store: Store, memories: list[NewMemory]) -> None:
    async def work(tx: Tx) -> None:
        counts = new_counts()
        for new in memories:
            await keep(tx, new, counts)
        await counts.write(tx)

    await store.write(work)


async def orders(store: Store, questions: list[Wanted]) -> list[list[tuple[Any, ...]]]:
    async def work(tx: Tx) -> list[list[tuple[Any, ...]]]:
        answers = [await recalling.found(tx, wanted, 20) for wanted in questions]
        return [[(one.keys, one.relevance, one.why) for one in answer] for answer in answers]

    return await store.read(work)


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with so many memories that only the rarest words are looked up."""
    monkeypatch.setattr(recalling, "MOST_HITS", 60)
    monkeypatch.setattr(recalling, "CANDIDATES", 20)
    monkeypatch.setattr(recalling, "BEST", 8)


async def same_order(folder: Path) -> None:
    memories = made(1, 150)
    chosen = random.Random(2)
    questions = []
    for _ in range(200):
        text = " ".join(
            chosen.choices([*NOUNS, *VERBS, *AGENTS, "zebra", "what", "the"], k=chosen.randint(1, 8))
        )
        tags = chosen.sample(["api", "db"], chosen.choice([0, 0, 1, 2]))
        questions.append(Wanted(text, tags, chosen.sample(AGENTS, chosen.choice([0, 0, 0, 1]))))
    told = []
    for engine in ENGINES:
        with engines.on_engine(engine):
            store = await engines.open_store(folder / engine, SCHEMAS, clock=Clock())
            await fill(store, memories)
            told.append(await orders(store, questions))
            await store.close()
    assert told[0] == told[1]
    assert sum(bool(answer) for answer in told[0]) > 150


async def test_both_stores_same_order(tmp_path: Path) -> None:
    for engine in ENGINES:
        (tmp_path / engine).mkdir()
    await same_order(tmp_path)


@pytest.mark.usefixtures("narrow")
async def test_both_stores_same_order_among_many(tmp_path: Path) -> None:
    for engine in ENGINES:
        (tmp_path / engine).mkdir()
    await same_order(tmp_path)


Talk = Callable[[list[tuple[str, str]]], Awaitable[Store]]


@pytest.fixture
async def talk(tmp_path: Path) -> Any:
    opened: list[Store] = []

    async def make(lines: list[tuple[str, str]]) -> Store:
        store = await engines.open_store(tmp_path, SCHEMAS, clock=Clock())
        opened.append(store)
        turns = [
            NewMemory(experience("message", said), who, "one", 1000.0 + at, key=f"k{at}", imported_by="ann")
            for at, (who, said) in enumerate(lines)
        ]
        await fill(store, turns)
        return store

    yield make
    for store in opened:
        await store.close()


@BOTH
async def test_what_stood_beside_a_hit_and_who_said_it_count(talk: Talk) -> None:
    store = await talk(
        [
            ("Ann", "Which database do we take for the orders?"),
            ("Bob", "The one with the elephant."),
            ("Ann", "Fine."),
            ("Bob", "Lunch?"),
            ("Ann", "Pizza."),
            ("Bob", "The orders are slow."),
            ("Ann", "The orders are slow."),
        ]
    )
    found = await store.read(lambda tx: recalling.found(tx, Wanted("which database for the orders"), 10))
    by_key = {one.keys[0]: one for one in found}
    assert found[0].keys == ["k0"]
    assert found[0].why == {"words": ["database", "orders"], "tags": [], "neighbour": [], "author": None}
    assert by_key["k1"].why["neighbour"] == ["database", "orders"], "an answer is found by its question"
    assert "k3" not in by_key or by_key["k3"].why["words"] == []
    named = await store.read(lambda tx: recalling.found(tx, Wanted("what did Bob say of slow orders?"), 10))
    assert (named[0].keys, named[0].why["author"]) == (["k5"], "Bob")


@BOTH
async def test_an_earlier_question_stands_behind_what_was_decided(tmp_path: Path) -> None:
    store = await engines.open_store(tmp_path, SCHEMAS, clock=Clock())
    lines = [
        ("ann", "message", "@ALFA which puffin ports do we use in salt water?"),
        ("ann", "decision", "use puffin ports because salt water rusts the others"),
        ("ben", "message", "@BETA which gull rails do we paint?"),
    ]
    await fill(
        store,
        [
            NewMemory(experience(kind, said), who, "one", 1000.0 + 86_400 * at, imported_by=who)
            for at, (who, kind, said) in enumerate(lines)
        ],
    )
    asked = Wanted("which puffin ports do we use in salt water")
    decision, question = await store.read(lambda tx: recalling.found(tx, asked, 2))
    assert (decision.more["event_type"], decision.asks) == ("decision", False)
    assert question.asks, "it is found all the same"
    gull = await store.read(lambda tx: recalling.found(tx, Wanted("gull rails"), 1))
    assert [one.more["summary"] for one in gull] == [lines[2][2]], "a sole hit is not hidden"
    await store.close()


@BOTH
async def test_filters_choose_before_anything_is_weighed(tmp_path: Path) -> None:
    store = await engines.open_store(tmp_path, SCHEMAS, clock=Clock())
    await fill(store, made(3, 60))
    for wanted in (
        Wanted("cache", agents=["Ann Lee"]),
        Wanted("", agents=["Ann Lee"]),
        Wanted("cache deploy", tags=["db", "ui"]),
        Wanted("", tags=["db"], agents=["CODEX"], event_types=["message"]),
    ):
        found = await store.read(lambda tx, wanted=wanted: recalling.found(tx, wanted, 50))
        assert found
        for one in found:
            assert not wanted.agents or one.more["agent_id"] in wanted.agents
            assert not wanted.tags or {*one.more["tags"]} & {*wanted.tags}
    assert await store.read(lambda tx: recalling.found(tx, Wanted("cache", event_types=["other"]), 5)) == []
    await store.close()


@BOTH
async def test_forgotten_is_told_nowhere(tmp_path: Path) -> None:
    store = await engines.open_store(tmp_path, SCHEMAS)
    memory = EpisodicMemory(store, sessions=Beats(), once=once)
    summary = "the flamingo password is swordfish"
    first = (await memory.remember(A, "note", summary, tags=["t"]))["memory_id"]
    await memory.remember(A, "note", "something else", tags=["t"])
    await store.write(lambda tx: forget(tx, A, first))
    for asked in ("flamingo", "flamingo password", ""):
        for tags in ([], ["t"]):
            assert "flamingo" not in str(await memory.recall(A, asked, tags=tags))
    # Neither at a new start, nor by what is indexed anew; and the same told again is another memory.
    await index_the_rest(store)
    assert await memory.recall(A, "flamingo") == []
    again = await memory.remember(A, "note", summary)
    assert again["memory_id"] != first and not again["merged"]
    assert [one["memory_id"] for one in await memory.recall(A, "flamingo")] == [again["memory_id"]]
    await store.close()


@BOTH
async def test_what_was_there_before_is_indexed_at_the_first_question(tmp_path: Path) -> None:
    store = await engines.open_store(tmp_path, SCHEMAS)
    memory = EpisodicMemory(store, sessions=Beats(), once=once)
    for number in range(5):
        await memory.remember(A, "fix", f"deploy script {number}", tags=["t"])
    before = await memory.recall(A, "deploy script 3")
    await store.close()
    # As the migration leaves a database of before: rows, and a list of what is in no index.
    numbers = "SELECT number FROM memory_episodic"
    prefix = "" if engines.current() == "sqlite" else "relay."
    engines.change(
        tmp_path, f"INSERT INTO {prefix}memory_unindexed {numbers.replace('memory', prefix + 'memory')}"
    )
    for table in ("memory_episodic_words", "memory_word_counts"):
        engines.change(tmp_path, f"DELETE FROM {prefix}{table}")
    if engines.current() == "sqlite":
        engines.change(
            tmp_path, "INSERT INTO memory_episodic_fts (memory_episodic_fts) VALUES ('delete-all')"
        )
    else:
        engines.change(tmp_path, "DELETE FROM relay.memory_episodic_fts")
    store = await engines.open_store(tmp_path, SCHEMAS)
    memory = EpisodicMemory(store, sessions=Beats(), once=once)
    after = await memory.recall(A, "deploy script 3")
    assert [one["memory_id"] for one in after] == [one["memory_id"] for one in before]
    assert after[0]["relevance"] == pytest.approx(before[0]["relevance"], rel=1e-3)
    assert await index_the_rest(store) == 0
    await store.close()
