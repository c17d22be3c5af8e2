"""kill -9 at random points: ten seeded storms (a hundred and more by `scripts/faults`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.storm import storm

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("seed", range(1, 11))
async def test_nothing_is_lost_or_doubled_when_the_daemon_is_killed(tmp_path: Path, seed: int) -> None:
    assert await storm(tmp_path / "room", seed, posts=8) == []
