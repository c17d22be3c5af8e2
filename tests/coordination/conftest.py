from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.coordination import board
from relay.log import events
from relay.log.store import Store
from tests import engines


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await engines.open_store(tmp_path, [events.FOLDER, board.FOLDER])
    yield opened
    await opened.close()
