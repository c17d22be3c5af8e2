"""By whose word an older statement ends: a line that proves nobody ends nobody's, an agent's no person's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from relay.log.events import Lane, NewEvent
from relay.log.verify import verify
from relay.memory.knowledge.ingest import rebuild
from relay.memory.knowledge.service import KnowledgeGraph, found
from relay.model import Caller
from relay.store.ports import Store
from tests import engines
from tests.engines import BOTH
from tests.memory.knowledge.room import SCHEMAS, ask, contents, recorded, rows, said, unproven

pytestmark = BOTH
OLD, NEW = "use PostgreSQL for the events", "use Oracle for the events instead of PostgreSQL"


def person(name: str, body: str) -> NewEvent:
    return said(name, body, kind="human")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = await engines.open_store(tmp_path, SCHEMAS)
    yield store
    assert await verify(store) == []
    await store.close()


@pytest.mark.parametrize(
    ("older", "newer", "ends"),
    [
        (person, person, True),
        (said, person, True),
        (unproven, person, True),
        (said, said, True),
        (unproven, said, True),
        (unproven, unproven, True),
        (person, said, False),
        (person, unproven, False),
        (said, unproven, False),
    ],
)
async def test_who_ends_whose_statement(
    store: Store,
    older: Callable[[str, str], NewEvent],
    newer: Callable[[str, str], NewEvent],
    ends: bool,
) -> None:
    """By its words, by a negation, by name and by what it repeats; under the author's own name too."""
    await recorded(
        store,
        older("ann", f"DECISION: {OLD}"),
        older("ann", "CONSTRAINT: never mock the clock"),
        older("ann", "DECISION: deploy on Fridays"),
        older("ann", "DECISION: tabs are for tables"),
        older("ann", "PATTERN: names are short"),
    )
    id = (await ask(store, "BETA", about="Fridays"))[0]["id"]
    await recorded(
        store,
        newer("ann", f"DECISION: {NEW}"),
        newer("mallory", "CONSTRAINT: mock the clock"),
        newer("mallory", f"DECISION: deploy never (supersedes {id[:10]})"),
        newer("mallory", 'DECISION: spaces everywhere (supersedes "tabs are for tables")'),
        newer("mallory", "PATTERN: names are short"),
    )
    entries = {entry["content"]: entry for entry in await ask(store, "BETA", limit=50) if entry["references"]}
    old = [OLD, "never mock the clock", "deploy on Fridays", "tabs are for tables"]
    open_now = {each["content"] for each in await ask(store, "BETA", limit=50) if each["is_valid"]}
    assert set(old) & open_now == (set() if ends else set(old))
    relation = [each["references"][0]["relation"] for each in (entries[NEW], entries["mock the clock"])]
    assert relation == (["supersedes", "contradicts"] if ends else ["contradicts", "contradicts"])
    told = await store.read(lambda tx: found(tx, Caller("BETA", "b"), "which events store?", 9))
    assert {hit.content for hit in told} == ({NEW} if ends else {NEW, OLD})
    first = [each for each in await ask(store, "BETA", about="names short") if each["source_agent"] == "ann"]
    assert bool(first[0]["validated_at"]) is not (newer is unproven and older is not unproven)
    before = await rows(store)
    await rebuild(store)
    assert await rows(store) == before


async def test_a_person_decides_between_them(store: Store) -> None:
    await recorded(store, person("ann", f"DECISION: {OLD}"), said("CODEX", f"DECISION: {NEW}"))
    assert set(await contents(store, "BETA", about="events")) == {OLD, NEW}
    await recorded(store, person("bob", f"DECISION: {OLD} instead of Oracle"))
    answer = await KnowledgeGraph(store).knowledge(Caller("BETA", "b"), about="Oracle events")
    assert {entry["content"] for entry in answer["entries"] if entry["is_valid"]} == {
        OLD,
        f"{OLD} instead of Oracle",
    }


async def test_what_a_model_found_ends_no_persons_statement(store: Store) -> None:
    await recorded(store, person("ann", f"DECISION: {OLD}"), said("CODEX", "DECISION: use tabs"))
    for name, marks in (("llm", {}), ("forged", {"unverified": True})):
        made = {"agent": "ann", "extracted_by": "llm", **marks}
        new = [{"kind": "decision", "content": NEW, "alternatives": ["PostgreSQL"]}]
        new += [{"kind": "decision", "content": "never use tabs"}] if marks else []
        await recorded(
            store, NewEvent("knowledge.recorded", Lane("room", name), outputs={**made, "entries": new})
        )
    assert all(entry["is_valid"] for entry in await ask(store, "BETA", limit=9))
