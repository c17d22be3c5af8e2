"""Which variant wins by each policy, and when none does."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from relay.merge.exploration.config import Policy
from relay.merge.exploration.selection import Candidate, choose


def candidate(name: str, score: float = 0.5, **more: Any) -> Candidate:
    values: dict[str, Any] = {"passing": True, "test_rate": 1.0, "cost_usd": 1.0, "seconds": 10.0}
    return Candidate(name, score, **(values | more))


AUTOMATIC = [Policy.HIGHEST_SCORE, Policy.CHEAPEST_PASSING, Policy.BEST_TEST_RATE]


@pytest.mark.parametrize(
    ("policy", "winner"),
    [
        (Policy.HIGHEST_SCORE, "fine"),
        (Policy.CHEAPEST_PASSING, "cheap"),
        (Policy.BEST_TEST_RATE, "cheap"),
        (Policy.HUMAN_REVIEW, None),
        (Policy.AGENT_REVIEW, None),
    ],
)
def test_each_policy_has_its_winner(policy: Policy, winner: str | None) -> None:
    field = [
        candidate("fine", 0.9, cost_usd=3.0),
        candidate("cheap", 0.4, cost_usd=0.1),
        candidate("failing", 1.0, passing=False, test_rate=0.9, cost_usd=0.0),
    ]
    assert choose(policy, field).winner == winner


@pytest.mark.parametrize("policy", Policy)
def test_without_a_passing_variant_there_is_no_automatic_winner(policy: Policy) -> None:
    field = [candidate("a", passing=False, test_rate=0.99), candidate("b", passing=False, test_rate=0.5)]
    choice = choose(policy, field)
    assert choice.winner is None
    assert "No variant passes" in choice.reason


@pytest.mark.parametrize("policy", Policy)
def test_without_a_finished_variant_there_is_no_winner(policy: Policy) -> None:
    choice = choose(policy, [])
    assert choice.winner is None
    assert "No variant has finished" in choice.reason


@pytest.mark.parametrize("policy", [Policy.CHEAPEST_PASSING, Policy.BEST_TEST_RATE])
def test_a_policy_that_needs_tests_says_so(policy: Policy) -> None:
    choice = choose(policy, [candidate("a", passing=None, test_rate=None)])
    assert choice.winner is None
    assert f"`{policy}` needs tests" in choice.reason


def test_the_score_decides_without_tests_and_says_that_none_ran() -> None:
    choice = choose(
        Policy.HIGHEST_SCORE, [candidate("a", 0.7, passing=None), candidate("b", 0.2, passing=None)]
    )
    assert choice.winner == "a"
    assert "No test has run" in choice.reason


def test_an_unknown_cost_is_not_the_lowest() -> None:
    field = [candidate("told", cost_usd=5.0), candidate("silent", cost_usd=None)]
    choice = choose(Policy.CHEAPEST_PASSING, field)
    assert choice.winner is None
    assert "needs the cost" in choice.reason
    assert "silent" in choice.reason
    alone = choose(Policy.CHEAPEST_PASSING, [candidate("silent", cost_usd=None)])
    assert (alone.winner, "unknown" in alone.reason) == ("silent", True)


@pytest.mark.parametrize("policy", AUTOMATIC)
def test_ties_go_by_cost_then_duration_then_name(policy: Policy) -> None:
    by_cost = [candidate("a", cost_usd=2.0, seconds=1.0), candidate("b", cost_usd=1.0, seconds=9.0)]
    by_time = [candidate("a", seconds=9.0), candidate("b", seconds=1.0)]
    by_name = [candidate("b"), candidate("a"), candidate("c")]
    for field, winner in ((by_cost, "b"), (by_time, "b"), (by_name, "a")):
        for order in itertools.permutations(field):
            assert choose(policy, order).winner == winner


def test_in_a_tie_an_unknown_cost_is_last() -> None:
    field = [candidate("a", cost_usd=None, seconds=1.0), candidate("b", cost_usd=99.0, seconds=99.0)]
    assert choose(Policy.HIGHEST_SCORE, field).winner == "b"


def test_who_reviews_is_told_which_leads() -> None:
    field = [candidate("a", 0.9, passing=False, test_rate=0.5), candidate("b", 0.4)]
    assert choose(Policy.HUMAN_REVIEW, field).reason.startswith("b has the highest score")
