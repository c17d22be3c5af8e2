"""What a forgotten decision had ended holds again, unless something else ends it; and so after a rebuild."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.log import events
from relay.log.events import Event, Lane, NewEvent
from relay.log.verify import verify
from relay.memory.knowledge import ingest
from relay.memory.knowledge.ingest import KnowledgeFollower, rebuild, take_in_now
from relay.store.ports import Store
from tests import engines
from tests.engines import BOTH
from tests.memory.knowledge.room import SCHEMAS, ask, recorded, rows, said

pytestmark = BOTH
A, B, C = "use PostgreSQL", "use MySQL instead of PostgreSQL", "use Oracle instead of MySQL"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = await engines.open_store(tmp_path, SCHEMAS)
    yield store
    assert await verify(store) == []
    await store.close()


async def decided(store: Store, *decisions: str) -> list[Event]:
    return [(await recorded(store, said("ann", f"DECISION: {text}", kind="human")))[0] for text in decisions]


async def forgotten(store: Store, *gone: Event) -> None:
    id = gone[0].id[:8]
    memory = {"id": id, "number": 1, "event_ids": [event.id for event in gone]}
    lane = Lane("room", f"memory:{id}", short=True)
    await recorded(store, NewEvent("memory.forgotten", lane, outputs={"memory": memory}))


async def holding(store: Store) -> set[str]:
    """What holds; and a rebuild makes the same rows."""
    before = await rows(store)
    await rebuild(store)
    assert await rows(store) == before
    return {entry["content"] for entry in await ask(store, "BETA", limit=50) if entry["is_valid"]}


async def test_what_it_had_ended_holds_again(store: Store) -> None:
    _, second = await decided(store, A, B)
    assert await holding(store) == {B}
    await forgotten(store, second)
    assert await holding(store) == {A}
    [entry] = await ask(store, "BETA", about="PostgreSQL")
    assert (entry["is_valid"], entry["valid_to"], entry["referenced_by"]) == (True, None, [])


@pytest.mark.parametrize(
    ("decisions", "gone", "expected"),
    [
        # Another ends it too: by its words, by a negation, or by name, though it was closed by then.
        ((A, B, "use SQLite instead of PostgreSQL"), [1], {"use SQLite instead of PostgreSQL"}),
        ((A, B, "never use PostgreSQL"), [1], {"never use PostgreSQL"}),
        ((A, B, 'use files (supersedes {0})'), [1], {"use files"}),
        # The same said twice, and both forgotten: at once, and one by one.
        ((A, B, B), [1], {B}),
        ((A, B, B), [[1, 2]], {A}),
        ((A, B, B), [1, 2], {A}),
        # What was superseded itself leaves what it had superseded to that.
        ((A, B, C), [1], {C}),
        ((A, B, C), [1, 2], {A}),
        ((A, B, C), [2, 1], {A}),
        ((A, B, C), [[1, 2]], {A}),
        # But who only speaks against it has chosen nothing.
        ((A, B, "never use MySQL"), [1], {A, "never use MySQL"}),
        # What was forgotten before does not come again.
        ((A, B), [0, 1], set()),
        # About something else.
        ((A, B, "use tabs instead of spaces"), [2], {B}),
    ],
)  # fmt: skip
async def test_unless_something_else_ends_it(
    store: Store, decisions: tuple[str, ...], gone: list[int | list[int]], expected: set[str]
) -> None:
    made: list[Event] = []
    for text in decisions:
        first = (await ask(store, "BETA", limit=50))[-1]["id"] if made else ""
        made += await decided(store, text.format(first))
    for at in gone:
        await forgotten(store, *(made[each] for each in (at if isinstance(at, list) else [at])))
    assert await holding(store) == expected


async def test_a_lesser_word_ends_nothing_then_either(store: Store) -> None:
    _, second = await decided(store, A, B)
    await recorded(store, said("CODEX", "DECISION: never use PostgreSQL"))
    await forgotten(store, second)
    assert await holding(store) == {A, "never use PostgreSQL"}


async def test_what_the_follower_has_not_come_to_is_taken_in_at_once_unless_it_is_much(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "MOST_AT_ONCE", 2)
    for at in range(3):
        await store.write(lambda tx, at=at: events.append(tx, said("A", f"FACT: heron {at}")))  # type: ignore[misc]
    assert await store.write(take_in_now) is False
    assert await ask(store, "BETA") == []
    monkeypatch.setattr(ingest, "MOST_AT_ONCE", 3)
    assert await store.write(take_in_now) is True
    assert len(await ask(store, "BETA")) == 3
    cursor = await store.read(lambda tx: tx.one(events.Q.follower, name=KnowledgeFollower.name))
    assert cursor is not None and cursor["pos"] == await store.read(events.last_pos)
