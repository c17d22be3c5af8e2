"""Many at one path, and kill -9 under load: small runs of what `scripts/faults locks` and `writes` do at length."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.contention import contention
from tests.faults.writes import writes

pytestmark = pytest.mark.faults


#: Each store, and how often a client tries: PostgreSQL lets the processes run side by side, so more of them meet.
ATTEMPTS = {"sqlite": 40, "postgres": 100}


@pytest.mark.parametrize("store", ATTEMPTS)
async def test_a_path_has_one_holder_and_a_blocked_answer_its_name(tmp_path: Path, store: str) -> None:
    found, counts = await contention(
        tmp_path / "room", clients=8, attempts=ATTEMPTS[store], within_s=120, store=store
    )
    assert found == []
    assert all(interface["got"] for interface in counts["by_interface"].values()), counts


@pytest.mark.parametrize("store", ATTEMPTS)
@pytest.mark.parametrize("seed", [1])
async def test_nothing_acknowledged_is_lost_or_doubled_under_kills(
    tmp_path: Path, seed: int, store: str
) -> None:
    found, counts = await writes(tmp_path / "room", seed, store=store)
    assert found == []
    assert min(counts.values()) > 0, counts
