"""Conflicts that git sees, on the log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from relay.app.wiring.conflicts.conflict_log import ConflictLog
from relay.app.wiring.conflicts.finding_log import FindingLog
from relay.log.events import Event, Lane
from relay.log.verify import verify
from relay.model.touches import Kind, Source, Touch
from relay.store.ports import Store
from relay.timeline import reading
from relay.timeline.conflicts import MAIN
from relay.timeline.file_changes import record_changes
from tests import engines
from tests.engines import BOTH, all_events

pytestmark = BOTH
PAIR, WITH_MAIN = ("AVA", "BEN"), ("AVA", MAIN)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await engines.open_store(tmp_path, engines.wings("log", "timeline"))
    yield opened
    assert await verify(opened) == []
    await opened.close()


def log_of(store: Store) -> ConflictLog:
    return ConflictLog(store, cast(Any, None), FindingLog(store))


async def write(store: Store, lane: Lane, path: str, worktree: str) -> Event:
    event = await store.write(
        lambda tx: record_changes(
            tx,
            lane,
            [Touch(path, None, "b", Kind.WRITE)],
            source=Source.TREE,
            before="t0",
            after="t1",
            worktree=worktree,
        )
    )
    assert event is not None
    return event


async def words(store: Store) -> list[tuple[str, str]]:
    found = await all_events(store, "conflict.found", "conflict.settled")
    return [(reading.author(event), reading.words(event)) for event in found]


async def test_a_conflict_is_found_once_and_again_after_it_was_gone(store: Store) -> None:
    conflicts = log_of(store)
    await conflicts.record({PAIR: ("a.py",)})
    await conflicts.record({PAIR: ("a.py",)})
    await conflicts.record({PAIR: None})  # git cannot tell just now
    await log_of(store).record({PAIR: ("a.py",)})  # another daemon
    assert len(await words(store)) == 1
    await conflicts.record({PAIR: ()})
    await conflicts.record({})
    again = log_of(store)
    await again.record({PAIR: ("a.py",)})
    await again.record({PAIR: ("a.py", "b.py")})
    await again.record({})  # they have no file in common any more
    assert (
        await words(store)
        == [
            ("AVA", "conflicts with BEN"),
            ("AVA", "does not conflict any more with BEN"),
        ]
        * 3
    )


async def test_it_names_the_lanes_and_the_writes(store: Store) -> None:
    first = await write(store, Lane("s1", "AVA"), "a.py", "AVA")
    await write(store, Lane("s2", "BEN"), "other.py", "BEN")
    second = await write(store, Lane("s2", "BEN"), "a.py", "BEN")
    person = await write(store, Lane("room", "human:Ann"), "a.py", MAIN)
    await log_of(store).record({PAIR: ("a.py",), WITH_MAIN: ("a.py",)})
    pair, with_main = await all_events(store, "conflict.found")
    assert pair.outputs == {
        "level": 1,
        "kind": "concurrent_modification",
        "sides": ["AVA", "BEN"],
        "paths": ["a.py"],
        "lanes": ["s1/AVA", "s2/BEN"],
        "events": [first.id, second.id],
    }
    assert pair.parents == (first.id, second.id)
    assert pair.file_touches == ("a.py",)
    assert with_main.outputs["lanes"] == ["s1/AVA", "room/human:Ann"]
    assert with_main.outputs["events"] == [first.id, person.id]
    assert (await words(store))[1] == ("AVA", "conflicts with the main branch")
    shown = await store.read(lambda tx: reading.page(tx, reading.Filter()))
    assert [event.type for event in shown[-2:]] == ["conflict.found"] * 2


async def test_one_without_recorded_writes_is_found_too(store: Store) -> None:
    await log_of(store).record({PAIR: ("a.py",)})
    (found,) = await all_events(store, "conflict.found")
    assert (found.outputs["lanes"], found.outputs["events"]) == (["AVA", "BEN"], [])
