"""What the local model finds is recorded once, marked, and off by default: a real client, a fake server."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from relay.app.wiring.memory.knowledge import BY_MODEL, RoomKnowledge
from relay.config import loading
from relay.config.memory import MemorySettings
from relay.config.settings import LiveSettings
from relay.log import events
from relay.memory.episodic.forgetting import forget
from relay.memory.episodic.keeping import keep
from relay.memory.knowledge.entry import Kind
from relay.memory.knowledge.ingest import rebuild
from relay.memory.knowledge.model_extractor import read
from relay.memory.observed import observed
from relay.model import Caller
from relay.store.ports import Store, Tx
from tests import engines
from tests.engines import BOTH, all_events
from tests.fakes.ollama import FakeOllama, Mode
from tests.memory.knowledge.room import ask, rows, said
from tests.outside import eventually

SCHEMAS = engines.wings("log", "memory", "knowledge")
LONG = "After a long look at both of them we go with PostgreSQL for the store."


@pytest.fixture
async def ollama() -> AsyncIterator[FakeOllama]:
    fake = FakeOllama()
    await fake.start()
    yield fake
    await fake.stop()


@pytest.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    monkeypatch.setattr("relay.memory.knowledge.model_extractor.WITHIN_S", 600.0)  # on a busy machine
    store = await engines.open_store(tmp_path, SCHEMAS)
    yield store
    await store.close()


def finds(request: dict[str, Any]) -> dict[str, Any]:
    text = json.loads(request["messages"][-1]["content"])["message"]
    return {"found": [{"kind": "decision", "content": f"take it: {text[-30:]}"}]}


def settings_of(folder: Path, fake: FakeOllama, *, on: bool) -> LiveSettings:
    config = {
        "agents": [],
        "memory": {"llm_extract": on},
        "dispatcher": {"ollama_host": fake.url, "model": "llama3.2:latest"},
    }
    return LiveSettings(loading.parse(json.dumps(config), folder / "config.json"))


@contextlib.asynccontextmanager
async def reading(store: Store, settings: LiveSettings) -> AsyncIterator[RoomKnowledge]:
    knowledge = RoomKnowledge(store, settings)
    await knowledge.apply()
    tasks = [asyncio.create_task(knowledge.run()), asyncio.create_task(knowledge.read_with_model())]
    try:
        yield knowledge
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def post(store: Store, *bodies: str) -> int:
    """Gives the place of the last one in the log."""
    for body in bodies:
        made = await store.write(lambda tx, body=body: events.append(tx, said("CODEX", body)))  # type: ignore[misc]
    return int(made.pos)


async def read_up_to(store: Store, pos: int) -> None:
    async def read_all() -> bool:
        return await store.read(lambda tx: events.setting(tx, BY_MODEL)) == str(pos)

    await eventually(read_all, "all was read")


@BOTH
async def test_what_a_model_finds_is_marked(store: Store, tmp_path: Path, ollama: FakeOllama) -> None:
    ollama.decide = finds
    await post(store, f"{LONG} That was said before it was on.")
    async with reading(store, settings_of(tmp_path, ollama, on=True)):
        last = await post(
            store,
            f"> somebody else said it\n[MEMORY] r1: an old one, which was given\n{LONG}",
            "DECISION (private): a line of a form, so no model is asked about it",
            "short",
            f"/decide {LONG}",
            f"> {LONG}",
        )
        await read_up_to(store, last)
        [request] = ollama.requests
        assert json.loads(request["messages"][-1]["content"]) == {"message": LONG}
        [recorded] = await all_events(store, "knowledge.recorded")

        async def known() -> list[dict[str, Any]]:
            return await ask(store, "ann", about="PostgreSQL")

        [entry] = await eventually(known, "the follower takes it in")
        assert (entry["extracted_by"], entry["source_agent"]) == ("llm", "CODEX")
        assert entry["confidence"] < 0.95 and entry["source_event"] == recorded.id
        before = await rows(store)
        await rebuild(store)
        assert (await rows(store), len(ollama.requests)) == (before, 1), "a rebuild asks no model again"


@BOTH
async def test_what_it_found_in_what_was_forgotten_is_told_to_nobody(
    store: Store, tmp_path: Path, ollama: FakeOllama
) -> None:
    ollama.decide = finds
    settings = settings_of(tmp_path, ollama, on=True)
    author = Caller("CODEX", "s1")

    async def remembered(pos: int) -> str:
        async def work(tx: Tx) -> str:
            [event] = await events.read_after(tx, pos - 1, types=("message.posted",), limit=1)
            new = observed(event)
            assert new is not None
            return (await keep(tx, new)).id

        return await store.write(work)

    async with reading(store, settings):
        pos = await post(store, LONG)
        await read_up_to(store, pos)
        id = await remembered(pos)
        await eventually(lambda: ask(store, "ann"), "the follower takes it in")
        await store.write(lambda tx: forget(tx, author, id))

        async def told_to_nobody() -> bool:
            return await ask(store, "ann") == await ask(store, "CODEX") == []

        await eventually(told_to_nobody, "it is forgotten")
    # Forgotten before the model came to it.
    later = await post(store, f"{LONG} Said later.")
    again = await remembered(later)
    await store.write(lambda tx: forget(tx, author, again))
    async with reading(store, settings):
        await read_up_to(store, later)
    assert (len(ollama.requests), len(await all_events(store, "knowledge.recorded"))) == (2, 1)


@BOTH
async def test_it_is_off_and_does_not_make_up_for_it(
    store: Store, tmp_path: Path, ollama: FakeOllama
) -> None:
    ollama.decide = finds
    assert MemorySettings().llm_extract is False
    off, on = (settings_of(tmp_path, ollama, on=on) for on in (False, True))
    async with reading(store, off) as knowledge:
        last = await post(store, f"{LONG} Said while it was off.")
        off.current = on.current
        await knowledge.apply()
        assert await store.read(lambda tx: events.setting(tx, BY_MODEL)) == str(last)
        await read_up_to(store, await post(store, f"{LONG} Said while it was on."))
    assert len(ollama.requests) == len(await all_events(store, "knowledge.recorded")) == 1
    assert "while it was on" in ollama.requests[0]["messages"][-1]["content"]


@BOTH
async def test_a_server_that_fails_holds_nothing_up(store: Store, tmp_path: Path, ollama: FakeOllama) -> None:
    ollama.mode = Mode.ERROR
    async with reading(store, settings_of(tmp_path, ollama, on=True)):
        await read_up_to(store, await post(store, *(f"{LONG} {at}" for at in range(3))))
        assert await all_events(store, "knowledge.recorded") == []


@pytest.mark.parametrize(
    ("content", "count"),
    [
        ('{"found": [{"kind": "fact", "content": " in src/a.py "}]}', 1),
        ('{"found": [{"kind": "rumour", "content": "x"}, {"kind": "fact", "content": 7}, 5]}', 0),
        (json.dumps({"found": [{"kind": "fact", "content": "x"}] * 9}), 5),
        ('{"found": {}}', 0),
        ("[]", 0),
        ("no", 0),
    ],
)
def test_an_answer_is_checked(content: str, count: int) -> None:
    found = read(content)
    assert len(found) == count
    assert not found or found[0].kind is Kind.FACT
