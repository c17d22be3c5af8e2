"""kill -9 while something is taken back: ten times here, two hundred and more by `scripts/faults rewinds`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.rewinds import rewinds

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("seed", [1, 2])
async def test_kill_anywhere(tmp_path: Path, seed: int) -> None:
    wrong, counts = await rewinds(tmp_path, seed, kills=5)
    assert wrong == [] and counts
