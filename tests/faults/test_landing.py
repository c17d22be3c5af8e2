"""A landing queue that is killed at random points, with a fixed seed; scripts/faults does more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.landing import kills_of_the_landing

pytestmark = pytest.mark.faults


async def test_main_is_before_or_after(tmp_path: Path) -> None:
    wrong, done = await kills_of_the_landing(tmp_path, seed=1)
    assert wrong == [], done
    assert done["commits"] >= 2
