"""Explorations as rows and events: all that is put there comes back, and each step is an event."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from relay.log.events import NewEvent, append
from relay.merge.exploration import journal
from relay.merge.exploration.config import of_task
from relay.merge.exploration.journal import Exploration, State, Status
from relay.merge.exploration.usage import Usage
from relay.model import Refusal
from relay.store.ports import Store
from tests import engines
from tests.engines import BOTH, all_events, check_log

pytestmark = BOTH
CONFIG = replace(of_task("cache it", 2, ["CLAUDE", "CODEX"]))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await engines.open_store(tmp_path, engines.wings("log", "exploration"))
    yield opened
    await opened.close()


async def ordered(store: Store) -> Exploration:
    return await store.write(lambda tx: journal.order(tx, CONFIG, ["CLAUDE", "CODEX"], asker="ANN"))


async def test_what_was_ordered_comes_back(store: Store) -> None:
    asked = await store.write(lambda tx: append(tx, NewEvent("message.posted", journal.lane_of(99))))
    made = await store.write(
        lambda tx: journal.order(tx, CONFIG, ["CLAUDE", "CODEX"], asker="ANN", cause=[asked.id])
    )
    assert made.name == "x1"
    assert await store.read(lambda tx: journal.load(tx, 1)) == made
    runs = await store.read(lambda tx: journal.variants_of(tx, 1))
    assert [(run.name, run.agent, run.status) for run in runs] == [
        ("claude", "CLAUDE", Status.WAITING),
        ("codex", "CODEX", Status.WAITING),
    ]
    (event,) = await all_events(store, journal.BEGUN)
    assert event.parents == (asked.id,)
    assert event.outputs["config"]["task"] == "cache it"
    assert (await ordered(store)).number == 2
    assert [each.number for each in await store.read(lambda tx: journal.newest(tx, 5))] == [2, 1]
    await check_log(store)


async def test_a_variant_that_has_ended_is_a_row_and_an_event(store: Store) -> None:
    made = await ordered(store)
    run = (await store.read(lambda tx: journal.variants_of(tx, 1)))[0]
    ended = replace(
        run,
        branch="tw/ann/x1-claude",
        status=Status.BUDGET_EXCEEDED,
        detail="max_cost_usd",
        attempt=1,
        usage=Usage(52.5, 9_800, 7, None),
        events=31,
        conversation="c1",
        at_commit="1" * 40,
        tree="2" * 40,
        ref="refs/relay/explorations/x1/claude",
        files=3,
        metrics={"lines_of_code": 12.0},
        notes={"test_pass_rate": "no tests"},
        passing=False,
        score=0.25,
    )
    await store.write(lambda tx: journal.end_variant(tx, made, ended))
    assert (await store.read(lambda tx: journal.variants_of(tx, 1)))[0] == ended
    (event,) = await all_events(store, journal.VARIANT_ENDED)
    assert event.snapshot == "2" * 40
    assert event.outputs["status"] == "budget_exceeded"
    assert event.outputs["which"] == "max_cost_usd"
    assert event.outputs["resource_usage"]["cost_usd"] is None


async def test_the_result_is_an_event_with_its_matrix(store: Store) -> None:
    made = await ordered(store)
    runs = await store.read(lambda tx: journal.variants_of(tx, 1))
    compared = replace(
        made, state=State.WAITING, matrix={"claude": (1.0, 0.0, 1.0, 1.0)}, recommendation="claude leads"
    )
    await store.write(lambda tx: journal.record_comparison(tx, compared, runs))
    (event,) = await all_events(store, journal.COMPARED)
    assert event.outputs["comparison_matrix"] == [[1.0, 0.0, 1.0, 1.0], None]
    assert event.outputs["metrics"][1] == {"name": "lines_of_code", "weight": 0.3, "lower_is_better": True}
    loaded = await store.read(lambda tx: journal.load(tx, 1))
    assert loaded.matrix == {"claude": [1.0, 0.0, 1.0, 1.0]}
    done = replace(compared, state=State.DONE, winner="claude", merged="3" * 40, taken={"a.py": "codex"})
    await store.write(lambda tx: journal.finish(tx, done))
    assert await store.read(journal.open_explorations) == []
    (event,) = await all_events(store, journal.ENDED)
    assert (event.outputs["winner"], event.outputs["merged"]) == ("claude", "3" * 40)


async def test_a_change_of_what_has_moved_on_is_none(store: Store) -> None:
    await ordered(store)
    moved = await store.write(lambda tx: journal.change(tx, 1, State.RUNNING, state=State.COMPARING))
    assert moved is not None
    assert await store.write(lambda tx: journal.change(tx, 1, State.RUNNING, state=State.ENDED)) is None
    assert (await store.read(lambda tx: journal.load(tx, 1))).state is State.COMPARING


async def test_a_number_that_is_none_is_refused(store: Store) -> None:
    with pytest.raises(Refusal, match="There is no exploration x7"):
        await store.read(lambda tx: journal.load(tx, 7))
