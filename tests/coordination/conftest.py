from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.coordination import board
from relay.log import events
from relay.log.sqlite_store import SqliteStore, open_store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await open_store(tmp_path / "events.db", [events.FOLDER, board.FOLDER])
    yield opened
    await opened.close()
