from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.log.verify import verify
from relay.memory.episodic import recalling
from relay.memory.episodic.forgetting import FORGOTTEN, Forgotten, forget
from relay.memory.episodic.keeping import REMEMBERED, NewMemory, keep
from relay.memory.episodic.recalling import Wanted
from relay.memory.experience import Experience
from relay.memory.knowledge.entry import entry_id
from relay.memory.knowledge.forgetting import ENTRY_FORGOTTEN
from relay.memory.knowledge.ingest import BATCH, rebuild, take_in
from relay.model import Caller, Fault, Refusal
from relay.store.ports import Store
from tests import engines
from tests.engines import BOTH, all_events
from tests.memory.knowledge.room import ask, recorded, rows, said

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
    done = await store.write(lambda tx: forget(tx, AUTHOR, first))
    assert (done.number, done.content) == (1, "never mock the clock")
    remembered = [event.id for event in await all_events(store, REMEMBERED)]
    assert done.event_id == remembered[0], "where it was said"
    assert await summaries(store, "mock") == ["mock the queue"]
    assert (await store.write(lambda tx: forget(tx, ANN, "r2"))).number == 2
    assert await summaries(store, "mock") == []
    assert await summaries(store, "") == []
    assert await store.write(lambda tx: forget(tx, ANN, second)) == Forgotten(2)
    assert await store.write(lambda tx: forget(tx, AUTHOR, second)) == Forgotten(2)
    for name in (second, "r2"):
        with pytest.raises(Refusal) as refused:
            await store.write(lambda tx, name=name: forget(tx, OTHER, name))  # type: ignore[misc]
        assert (refused.value.code, refused.value.message) == (
            "unknown_memory",
            f"There is no memory {name}.",
        )
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


async def forgotten(store: Store, caller: Caller, name: str) -> Forgotten:
    done = await store.write(lambda tx: forget(tx, caller, name))
    await take_in(store, batch=BATCH)
    return done


async def test_an_entry_is_forgotten_alone_where_its_event_is_no_memory(store: Store) -> None:
    """By its author or a person, of what they may read; told by no question, in no count and no relation; a rebuild
    makes the same rows."""
    said_both = "FACT: the zebra eats at night\nDECISION (private): hide the okapi"
    (event,) = await recorded(store, said("CLAUDE", said_both))
    named = entry_id(event.id, 0)[:9]
    await recorded(store, said("CODEX", f"SOLUTION: a lamp (derived from {named})"))
    night, okapi = sorted(
        await ask(store, "CLAUDE", agent="CLAUDE"), key=lambda each: each["knowledge_type"]
    )[::-1]
    assert (await ask(store, "CODEX", agent="CODEX"))[0]["references"]
    for caller, name, code in (
        (OTHER, night["id"], "not_yours"),
        (OTHER, okapi["id"], "unknown_memory"),
        (ANN, okapi["id"], "unknown_memory"),
        (ANN, "k" + "0" * 24, "unknown_memory"),
        (ANN, "k" + "0" * 8, "unknown_memory"),
    ):
        with pytest.raises(Refusal) as refused:
            await store.write(lambda tx, caller=caller, name=name: forget(tx, caller, name))  # type: ignore[misc]
        assert refused.value.code == code
    assert await forgotten(store, ANN, night["id"][:9].upper()) == Forgotten(
        None, night["id"], "the zebra eats at night", event.id
    )
    assert [each["id"] for each in await ask(store, "CLAUDE", agent="CLAUDE")] == [okapi["id"]], "it alone"
    for who in ("CLAUDE", "CODEX", "ann"):
        for question in ({}, {"about": "zebra"}, {"kind": "fact"}, {"agent": "CLAUDE"}):
            assert "zebra" not in str(await ask(store, who, **question))
        with pytest.raises(Refusal):
            await ask(store, who, near=night["id"])
    [lamp] = await ask(store, "CODEX", agent="CODEX")
    assert lamp["references"] == []
    assert await forgotten(store, ANN, night["id"]) == Forgotten(None, night["id"]), (
        "what it said is not told"
    )
    assert (await forgotten(store, AUTHOR, okapi["id"])).content == "hide the okapi"
    assert await ask(store, "CLAUDE", agent="CLAUDE") == []
    assert len(await all_events(store, ENTRY_FORGOTTEN)) == 2
    after = await rows(store)
    assert len(after["entries"]) == 3, "the rows stay"
    assert not any("zebra" in row or "okapi" in row for table in ("words", "files") for row in after[table])
    assert await rebuild(store) == 3
    assert await rows(store) == after


async def test_an_entry_is_forgotten_with_the_memory_of_its_event(store: Store) -> None:
    (event,) = await recorded(store, said("CLAUDE", "DECISION: the flamingo sleeps"))
    new = NewMemory(Experience("decision", "the flamingo sleeps"), "CLAUDE", "a1", 1000.0, event_id=event.id)
    await store.write(lambda tx: keep(tx, new))
    [entry] = await ask(store, "CLAUDE")
    done = await forgotten(store, AUTHOR, entry["id"])
    assert done == Forgotten(1, entry["id"], "the flamingo sleeps", event.id)
    assert done.names == [entry["id"], "r1"]
    assert await summaries(store, "flamingo") == [] and await ask(store, "CLAUDE") == []
