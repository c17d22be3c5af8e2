"""Scores of variants: the source's example, and the rules that hold for any figures."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.merge.exploration.config import Metric, MetricKind, Policy
from relay.merge.exploration.scoring import compare
from relay.merge.exploration.selection import Candidate, choose

RATE = Metric(MetricKind.TEST_PASS_RATE, "test_pass_rate", False)
SPEED = Metric(MetricKind.PERFORMANCE, "performance", True)
LINES = Metric(MetricKind.LINES_OF_CODE, "lines_of_code", True)
METRICS = (RATE, SPEED, LINES)
#: 003, section 5.2.
SOURCE = {
    "redis": {"test_pass_rate": 0.95, "performance": 12.0, "lines_of_code": 450.0},
    "memcached": {"test_pass_rate": 0.88, "performance": 8.0, "lines_of_code": 380.0},
    "in-memory": {"test_pass_rate": 1.0, "performance": 2.0, "lines_of_code": 200.0},
}

figures = st.one_of(st.none(), st.floats(-1e9, 1e9))
positive = st.floats(0.001, 1000.0)


def normal(weights: list[float]) -> tuple[float, ...]:
    total = math.fsum(weights)
    return tuple(weight / total for weight in weights)


@given(st.lists(positive, min_size=3, max_size=3))
def test_source_example(weights: list[float]) -> None:
    """In-memory wins under every positive weighting (003, section 5.2)."""
    compared = compare(METRICS, normal(weights), SOURCE)
    assert compared.rows["in-memory"] == (1.0, 1.0, 1.0)
    assert compared.scores["in-memory"] == pytest.approx(1.0)
    candidates = [
        Candidate(
            name, compared.scores[name], rate["test_pass_rate"] == 1.0, rate["test_pass_rate"], 0.5, 22.0
        )
        for name, rate in SOURCE.items()
    ]
    assert choose(Policy.HIGHEST_SCORE, candidates).winner == "in-memory"
    assert max(compared.scores, key=lambda name: compared.scores[name]) == "in-memory"


def test_shares_are_min_max_in_the_metric_s_direction() -> None:
    compared = compare(METRICS, (0.5, 0.3, 0.2), SOURCE)
    assert compared.rows["memcached"] == pytest.approx((0.0, 0.4, 0.28))
    assert compared.rows["redis"] == pytest.approx((7 / 12, 0.0, 0.0))
    assert compared.scores["memcached"] == pytest.approx(0.3 * 0.4 + 0.2 * 0.28)


def test_a_figure_that_all_share_is_1_and_a_missing_one_is_0() -> None:
    given_figures = {
        "a": {"performance": 5.0},
        "b": {"performance": 5.0},
        "c": {"performance": None},
        "d": {},
    }
    compared = compare((SPEED,), (1.0,), given_figures)
    assert compared.scores == {"a": 1.0, "b": 1.0, "c": 0.0, "d": 0.0}


TIME = Metric(MetricKind.AGENT_DURATION, "agent_duration", True)


def test_what_differs_by_chance_only_is_no_difference() -> None:
    """A benchmark's figures that a table shows alike, and turns between which the room sees no difference."""
    figures = {
        "a": {"performance": 100.0001, "agent_duration": 12.0},
        "b": {"performance": 100.0, "agent_duration": 12.9},
    }
    compared = compare((SPEED, TIME), (0.5, 0.5), figures)
    assert compared.rows == {"a": (1.0, 1.0), "b": (1.0, 1.0)} and compared.noise == 0.0


def test_scores_within_the_noise_are_a_tie_and_are_called_one() -> None:
    """Of turns of 10, 10.5 and 20 s a second is a tenth of the score, and may be chance."""
    figures = {name: {"agent_duration": took} for name, took in (("a", 10.5), ("b", 10.0), ("c", 20.0))}
    compared = compare((TIME,), (1.0,), figures)
    assert compared.scores == {"a": 0.95, "b": 1.0, "c": 0.0} and compared.noise == pytest.approx(0.1)
    able = [Candidate(name, score, True, 1.0, 0.5, 1.0) for name, score in compared.scores.items()]
    choice = choose(Policy.HIGHEST_SCORE, able, compared.noise)
    assert choice.winner == "a"
    assert choice.reason.startswith("a and b are a tie: their score, 1.000 within 0.100, is the same")
    clear = choose(Policy.HIGHEST_SCORE, able)
    assert (clear.winner, clear.reason) == ("b", "b has the highest score, 1.000.")


def test_scores_are_as_exact_as_they_are_shown() -> None:
    thirds = {"a": {"lines_of_code": 1.0}, "b": {"lines_of_code": 2.0}, "c": {"lines_of_code": 4.0}}
    assert compare((LINES,), (1.0,), thirds).scores["b"] == 0.666667


def test_what_is_no_number_is_missing() -> None:
    compared = compare((SPEED,), (1.0,), {"a": {"performance": math.nan}, "b": {"performance": 1.0}})
    assert compared.scores == {"a": 0.0, "b": 1.0}


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ((0.5, 0.3, 0.1), "sum 0.9"),
        ((0.5, 0.5, 2e-9), "sum 1.000000002"),
        ((0.5, 0.5), "3 metrics and 2 weights"),
        ((1.5, -0.5, 0.0), "0 or more"),
        ((math.nan, 0.5, 0.5), "0 or more"),
    ],
)
def test_weights_that_are_none_are_refused(weights: tuple[float, ...], says: str) -> None:
    with pytest.raises(ValueError, match=says.replace(".", r"\.")):
        compare(METRICS, weights, SOURCE)


def test_weights_may_differ_from_1_as_numbers_do() -> None:
    assert compare(METRICS, (0.1, 0.2, 0.7 + 5e-10), SOURCE).scores["in-memory"] == pytest.approx(1.0)


@given(
    st.dictionaries(
        st.sampled_from("abcd"), st.lists(figures, min_size=3, max_size=3), min_size=1, max_size=4
    ),
    st.lists(positive, min_size=3, max_size=3),
)
def test_a_better_variant_never_scores_less(
    measured: dict[str, list[float | None]], weights: list[float]
) -> None:
    named = {
        name: {metric.name: value for metric, value in zip(METRICS, values, strict=True)}
        for name, values in measured.items()
    }
    compared = compare(METRICS, normal(weights), named)
    assert all(0 <= share <= 1 for row in compared.rows.values() for share in row)
    assert all(0 <= score <= 1 + 1e-9 for score in compared.scores.values())
    backwards = compare(METRICS, normal(weights), dict(reversed(named.items())))
    assert backwards.scores == compared.scores
    for one, other in itertools.permutations(named, 2):
        if all(_as_good(metric, named[one][metric.name], named[other][metric.name]) for metric in METRICS):
            assert compared.scores[one] >= compared.scores[other] - 1e-9


def _as_good(metric: Metric, one: float | None, other: float | None) -> bool:
    if other is None:
        return True
    if one is None:
        return False
    return one <= other if metric.lower_is_better else one >= other
