from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.log.verify import verify
from relay.memory.episodic import recalling
from relay.memory.episodic.forgetting import FORGOTTEN, forget, forget_number
from relay.memory.episodic.keeping import NewMemory, keep
from relay.memory.episodic.recalling import Wanted
from relay.memory.experience import Experience
from relay.model import Caller, Fault, Refusal
from relay.store.ports import Store
from tests import engines
from tests.engines import BOTH, all_events

pytestmark = BOTH
SCHEMAS = engines.wings("log", "coordination", "memory", "knowledge")
AUTHOR, OTHER = Caller("CLAUDE", "a1"), Caller("CODEX", "b1")
ANN = Caller("ann", "room", person=True)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = await engines.open_store(tmp_path, SCHEMAS)
    yield store
    assert await verify(store) == []
    await store.close()


async def kept(store: Store, summary: str, key: str | None = None) -> str:
    new = NewMemory(Experience("lesson", summary), "CLAUDE", "a1", 1000.0, key=key, imported_by="ann")
    return (await store.write(lambda tx: keep(tx, new))).id


async def summaries(store: Store, text: str) -> list[str]:
    found = await store.read(lambda tx: recalling.found(tx, Wanted(text), 10))
    return [each.more["summary"] for each in found]


async def neighbours(store: Store) -> object:
    """What of the question only the neighbours of the memory that was mended have."""
    found = await store.read(lambda tx: recalling.found(tx, Wanted("flamingo mended"), 10))
    return next(each.why["neighbour"] for each in found if "mended" in each.content)


async def test_a_person_forgets_any_memory_and_an_agent_its_own(store: Store) -> None:
    first, second = await kept(store, "never mock the clock"), await kept(store, "mock the queue")
    with pytest.raises(Refusal) as refused:
        await store.write(lambda tx: forget(tx, OTHER, first))
    assert refused.value.code == "not_yours"
    assert await store.write(lambda tx: forget(tx, AUTHOR, first)) == 1
    assert await summaries(store, "mock") == ["mock the queue"]
    assert await store.write(lambda tx: forget_number(tx, ANN, 2)) == 2
    assert await summaries(store, "mock") == []
    assert await summaries(store, "") == []
    assert await store.write(lambda tx: forget(tx, ANN, second)) == 2
    assert len(await all_events(store, FORGOTTEN)) == 2


async def test_an_unknown_memory_is_unknown(store: Store) -> None:
    with pytest.raises(Refusal) as refused:
        await store.write(lambda tx: forget(tx, ANN, "nothing"))
    assert refused.value.fault is Fault.UNKNOWN


async def test_what_is_forgotten_is_nobodys_neighbour_and_its_key_stays_known(store: Store) -> None:
    id = await kept(store, "the flamingo broke", key="k1")
    await kept(store, "it was mended by hand")
    assert await neighbours(store) == ["flamingo"]
    await store.write(lambda tx: forget(tx, ANN, id))
    assert await neighbours(store) == []
    new = NewMemory(Experience("lesson", "the flamingo broke"), "CLAUDE", "a1", 1000.0, key="k1")
    assert (await store.write(lambda tx: keep(tx, new))).known
