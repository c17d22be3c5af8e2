"""Files that are replaced whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.base.files import alone_in, write_atomically


def test_a_file_is_replaced_with_its_mode_and_nothing_stays_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "state"
    write_atomically(path, "one")
    assert path.stat().st_mode & 0o777 == 0o600
    written = write_atomically(path, "zwei ü".encode(), 0o644)
    assert path.read_text("utf-8") == "zwei ü"
    assert (path.stat().st_ino, path.stat().st_mode & 0o777) == (written.st_ino, 0o644)
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    with pytest.raises(OSError):
        write_atomically(path, "x")
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    with alone_in(tmp_path), pytest.raises(TimeoutError, match="locked by another"), alone_in(tmp_path, 0.02):
        pass
    with alone_in(tmp_path, 0.02):
        assert list(tmp_path.iterdir()) == []
