from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.coordination import board
from relay.log import events
from relay.log.sqlite_store import SqliteStore, open_store
from tests.coordination.desk import Desk, at


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await open_store(tmp_path / "events.db", [events.FOLDER, board.FOLDER])
    yield opened
    await opened.close()


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    made = await at(tmp_path / "events.db")
    yield made
    await made.whole()
    await made.store.close()
