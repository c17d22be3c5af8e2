"""kill -9 while the timeline is recorded, looked at, imported and archived: ten times here, two hundred and more by
`scripts/faults timeline`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.timeline import kills_of_the_timeline

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("seed", [1, 2])
async def test_kill_anywhere(tmp_path: Path, seed: int) -> None:
    wrong, counts = await kills_of_the_timeline(tmp_path, seed, kills=5)
    assert wrong == [] and counts["events"] > 0
