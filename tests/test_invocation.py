"""A command in a message can be typed as it stands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from relay import invocation


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installation of relay's in tmp_path/clone/.venv; nothing of relay's on the PATH."""
    path = tmp_path / "clone" / ".venv" / "bin" / "relay"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    monkeypatch.setattr(sys, "prefix", str(path.parent.parent))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    invocation.program.cache_clear()
    yield path
    invocation.program.cache_clear()


def test_from_above_it_is_a_relative_path(own: Path) -> None:
    assert invocation.command("link") == "`clone/.venv/bin/relay link`"


def test_from_elsewhere_it_is_the_whole_path(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert invocation.program() in (str(own), str(own).lstrip("/"))


def test_where_a_shell_finds_this_very_one_it_is_the_bare_name(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(own.parent))
    assert invocation.command("log") == "`relay log`"


def test_another_one_on_the_path_is_not_this_one(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other" / "relay"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(other.parent))
    assert invocation.program() == "clone/.venv/bin/relay"
