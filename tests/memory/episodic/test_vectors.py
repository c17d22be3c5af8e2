"""Vectors of memories: over a real socket with a server that does what a test says, on both stores."""

from __future__ import annotations

import asyncio
import math
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.coordination.idempotency import once
from relay.memory.embedding import EmbeddingModel
from relay.memory.episodic import vectors
from relay.memory.episodic.memory import EpisodicMemory
from relay.memory.episodic.vectors import Vectors
from relay.memory.ranking.nearest import NearestVectors, joined
from relay.model import Caller
from relay.store.ports import Store
from tests import engines
from tests.coordination.standins import Beats
from tests.engines import BOTH
from tests.fakes.ollama import FakeOllama, Mode, running

A = Caller("CLAUDE", "s1")
MODEL = "all-minilm"


@pytest.fixture
async def store(engine: str, tmp_path: Path) -> AsyncIterator[Store]:
    with engines.on_engine(engine):
        store = await engines.open_store(
            tmp_path, engines.wings("log", "coordination", "memory", "knowledge")
        )
        yield store
        await store.close()


@pytest.fixture
async def ollama() -> AsyncIterator[FakeOllama]:
    async with running((f"{MODEL}:latest",)) as fake:
        fake.meanings = {"heron": 1, "bird": 1, "clock": 2, "time": 2}
        yield fake


class Room:
    def __init__(self, store: Store, ollama: FakeOllama) -> None:
        self.store, self.model = store, EmbeddingModel(ollama.url, MODEL)
        self.vectors = Vectors(store, lambda: self.model)
        self.memory = EpisodicMemory(store, sessions=Beats(), once=once, vectors=self.vectors)
        self.by_words = EpisodicMemory(store, sessions=Beats(), once=once)

    async def remember(self, *summaries: str, **more: Any) -> None:
        for summary in summaries:
            await self.memory.remember(A, "note", summary, **more)

    async def recalled(self, text: str, **more: Any) -> list[str]:
        found = await self.memory.recall(A, text, **more)
        relevances = [each["relevance"] for each in found]
        assert relevances == sorted(relevances, reverse=True) and all(0 < r <= 1 for r in relevances)
        return [each["summary"] for each in found]


@pytest.fixture
def room(store: Store, ollama: FakeOllama, monkeypatch: pytest.MonkeyPatch) -> Room:
    monkeypatch.setattr(vectors, "QUESTION_S", 30.0)  # this machine may be busy
    return Room(store, ollama)


@BOTH
async def test_what_is_meant_is_found_too(room: Room) -> None:
    await room.remember("the heron nests early", "never mock the clock", "lunch is at noon")
    assert await room.recalled("which bird") == []
    assert await room.vectors.make(room.model)
    assert (await room.recalled("which bird"))[0] == "the heron nests early"
    assert (await room.recalled("time"))[0] == "never mock the clock"
    # What both find comes before what one finds.
    await room.remember("a bird is seen")
    assert await room.vectors.make(room.model)
    assert (await room.recalled("bird"))[0] == "a bird is seen"


@BOTH
async def test_conditions_and_forgetting_hold(room: Room) -> None:
    await room.remember("the heron nests early", tags=["fauna"])
    await room.remember("a heron flies", tags=["sky"])
    assert await room.vectors.make(room.model)
    assert await room.recalled("bird", tags=["sky"]) == ["a heron flies"]
    assert await room.recalled("bird", agents=["CODEX"]) == []
    shown = await room.memory.recall(A, "bird", tags=["sky"])
    await room.memory.forget(A, shown[0]["memory_id"])
    assert await room.recalled("bird") == ["the heron nests early"]


@BOTH
async def test_the_background_makes_them(room: Room) -> None:
    await room.remember("the heron nests early")
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        background = tasks.create_task(room.vectors.run())
        await until(lambda: room.recalled("bird"), 1)
        await room.remember("another heron")
        await until(lambda: room.recalled("bird"), 2)
        background.cancel()


async def until(recalled: Callable[[], Awaitable[list[str]]], count: int) -> None:
    while len(await recalled()) < count:  # noqa: ASYNC110 (what it waits for is what a recall says)
        await asyncio.sleep(0.02)


async def about(memory: EpisodicMemory, text: str) -> list[Any]:
    """What a recall says; to the last digit of its relevance the same, if it were of the same second."""
    said = await memory.recall(A, text)
    return [{**each, "relevance": pytest.approx(each["relevance"], abs=1e-4)} for each in said]


@pytest.mark.parametrize(
    "mode", [Mode.HANG, Mode.ERROR, Mode.MISSING_MODEL, Mode.NOT_JSON, Mode.EMPTY, Mode.BUSY]
)
@BOTH
async def test_a_server_that_gives_none_changes_nothing(
    room: Room, ollama: FakeOllama, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    await room.remember("the heron nests early", "a bird is seen", "lunch is at noon")
    assert await room.vectors.make(room.model)
    ollama.mode = mode
    monkeypatch.setattr(vectors, "QUESTION_S", 0.2)
    by_words = await about(room.by_words, "bird lunch")
    assert await room.memory.recall(A, "bird lunch") == by_words
    # It is not asked again at once.
    asked = len(ollama.requests)
    assert await room.memory.recall(A, "bird lunch") == by_words and len(ollama.requests) == asked
    if mode is not Mode.HANG:
        await room.remember("one more")
        assert not await room.vectors.make(room.model)


@BOTH
async def test_an_absent_server_changes_nothing(room: Room, ollama: FakeOllama) -> None:
    await ollama.stop()
    await room.remember("the heron nests early")
    assert not await room.vectors.make(room.model)
    assert await room.memory.recall(A, "heron") == await about(room.by_words, "heron")


@BOTH
async def test_a_forgotten_memory_has_no_vector(room: Room, ollama: FakeOllama) -> None:
    await room.remember("the heron nests early", "a heron flies", "a heron sleeps")
    assert await room.vectors.make(room.model)
    assert len(await room.vectors.near("bird")) == 3
    [shown] = await room.memory.recall(A, "flies", limit=1)
    await room.memory.forget(A, shown["memory_id"])
    # This process had read it; it is not among the nearest any more, nor is it kept.
    assert {each.number for each in await room.vectors.near("bird")} == {1, 3}
    assert (await vectors_of(room.store)).keys() == {1, 3}
    # What is forgotten while its vector is made has none either.
    await room.remember("a late heron")
    [late] = await room.memory.recall(A, "late", limit=1)
    ollama.mode, ollama.delay_s = Mode.LATE, 1.0
    async with asyncio.TaskGroup() as tasks:
        made = tasks.create_task(room.vectors.make(room.model))
        await room.memory.forget(A, late["memory_id"])
    assert made.result() and (await vectors_of(room.store)).keys() == {1, 3}


async def vectors_of(store: Store) -> dict[int, bytes]:
    rows = await store.read(lambda tx: tx.all(vectors.Q.vectors_after, model=MODEL, after=0, limit=100))
    return {row["number"]: bytes(row["vector"]) for row in rows}


@BOTH
async def test_a_text_that_the_model_refuses_keeps_nothing_back(room: Room, ollama: FakeOllama) -> None:
    ollama.refused = "unspeakable"
    await room.remember("an unspeakable heron", "a heron flies")
    assert await room.vectors.make(room.model)
    assert await room.recalled("bird") == ["a heron flies"]
    assert await vectors_of(room.store) == {1: b"", 2: (await vectors_of(room.store))[2]}


@BOTH
async def test_feedback_counts_among_what_is_near(room: Room) -> None:
    await room.remember("the heron nests early", "the heron nests late")
    assert await room.vectors.make(room.model)
    first, second = await room.memory.recall(A, "bird")
    await room.memory.feedback(A, second["memory_id"], True)
    assert (await room.recalled("bird"))[0] == second["summary"] != first["summary"]


@BOTH
async def test_another_model_begins_anew(room: Room, ollama: FakeOllama) -> None:
    await room.remember("the heron nests early")
    assert await room.vectors.make(room.model)
    assert await room.recalled("bird") == ["the heron nests early"]
    ollama.models = (*ollama.models, "other:latest")
    room.model = EmbeddingModel(ollama.url, "other")
    assert await room.recalled("bird") == []
    assert await room.vectors.make(room.model)
    assert await room.recalled("bird") == ["the heron nests early"]


@BOTH
async def test_without_a_model_nobody_is_asked(room: Room, ollama: FakeOllama) -> None:
    room.model = EmbeddingModel(ollama.url, "")
    await room.remember("the heron nests early")
    assert await room.recalled("heron") == ["the heron nests early"]
    assert ollama.requests == []


numbers = st.lists(st.integers(1, 60), unique=True, max_size=30)


@given(numbers, numbers)
def test_what_both_found_is_there_once(words: list[int], near: list[int]) -> None:
    both = joined(words, near)
    assert sorted(both) == sorted({*words, *near})
    if words and near and words[0] == near[0]:
        assert both[0] == words[0]


@given(numbers)
def test_what_one_found_keeps_its_order(words: list[int]) -> None:
    assert joined(words, []) == joined([], words) == words


def test_near_is_what_stands_out() -> None:
    """Whatever the usual likeness of a model is: what is as near as everything is near to nothing."""

    def vector(*values: float) -> bytes:
        return struct.pack("<2f", *(value / math.hypot(*values) for value in values))

    vectors = NearestVectors(8)
    vectors.add((number, vector(1.0, 1.0 + number / 100_000)) for number in range(1, 2001))
    vectors.add([(5000, b""), (5001, vector(1.0, 0.0)), (5002, vector(1.0, 0.01))])
    assert vectors.best(vector(0.0, 1.0), 5) == []
    assert [near.number for near in vectors.best(vector(1.0, 0.0), 5)] == [5001, 5002]
    vectors.drop({5001})
    assert [near.number for near in vectors.best(vector(1.0, 0.0), 5)] == [5002]
    assert vectors.best(b"1234", 5) == NearestVectors(8).best(vector(1.0, 0.0), 5) == []
