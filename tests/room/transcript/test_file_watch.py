from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from relay.room.transcript.file_watch import changes


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
async def test_a_file_that_is_missing_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "transcript.log"
    watching = changes(path)
    first = asyncio.ensure_future(anext(watching))
    (tmp_path / "other").write_text("a")
    await asyncio.sleep(0.05)
    assert not first.done()
    path.write_text("a")
    async with asyncio.timeout(30):
        await first
    await watching.aclose()
