"""What the room answers to a decision, and to its forgetting: what ends, and what holds again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.app.wiring.memory.room_commands import MemoryActions
from relay.log import follow
from relay.log.verify import verify
from relay.memory.knowledge import ingest
from relay.memory.knowledge.ingest import KnowledgeFollower, rebuild
from relay.store.ports import Store
from tests import engines
from tests.app.wiring.memory.test_room_memory import SCHEMAS
from tests.engines import BOTH, Clock
from tests.memory.knowledge.room import contents, rows
from tests.room.office import Office

pytestmark = BOTH


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(tmp_path: Path, clock: Clock) -> AsyncIterator[Store]:
    store = await engines.open_store(tmp_path, SCHEMAS, clock=clock)
    yield store
    assert await verify(store) == []
    await store.close()


@pytest.fixture
async def office(store: Store, clock: Clock) -> AsyncIterator[Office]:
    async with Office(store, clock, memory=MemoryActions(store)).at_work() as office:
        yield office


async def test_a_decision_says_what_it_ends_and_forgetting_it_what_holds_again(
    store: Store, office: Office
) -> None:
    first = (await office.ask("/decide never deploy on Friday because nobody is here")).body
    assert first == "Decided, and remembered as r1. `/forget r1` takes it back."
    second = (await office.ask("/decide deploy on Friday", by="bob")).body
    ends = "It ends r1 (ann: never deploy on Friday)."
    assert second == f"Decided, and remembered as r2. {ends} `/forget r2` takes it back."
    assert "(no longer holds: r2 replaced it)" in (await office.ask("/recall nobody")).body
    before = await rows(store)
    while (await follow.step(store, KnowledgeFollower())).applied:
        pass
    assert await rows(store) == before, "the follower comes to the same"
    forgotten = (await office.ask("/forget r2")).body
    again = "r1 (ann: never deploy on Friday) holds again."
    assert forgotten == f"r2 is forgotten: it is told to nobody any more. {again}"
    assert await contents(store, "BETA", about="deploy") == ["never deploy on Friday"]
    assert "no longer holds" not in (await office.ask("/recall nobody")).body
    before = await rows(store)
    await rebuild(store)
    assert await rows(store) == before


async def test_what_ends_is_named_on_one_line_and_a_few_of_many(store: Store, office: Office) -> None:
    for at in range(5):
        await office.post(f"DECISION (topic t{at}): use PostgreSQL\nFACT: nothing else")
    said = (await office.ask("/decide use MySQL instead of PostgreSQL")).body
    assert said.count("(ann: use PostgreSQL") == 3 and " and 2 more." in said
    assert "\n" not in said


async def test_while_the_knowledge_is_made_anew_the_answer_names_nothing(
    store: Store, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    await office.ask("/decide never deploy on Friday")
    monkeypatch.setattr(ingest, "MOST_AT_ONCE", 0)
    said = (await office.ask("/decide deploy on Friday")).body
    assert "It ends what it contradicts or replaces once the room has read its past anew." in said
