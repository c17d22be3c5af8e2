"""A room with a daemon, for a test that only says who is in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.outside import Json, Outside, room, settings

Open = Callable[..., Awaitable[Outside]]


@pytest.fixture
async def open_room(tmp_path: Path) -> AsyncIterator[Open]:
    """`await open_room(agent(...), files={"x.yaml": "..."}, start=True, **settings)`: another one each time."""
    async with AsyncExitStack() as stack:
        count = 0

        async def opened(
            *agents: Json, files: dict[str, str] | None = None, start: bool = True, **more: Any
        ) -> Outside:
            nonlocal count
            count += 1
            one = await stack.enter_async_context(room(tmp_path / f"room-{count}", settings(*agents, **more)))
            for name, text in (files or {}).items():
                (one.folder / name).write_text(text)
            if start:
                await one.start()
            return one

        yield opened
