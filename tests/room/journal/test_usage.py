"""What the agents' turns cost today, over the real stores."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from relay.room.journal.ledger import Q
from relay.room.journal.usage import DayUse, Used, day_use, dollars, said, windows
from relay.store.ports import Store, Tx
from tests.engines import BOTH

#: 08:21 UTC, on a day that no clock is changed.
NOON = 1_800_001_260.0


@pytest.fixture
def zone(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = request.param
    time.tzset()
    yield
    os.environ.pop("TZ") if before is None else os.environ.update(TZ=before)
    time.tzset()


async def turn(store: Store, agent: str, at: float, **used: float) -> None:
    kinds = ("input_tokens", "cache_write_tokens", "cache_read_tokens", "output_tokens", "cost_usd")
    values = {kind: used.get(kind, 0) for kind in kinds}
    ended = {"job": 1, "started_at": at, "ended_at": at + 60, "failure": None}

    async def work(tx: Tx) -> None:
        await tx.execute(Q.ensure_agent, name=agent)
        await tx.execute(Q.put_turn, agent=agent, **ended, **values)

    await store.write(work)


@BOTH
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/St_Johns"], indirect=True)
async def test_each_turn_is_counted_in_its_hour_and_in_its_day(store: Store, zone: None) -> None:
    midnight, first = windows(NOON)
    await turn(store, "AVA", first - 1, input_tokens=1_000_000, cost_usd=99.0)  # before what is shown
    await turn(store, "AVA", first, input_tokens=5, cost_usd=0.5)
    await turn(store, "AVA", midnight - 1, input_tokens=7, cost_usd=0.25)
    await turn(
        store, "AVA", midnight, input_tokens=10, cache_read_tokens=100, output_tokens=3, cost_usd=0.125
    )
    await turn(store, "BEN", NOON - 60, cache_write_tokens=20, output_tokens=4)
    await turn(store, "BEN", NOON, input_tokens=1, cost_usd=2.0)
    await turn(store, "BEN", NOON - 30)  # nor did it tell tokens

    use = await store.read(lambda tx: day_use(tx, NOON))
    assert use.today == {
        "AVA": Used(turns=1, input=10, cache_read=100, output=3, usd=0.125),
        "BEN": Used(turns=3, input=1, cache_write=20, output=4, usd=2.0, unpriced=2),
    }
    assert use.total == Used(4, 11, 20, 100, 7, 2.125, 2)
    assert len(use.hours) == 24
    assert use.hours[0] == (first, {"AVA": Used(turns=1, input=5, usd=0.5)})
    assert use.hours[-1][1]["BEN"].turns == 3
    assert sum(used.usd for _, agents in use.hours for used in agents.values()) == 2.875
    assert datetime.fromtimestamp(use.midnight).strftime("%H:%M") == "00:00"


@pytest.mark.parametrize("zone", ["Europe/Berlin"], indirect=True)
def test_a_day_of_25_hours_is_whole_and_a_day_of_23_too(zone: None) -> None:
    long_night = datetime(2026, 10, 25, 23, 30).timestamp()
    midnight, first = windows(long_night)
    assert first == midnight == datetime(2026, 10, 25).timestamp()
    assert (long_night - first) / 3600 == 24.5
    short_day = datetime(2026, 3, 29, 23, 30).timestamp()
    midnight, first = windows(short_day)
    assert midnight == datetime(2026, 3, 29).timestamp() and first == datetime(2026, 3, 28, 23).timestamp()


def test_what_is_said_of_it() -> None:
    assert said(DayUse(NOON, ())) == "No turn has begun since midnight."
    hours = ((NOON, {"AVA": Used(2, 1_200, 0, 30_000, 40, 1.5), "BEN": Used(1, 10, 0, 0, 1, 0.0, 1)}),)
    text = said(DayUse(NOON, hours))
    assert "| AVA | 2 | 1,200 | 0 | 30,000 | 40 | $1.50 |" in text
    assert "| BEN | 1 | 10 | 0 | 0 | 1 | not told |" in text
    assert "| all | 3 | 1,210 | 0 | 30,000 | 41 | $1.50 and more |" in text
    assert text.endswith("1 of 3 turns reported no price.")
    # Nothing reported is not nothing paid.
    assert dollars(Used(turns=3)) == "not told"
    assert dollars(Used(turns=3, input=5, unpriced=1)) == "not told"
    assert dollars(Used(turns=3, input=5, usd=0.001)) == "<$0.01"
