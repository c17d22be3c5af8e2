"""A command in a message can be typed as it stands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from relay.config import command_line


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
    monkeypatch.setattr(command_line._Room, "config", None)
    monkeypatch.setattr(command_line._Room, "away", False)
    command_line.program.cache_clear()
    yield path
    command_line.program.cache_clear()


def test_from_above_it_is_a_relative_path(own: Path) -> None:
    assert command_line.command("link") == "`clone/.venv/bin/relay link`"


def test_for_all_machines_it_is_as_in_any_clone(own: Path, tmp_path: Path) -> None:
    command_line.about(tmp_path / "mine.json", away=True)
    command_line.for_all_machines(True)
    try:
        assert command_line.command("link") == "`.venv/bin/relay link`"
    finally:
        command_line.for_all_machines(False)
    assert "--config" in command_line.command("link")


def test_it_names_the_configuration_where_a_shell_would_find_another(own: Path, tmp_path: Path) -> None:
    clone, mine = tmp_path / "clone", tmp_path / "config.json"
    named, start = "`clone/.venv/bin/relay link --config", "`bash scripts/start.sh"
    for config, away, link, script in (
        (mine, False, "`clone/.venv/bin/relay link`", f"{start} --config {mine}`"),
        (mine, True, f"{named} {mine}`", f"{start} --config {mine}`"),
        (clone / "config.json", True, "`clone/.venv/bin/relay link`", f"{start}`"),
        (clone / "config.json", False, f"{named} {clone}/config.json`", f"{start}`"),
        (tmp_path / "b c.json", False, f"{named} '{tmp_path}/b c.json'`", f"{start} --config '{tmp_path}/b c.json'`"),
    ):  # fmt: skip
        command_line.about(config, away=away)
        assert (command_line.command("link"), command_line.script("scripts/start.sh")) == (link, script), (
            config
        )


def test_a_script_is_named_as_it_can_be_run_from_here(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone, project = tmp_path / "clone", tmp_path / "project"
    project.mkdir()
    check = clone / "healthcheck.sh"
    check.write_text("#!/bin/sh\n")
    room = project / "config.json"
    for folder, path in ((project, check), (clone, "healthcheck.sh"), (tmp_path, "clone/healthcheck.sh")):
        monkeypatch.chdir(folder)
        assert (
            command_line.script("healthcheck.sh --repair", room) == f"`bash {path} --repair --config {room}`"
        )
    assert command_line.script("healthcheck.sh", clone / "config.json") == "`bash clone/healthcheck.sh`"


def test_from_elsewhere_it_is_the_whole_path(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert command_line.program() in (str(own), str(own).lstrip("/"))


def test_where_a_shell_finds_this_very_one_it_is_the_bare_name(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(own.parent))
    assert command_line.command("log") == "`relay log`"


def test_another_one_on_the_path_is_not_this_one(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other" / "relay"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(other.parent))
    assert command_line.program() == "clone/.venv/bin/relay"
