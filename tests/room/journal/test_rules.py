from __future__ import annotations

import pytest

from relay.room.journal.admission_rules import Rules


@pytest.mark.parametrize(
    ("entries", "seconds"), [(0, 2.0), (2, 2.0), (3, 1.0), (4, 1.0), (5, 0.5), (500, 0.5)]
)
def test_a_busy_room_waits_less(entries: int, seconds: float) -> None:
    assert Rules().delay_s(entries) == seconds


def test_the_bounds_are_settings() -> None:
    assert [Rules(busy=10, medium=1).delay_s(n) for n in (0, 1, 9, 10)] == [2.0, 1.0, 1.0, 0.5]
