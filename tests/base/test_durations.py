"""Times and durations in words."""

from __future__ import annotations

import time
from datetime import datetime

import pytest

from relay.base.durations import clock_time


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("2026-11-22T14:12:05", "14:12:05"),
        ("2026-11-22T23:59:59", "23:59:59"),
        ("2026-11-23T00:00:01", "00:00 tomorrow, 23 November"),
        ("2026-11-23T14:12:05", "14:12 tomorrow, 23 November"),
        ("2026-11-21T14:12:05", "14:12 yesterday, 21 November"),
        ("2026-11-24T14:12:05", "14:12 on 24 November"),
        ("2027-01-02T08:00:00", "08:00 on 2 January 2027"),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland"])
def test_a_time_of_another_day_says_which(
    at: str, said: str, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        now = datetime.fromisoformat("2026-11-22T14:00:00").timestamp()
        assert clock_time(datetime.fromisoformat(at).timestamp(), now) == said
    finally:
        monkeypatch.undo()
        time.tzset()
