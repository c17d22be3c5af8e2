"""Checkpoints: made, found by their names, rebuilt."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.log.events import Event, Lane
from relay.model import Fault, Refusal
from relay.store.ports import Store
from relay.timeline import checkpoints
from relay.timeline.checkpoints import FIRST_GREEN, CheckpointKind, checked_name, make_checkpoint
from tests import engines
from tests.engines import BOTH, all_events, check_log

pytestmark = BOTH
ANN, DEVELOPER = Lane("room", "human:ANN"), Lane("s1", "CODEX")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await engines.open_store(tmp_path, engines.wings("log", "timeline"))
    yield opened
    await opened.close()


def tree(digit: str) -> str:
    return digit * 40


async def made(
    store: Store, name: str, digit: str, kind: CheckpointKind = CheckpointKind.USER, **more: object
) -> Event:
    return await store.write(lambda tx: make_checkpoint(tx, ANN, name, tree(digit), kind, more))


async def test_the_newest_of_a_name_counts_and_the_ones_before_are_reached(store: Store) -> None:
    first = await made(store, "before the storm", "1")
    await made(store, "another", "2")
    second = await made(store, "before  the storm ", "3")
    found = await store.read(lambda tx: checkpoints.find(tx, "before the storm"))
    assert found is not None
    assert (found.event, found.tree, found.lane) == (second.id, tree("3"), ANN.key)
    found = await store.read(lambda tx: checkpoints.find(tx, "before the storm", 1))
    assert found is not None
    assert found.event == first.id
    assert await store.read(lambda tx: checkpoints.find(tx, "before the storm", 2)) is None
    assert await store.read(lambda tx: checkpoints.find(tx, "nobody's")) is None
    names = [each.name for each in await store.read(checkpoints.newest)]
    assert names == ["before the storm", "another", "before the storm"]


async def test_its_event_says_all_of_it(store: Store) -> None:
    name = "handoff:architect->developer"
    event = await made(store, name, "4", CheckpointKind.HANDOFF, passed=True)
    assert (event.type, event.snapshot) == ("checkpoint.made", tree("4"))
    assert event.outputs == {"name": name, "kind": "handoff", "metadata": {"passed": True}, "commit": None}
    found = await store.read(lambda tx: checkpoints.find(tx, name))
    assert found is not None
    assert found.as_json() == {
        "name": name,
        "number": event.pos,
        "event": event.id,
        "lane": ANN.key,
        "at": event.at,
        "tree": tree("4"),
        "commit": None,
        "kind": "handoff",
        "metadata": {"passed": True},
    }


async def test_the_first_green_is_made_once_in_the_room(store: Store) -> None:
    async def green(digit: str) -> Event | None:
        return await store.write(
            lambda tx: checkpoints.maybe_first_green(tx, tree(digit), DEVELOPER, rule="AllTestsPass")
        )

    first = await green("5")
    assert first is not None
    assert first.outputs["metadata"] == {"rule": "AllTestsPass"}
    assert [await green(digit) for digit in "565"] == [None] * 3, "another tree is no milestone"
    found = await store.read(lambda tx: checkpoints.find(tx, FIRST_GREEN))
    assert found is not None
    assert (found.tree, found.kind) == (tree("5"), CheckpointKind.MILESTONE)
    assert await store.read(checkpoints.trees) == {tree("5")}


async def test_a_first_green_from_before_counts(store: Store) -> None:
    """One that was made when each tree had one has no key."""
    await made(store, FIRST_GREEN, "5", CheckpointKind.MILESTONE, rule="AllTestsPass")
    again = checkpoints.maybe_first_green
    assert await store.write(lambda tx: again(tx, tree("6"), DEVELOPER, rule="AllTestsPass")) is None


async def test_rebuilt_rows_are_equal_row_by_row(store: Store) -> None:
    for number in range(5):
        await made(store, f"step {number % 2}", str(number), count=number)
    kept = await store.read(checkpoints.newest)
    assert await checkpoints.rebuild(store) == 5
    assert await store.read(checkpoints.newest) == kept
    await check_log(store)


async def test_a_name_that_could_be_another_moment_is_refused(store: Store) -> None:
    bad = ("", " ", "x" * 101, "a\x1b[0m", "14:00", "2026-11-23", "#12", "12", "deadbeef", "DEADBEEF01")
    for name in (*bad, "12:99", "9h", "-1h", "step~1", "handoff:a->b", "Milestone: x"):
        with pytest.raises(Refusal) as refused:
            await made(store, name, "7")
        assert (refused.value.fault, bool(refused.value.fix)) == (Fault.MALFORMED, True), name
    assert await all_events(store) == []
    assert checked_name("release 1.2: final") == "release 1.2: final"
    with pytest.raises(ValueError, match="tree"):
        await store.write(lambda tx: make_checkpoint(tx, ANN, "x", "HEAD", CheckpointKind.USER))
