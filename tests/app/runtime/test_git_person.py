"""Who types, when nobody said."""

from __future__ import annotations

import getpass
import subprocess
from pathlib import Path

import pytest

from relay.access.git_person import git_person


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("Ann Lee", "Ann Lee"),
        ("  Zoë  ", "Zoë"),
        ("CLAUDE", None),  # an agent's
        ("RELAY", None),
        ("@ann", None),  # no name in the room
        ("", None),
    ],
)
def test_git_knows_the_person_else_the_system_does(tmp_path: Path, told: str, name: str | None) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(["git", "-C", tmp_path, "config", "user.name", told], check=True)
    assert git_person(tmp_path, ["CLAUDE"]) == (name or getpass.getuser())


def test_without_a_repository_the_system_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    assert git_person(tmp_path / "missing", []) == getpass.getuser()
