from __future__ import annotations

import asyncio
import sys
from contextlib import closing
from pathlib import Path

import pytest

from relay.base.file_events import FileEvents


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
async def test_what_happens_to_a_file_is_told_once_and_the_loop_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("a")
    with closing(FileEvents([path])) as files:
        assert files.works and not await files.wait(0.01)
        path.write_text("b")
        path.write_text("c")
        async with asyncio.timeout(30):
            assert await files.wait(30)
        assert not await files.wait(0.01)
        path.unlink()
        async with asyncio.timeout(30):
            while files.works:
                assert await files.wait(30)
        # The same inode may be another file by now, of which nothing is told.
        path.write_text("d")
        assert not await files.wait(0.01)


async def test_a_file_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    with closing(FileEvents([tmp_path / "none"])) as files:
        assert not files.works and not await files.wait(0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
async def test_of_a_folder_new_names_are_told_and_nothing_else(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("a")
    with closing(FileEvents([tmp_path], names=True)) as files:
        other.write_text("b")
        assert files.works and not await files.wait(0.01)
        other.rename(tmp_path / "new")
        async with asyncio.timeout(30):
            assert await files.wait(30)
