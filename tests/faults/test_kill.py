"""kill -9 at random points: three seeded storms (a hundred and more by `scripts/faults`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.storm import storm

pytestmark = pytest.mark.faults


#: Each store's seeds; what a kill may tear apart is the same code on both. Of four kills each, so that each moment of
#: `Storm` is among them, and kills while it stops.
SEEDS = [("sqlite", 1), ("sqlite", 4), ("postgres", 11)]


@pytest.mark.parametrize(("store", "seed"), SEEDS)
async def test_nothing_is_lost_or_doubled_when_the_daemon_is_killed(
    tmp_path: Path, store: str, seed: int
) -> None:
    assert await storm(tmp_path / "room", seed, posts=8, store=store) == []
