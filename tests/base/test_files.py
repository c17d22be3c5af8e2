"""Files that are replaced whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.base.files import alone_in, below, resolved, resolver, write_atomically


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


def test_paths_are_resolved_as_by_the_system(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").touch()
    (tmp_path / "link").symlink_to("a/b")
    (tmp_path / "a" / "up").symlink_to("../link")
    (tmp_path / "away").symlink_to("/")
    (tmp_path / "round").symlink_to("round")
    look = resolver()
    for path in (
        *(
            "a",
            "a/b/file",
            "a/b/none/at/all",
            "link/file",
            "link/../x",
            "a/up/file",
            "a/up/../x",
            "away/etc",
            "away",
        ),
        *("./a//b/.", "a/b/file/below", "n" * 300, "link/none", ""),
    ):
        whole = f"{tmp_path}/{path}"
        assert look(whole) == resolved(whole) == str(Path(whole).resolve()), path
    assert look("/") == "/"
    for path, error in (("round/x", OSError), ("a/\0", ValueError)):
        with pytest.raises(error):
            look(f"{tmp_path}/{path}")


@pytest.mark.parametrize(
    ("root", "path", "is_at"),
    [("/a", "/a/b/c", "b/c"), ("/a", "/a", None), ("/a", "/ab", None), ("/", "/b", "b"), ("/", "/", None)],
)
def test_what_is_below_a_folder(root: str, path: str, is_at: str | None) -> None:
    assert below(root, path) == is_at
