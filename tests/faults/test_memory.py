"""kill -9 while the room remembers, imports, follows its log and gives prompts: a few times here, more by
`scripts/faults memory`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.stores import STORES
from tests.faults.memory import kills_of_the_memory

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("store", sorted(STORES))
async def test_nothing_remembered_is_lost_or_doubled_under_kills(tmp_path: Path, store: str) -> None:
    found, counts = await kills_of_the_memory(tmp_path / "room", 1, kills=3, store=store)
    assert found == []
    assert min(counts[name] for name in ("memories", "forgotten", "decided", "asked", "imported")) > 0, counts
