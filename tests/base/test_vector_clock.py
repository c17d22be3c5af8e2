from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.base.vector_clock import (
    Order,
    backward_decay,
    brief_weight,
    compare,
    forward_decay,
    hop_count,
    merge,
)

clocks = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 5))


@pytest.mark.parametrize(
    ("a", "b", "order"),
    [
        ({}, {}, Order.EQUAL),
        ({"a": 0}, {}, Order.EQUAL),
        ({"a": 1}, {}, Order.AFTER),
        ({}, {"a": 1}, Order.BEFORE),
        ({"a": 1}, {"a": 2, "b": 1}, Order.BEFORE),
        ({"a": 2}, {"a": 1, "b": 1}, Order.CONCURRENT),
        ({"a": 1, "b": 1}, {"b": 1, "a": 1}, Order.EQUAL),
    ],
)
def test_compare(a: dict[str, int], b: dict[str, int], order: Order) -> None:
    assert compare(a, b) is order


@given(clocks, clocks, clocks)
def test_merge_is_the_least_upper_bound(a: dict[str, int], b: dict[str, int], c: dict[str, int]) -> None:
    both = merge(a, b)
    assert compare(a, both) in (Order.BEFORE, Order.EQUAL)
    assert compare(b, both) in (Order.BEFORE, Order.EQUAL)
    assert compare(merge(a, b), merge(b, a)) is Order.EQUAL
    assert merge(merge(a, b), c) == merge(a, merge(b, c))


@pytest.mark.parametrize(("hops", "weight"), [(0, 1), (1, 0.9), (5, 0.5), (9, 0.1), (10, 0), (11, 0)])
def test_backward_decay(hops: int, weight: float) -> None:
    assert backward_decay(hops) == pytest.approx(weight, abs=1e-9)


@pytest.mark.parametrize(
    ("hops", "weight"),
    [(0, 1), (5, 1), (6, 0.9333), (10, 0.6667), (15, 0.3333), (19, 0.0667), (20, 0), (40, 0)],
)
def test_forward_decay(hops: int, weight: float) -> None:
    assert forward_decay(hops) == pytest.approx(weight, abs=5e-5)


@pytest.mark.parametrize(
    ("edge", "reference", "hops"),
    [
        ({"ui": 5, "human": 3}, {"ui": 10, "human": 7}, 9),
        ({"ui": 5, "sub": 2}, {"ui": 10}, 5),
        ({"ui": 5}, {"ui": 10, "new": 4}, 5),
        ({"ui": 9}, {"ui": 5}, 0),
        ({}, {"ui": 5}, 0),
    ],
)
def test_hop_count(edge: dict[str, int], reference: dict[str, int], hops: int) -> None:
    assert hop_count(edge, reference) == hops


def test_brief_weight_falls_with_depth() -> None:
    assert [round(brief_weight(d), 4) for d in range(3)] == [0.9, 0.81, 0.729]
    with pytest.raises(ValueError, match="starts at 0"):
        brief_weight(-1)
