from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.store.ports import Store
from tests.engines import Clock
from tests.fakes.ollama import fake_ollama
from tests.room.parts import open_room

__all__ = ["clock", "fake_ollama", "store"]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_room(tmp_path)
    yield opened
    await opened.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()
