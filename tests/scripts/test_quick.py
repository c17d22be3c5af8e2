"""`scripts/test.sh --quick`: the tests nearest to a change come first."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts import quick


def test_the_tests_of_a_changed_module_come_first() -> None:
    found = quick.nearest(["relay/base/vector_clock.py", "README.md"])
    assert found.index("tests/base/test_vector_clock.py") < found.index("tests/room/dispatch/test_queue.py")
    assert not [path for path in found if path.startswith(quick.SLOW)]


def test_a_changed_test_is_nearest_whatever_it_starts() -> None:
    found = quick.nearest(["relay/base/vector_clock.py", "tests/e2e/test_room.py"])
    assert found[0] == "tests/e2e/test_room.py" and "tests/base/test_vector_clock.py" in found


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("relay/coordination/sqlite/locks.sql", "tests/coordination/locks/test_service.py"),
        ("tests/coordination/conftest.py", "tests/coordination/locks/test_wait_line.py"),
        ("tests/engines.py", "tests/coordination/locks/test_service.py"),
    ],
)
def test_what_is_no_module_counts_by_who_reads_it(path: str, wanted: str) -> None:
    assert (quick.ROOT / path).exists() or path.endswith(".sql")
    assert wanted in quick.nearest([path])


def test_a_change_that_no_test_imports_has_none() -> None:
    assert quick.nearest(["pyproject.toml", "scripts/gone.py"]) == []


def test_to_a_change_of_a_document_or_of_the_code_those_who_read_all_of_them_are_near() -> None:
    for path in ("docs/design.md", "README.md", "relay/gone.py"):
        assert quick.nearest([path]) == list(quick.READERS)


def test_to_a_change_of_the_page_its_tests_in_front_of_a_mock_room_are_near() -> None:
    found = quick.nearest(["web/src/main.tsx", "relay/base/vector_clock.py"])
    assert {"tests/browser/mocked/test_views.py", "tests/base/test_vector_clock.py"} <= set(found)
    assert "tests/browser/test_room.py" not in found


def test_the_change_is_what_is_not_pushed_else_the_last_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *words], cwd=tmp_path, check=True)

    monkeypatch.setattr(quick, "ROOT", tmp_path)
    git("init", "-q", "-b", "main")
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("1\n")
        git("add", name)
        git("commit", "-q", "-m", name)
    assert quick.changed() == ["b.py"]
    (tmp_path / "a.py").write_text("2\n")
    (tmp_path / "new.py").write_text("3\n")
    assert quick.changed() == ["a.py", "new.py"]
    git("remote", "add", "origin", str(tmp_path))
    git("fetch", "-q", "origin")
    git("branch", "-q", "--set-upstream-to", "origin/main")
    git("commit", "-qam", "a again")
    assert quick.changed() == ["a.py", "new.py"]
