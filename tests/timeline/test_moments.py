"""What a text means as a moment of the timeline."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import pytest

from relay.base.durations import iso
from relay.log import events
from relay.log.events import Event, Lane, NewEvent
from relay.model import Fault, Refusal
from relay.store.ports import Store
from relay.timeline.checkpoints import CheckpointKind, make_checkpoint
from relay.timeline.moment_forms import is_taken, time_of
from relay.timeline.moments import Moment, resolve
from tests import engines
from tests.engines import BOTH

pytestmark = BOTH
NOW = datetime(2026, 11, 23, 15, 30).timestamp()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await engines.open_store(tmp_path, engines.wings("log", "timeline"))
    yield opened
    await opened.close()


async def put(store: Store, at: float) -> Event:
    return await store.write(lambda tx: events.append(tx, NewEvent("note", Lane("s", "A"), at=iso(at))))


async def means(store: Store, text: str) -> Moment:
    return await store.read(lambda tx: resolve(tx, text, NOW))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-1h", NOW - 3600),
        ("- 90 min", NOW - 5400),
        ("-1h30m", NOW - 5400),
        ("14:00", datetime(2026, 11, 23, 14).timestamp()),
        ("23:15:10", datetime(2026, 11, 22, 23, 15, 10).timestamp()),
        ("2026-11-23", datetime(2026, 11, 23).timestamp()),
        ("2026-11-23 14:00", datetime(2026, 11, 23, 14).timestamp()),
        ("2026-11-23T14:00:00Z", 1795442400.0),
        ("2026-13-40", None),
        ("abc", None),
        ("25:00", None),
        ("-", None),
        ("1h", None),
    ],
)
def test_what_is_a_time(text: str, expected: float | None) -> None:
    assert time_of(text, NOW) == expected


async def test_a_time_is_behind_the_last_event_before_it(store: Store) -> None:
    made = [await put(store, NOW - 600 + 60 * number) for number in range(9)]
    for text, place in (("-10m", 0), ("-9m", 1), ("-30s", 8), ("-2m30s", 7)):
        found = await means(store, text)
        assert (found.pos, found.event) == (made[place].pos, made[place].id), text
    assert (await means(store, "Now")).pos == (await store.read(events.last_pos))
    assert is_taken("now")  # so no checkpoint is called so
    assert (await means(store, "-1d")).event is None
    assert (await means(store, "-1d")).pos == 0
    with pytest.raises(Refusal, match="still to come"):
        await means(store, "2027-01-01")


async def test_an_event_by_number_and_by_its_first_digits(store: Store) -> None:
    made = [await put(store, NOW - 60) for _ in range(3)]
    for text in (
        f"#{made[1].pos}",
        str(made[1].pos),
        made[1].id,
        made[1].id[:10],
        f" {made[1].id[:12].upper()} ",
    ):
        assert (await means(store, text)).event == made[1].id


async def test_what_is_unknown_or_of_no_form_is_refused(store: Store) -> None:
    await put(store, NOW - 60)
    for text, fault in (
        ("#999", Fault.UNKNOWN),
        ("0" * 12 + "ab", Fault.UNKNOWN),
        ("milestone", Fault.UNKNOWN),
        ("milestone~1", Fault.UNKNOWN),
        ("abc", Fault.UNKNOWN),
        ("", Fault.MALFORMED),
        ("~1", Fault.MALFORMED),
        ("a~b", Fault.MALFORMED),
        ("2026-13-40", Fault.MALFORMED),
        ("12:99", Fault.MALFORMED),
        ("25:00:00", Fault.MALFORMED),
        ("9999999h", Fault.MALFORMED),
        ("1h30m", Fault.MALFORMED),
        ("-9999999h", Fault.MALFORMED),
        ("-99999999999w", Fault.MALFORMED),
        ("#x", Fault.MALFORMED),
        ("a\x00b", Fault.MALFORMED),
        ("x" * 101, Fault.MALFORMED),
    ):
        with pytest.raises(Refusal) as refused:
            await means(store, text)
        assert refused.value.fault is fault, text
        assert refused.value.fix


async def marked(store: Store, name: str, tree: str) -> Event:
    kind = CheckpointKind.MILESTONE
    return await store.write(lambda tx: make_checkpoint(tx, Lane("s", "A"), name, tree, kind))


async def test_a_checkpoint_by_its_name_and_those_before_it(store: Store) -> None:
    name, trees = "milestone:first green", ["a1" * 20, "a2" * 20, "b3" * 20]
    made = [await marked(store, name, tree) for tree in trees]
    await put(store, NOW - 60)
    for text, number in ((name, 2), (f"{name}~0", 2), (f"{name}~1", 1), (f" {name}~2 ", 0)):
        found = await means(store, text)
        assert (found.pos, found.event, found.tree) == (made[number].pos, made[number].id, trees[number])
    with pytest.raises(Refusal, match="not that many") as refused:
        await means(store, f"{name}~3")
    assert refused.value.details["candidates"] == [name]
    with pytest.raises(Refusal) as refused:
        await means(store, "green")
    assert refused.value.details["candidates"] == [name]
    assert name in refused.value.fix


async def test_a_snapshot_by_its_first_digits(store: Store) -> None:
    trees = ["abcdef1234" + "0" * 30, "abcdef1299" + "0" * 30]
    made = [await marked(store, "x", tree) for tree in (*trees, trees[0])]
    for text in (trees[0], trees[0][:10], trees[0][:9].upper() + "4"):
        found = await means(store, text)
        assert (found.pos, found.tree) == (made[2].pos, trees[0]), "where it stood last"
    with pytest.raises(Refusal) as refused:
        await means(store, trees[0][:8])
    assert len(refused.value.details["candidates"]) == 2
    assert refused.value.fix == "Give more digits."


async def test_the_beginning_of_several_is_refused_with_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await put(store, NOW - 60)
    engines_ids = [f"{made.id[:9]}{digit}" + "0" * 54 for digit in "12"]
    for number, name in enumerate(engines_ids):
        monkeypatch.setattr(events, "event_id", lambda row, name=name: name)
        await put(store, NOW - 50 + number)
    with pytest.raises(Refusal) as refused:
        await means(store, made.id[:8])
    assert len(refused.value.details["candidates"]) == 3
    assert refused.value.fix == "Give more digits."
