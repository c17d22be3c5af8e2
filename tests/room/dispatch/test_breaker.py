from __future__ import annotations

import pytest

from relay.model import FailureClass as F
from relay.room.dispatch.breaker import PARK_S, BreakerState, CircuitBreaker, Fate, Verdict, backoff_s, fate
from relay.room.dispatch.budget import Budget, Spent, exhausted

CLOSED, OPEN, HALF_OPEN = BreakerState


def test_opens_after_consecutive_failures_only() -> None:
    breaker = CircuitBreaker(threshold=3)
    breaker = breaker.failed(F.CRASH, 1.0).failed(F.TIMEOUT, 2.0).succeeded()
    breaker = breaker.failed(F.CRASH, 3.0).failed(F.EMPTY, 4.0)
    assert (breaker.state, breaker.failures) == (CLOSED, 2)
    breaker = breaker.failed(F.CRASH, 5.0)
    assert (breaker.state, breaker.failures, breaker.retry_at) == (OPEN, 3, 305.0)


@pytest.mark.parametrize(
    ("why", "now", "verdict"),
    [
        ("just opened", 100.0, Verdict.SKIP),
        ("a moment before the timeout", 399.9, Verdict.SKIP),
        ("the timeout has passed", 400.0, Verdict.PROBE),
        ("the clock was stepped back", 99.0, Verdict.PROBE),
    ],
)
def test_open_breaker(why: str, now: float, verdict: Verdict) -> None:
    breaker = CircuitBreaker(threshold=1, reset_timeout=300.0).failed(F.CRASH, 100.0)
    after, said = breaker.ask(now)
    assert said is verdict, why
    assert (after.state is HALF_OPEN) == (verdict is Verdict.PROBE)


def test_the_probe_decides() -> None:
    half, _ = (
        CircuitBreaker(threshold=3).failed(F.CRASH, 0.0).failed(F.CRASH, 0.0).failed(F.CRASH, 0.0).ask(300.0)
    )
    assert half.succeeded().state is CLOSED
    again = half.failed(F.CRASH, 310.0)
    assert (again.state, again.opened_at) == (OPEN, 310.0)
    assert half.failed(F.CANCELLED, 310.0).state is OPEN, "a cancelled probe proved nothing"


@pytest.mark.parametrize("failure", [F.RATE_LIMIT, F.CANCELLED, F.NOT_INSTALLED])
def test_not_counted(failure: F) -> None:
    breaker = CircuitBreaker(threshold=1).failed(failure, 0.0)
    assert (breaker.state, breaker.failures) == (CLOSED, 0)


@pytest.mark.parametrize(
    ("named", "until"), [(None, 100.0 + PARK_S), (500.0, 500.0), (5.0, 101.0), (1e12, 100.0 + 86400)]
)
def test_a_rate_limit_parks_until_the_time_it_names(named: float | None, until: float) -> None:
    breaker = CircuitBreaker().failed(F.RATE_LIMIT, 100.0, named)
    assert breaker.parked_until == until
    assert breaker.ask(100.5)[1] is Verdict.WAIT
    assert breaker.ask(until)[1] is Verdict.GO


@pytest.mark.parametrize(
    ("failure", "attempts", "expected"),
    [
        (F.CRASH, 1, Fate.RETRY),
        (F.CRASH, 3, Fate.DEAD),
        (F.TIMEOUT, 2, Fate.RETRY),
        (F.EMPTY, 3, Fate.DEAD),
        (F.RATE_LIMIT, 9, Fate.PARK),
        (F.NOT_SIGNED_IN, 1, Fate.DEAD),
        (F.NOT_INSTALLED, 1, Fate.SKIP),
        (F.CANCELLED, 1, Fate.SKIP),
    ],
)
def test_fate(failure: F, attempts: int, expected: Fate) -> None:
    assert fate(failure, attempts, 3) is expected


def test_backoff_doubles_to_its_bound() -> None:
    assert [backoff_s(n, 2.0, 60.0, 1.0) for n in range(1, 8)] == [2, 4, 8, 16, 32, 60, 60]
    assert backoff_s(1, 2.0, 60.0, 0.0) == 1.0


@pytest.mark.parametrize(
    ("budget", "spent", "what"),
    [
        (Budget(), Spent(999, input=10**9, usd=999.0), None),
        (Budget(turns_per_hour=2), Spent(turns_hour=1), None),
        (Budget(turns_per_hour=2), Spent(turns_hour=2, oldest_in_hour=40.0), "turns_per_hour"),
        (Budget(tokens_per_day=10), Spent(input=3, cache_write=3, output=4), "tokens_per_day"),
        (Budget(tokens_per_day=10), Spent(input=9, cache_read=10**6), None),
        (Budget(usd_per_day=0.5), Spent(usd=0.49), None),
        (Budget(usd_per_day=0.5), Spent(usd=0.5), "usd_per_day"),
        (Budget(usd_per_day=0.0), Spent(), "usd_per_day"),
    ],
)
def test_budget(budget: Budget, spent: Spent, what: str | None) -> None:
    found = exhausted(budget, spent, now=100.0)
    assert (found and found.what) == what
    if what == "turns_per_hour":
        assert found is not None and found.frees_at == 3640.0
