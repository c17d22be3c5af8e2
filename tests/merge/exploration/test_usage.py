"""Budgets: what passes which limit, and what nobody could watch."""

from __future__ import annotations

import pytest

from relay.merge.exploration.config import Budget
from relay.merge.exploration.usage import Usage, exceeded, unwatched

BUDGET = Budget(60.0, 10_000, 5, 2.0)


@pytest.mark.parametrize(
    ("usage", "which"),
    [
        (Usage(45.0, 6_200, 5, 0.85), None),
        (Usage(52.0, 9_800, 5, 2.01), "max_cost_usd"),
        (Usage(22.0, 10_000, 5, 2.0), None),
        (Usage(60.0, 0, 0, 0.0), "max_duration_seconds"),
        (Usage(1.0, 10_001, 0, 0.0), "max_tokens"),
        (Usage(1.0, None, 6, None), "max_tool_calls"),
        (Usage(1.0, None, 0, None), None),
    ],
)
def test_a_limit_is_passed(usage: Usage, which: str | None) -> None:
    assert exceeded(BUDGET, usage) == which


def test_no_limit_is_never_passed() -> None:
    assert exceeded(Budget(), Usage(1.0, 10**9, 10**6, 10**6)) is None


def test_a_limit_that_nobody_could_watch_is_named() -> None:
    assert unwatched(BUDGET, Usage(1.0, None, 0, None)) == ("max_tokens", "max_cost_usd")
    assert unwatched(BUDGET, Usage(1.0, 5, 0, 0.0)) == ()
    assert unwatched(Budget(), Usage(1.0, None, 0, None)) == ()
