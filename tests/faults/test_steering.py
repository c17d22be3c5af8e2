"""kill -9 while people write into running turns: one seeded run (30,000 messages and 100 kills by `scripts/faults
steering --runs 1 --messages 30000 --kills 100`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.steering import steering

pytestmark = pytest.mark.faults


async def test_what_a_turn_is_told_is_told_once_when_the_daemon_is_killed(tmp_path: Path) -> None:
    problems, counts = await steering(tmp_path, 1, messages=300, kills=2)
    assert problems == []
    assert counts["messages"] >= 300 and counts["heard in the turn"] > 0
