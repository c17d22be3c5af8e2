"""`relay agents doctor` over stand-ins of the programs: what it says, to people and as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FAKE = Path(__file__).parents[1] / "fakes" / "agent.py"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def room(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    for name in ("claude", "codex", "pi"):
        (tmp_path / "bin" / name).symlink_to(FAKE)
    env = {"FAKE_DIR": str(tmp_path)}
    agents = [
        {"name": "CLAUDE", "preset": "claude", "env": env},
        {"name": "CODEX", "preset": "codex", "env": env, "enabled": False},
        {"name": "GEMINI", "preset": "gemini", "env": env},
        {"name": "WRONG", "preset": "cluade"},
    ]
    (tmp_path / "config.json").write_text(json.dumps({"agents": agents}))
    return tmp_path


def doctor(room: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = f"{room / 'bin'}:{Path(sys.executable).parent}:/usr/bin:/bin"
    command = [sys.executable, "-m", "relay.cli", "agents", "doctor", "--config", str(room / "config.json")]
    env = {**os.environ, "PATH": path, "FAKE_DIR": str(room), "HOME": str(room), "PYTHONPATH": str(ROOT)}
    return subprocess.run([*command, *words], env=env, capture_output=True, text=True, cwd=room, check=False)


def test_it_says_how_each_agent_hears_and_why(room: Path) -> None:
    done = doctor(room)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    at = lines.index("CLAUDE (claude): installed 9.8.7")
    assert lines[at + 1].startswith("  gets messages during the turn by stream-json input: ")
    assert "CODEX (codex): installed 9.8.7, not signed in, switched off" in lines
    assert any(
        line.startswith("GEMINI (gemini): cannot take a turn. gemini is not on the PATH") for line in lines
    )
    assert any(
        "WRONG (cluade): cannot take a turn." in line and "nearest: 'claude'" in line for line in lines
    )


def test_it_says_it_as_json_and_names_the_programs_that_no_agent_uses(room: Path) -> None:
    found = json.loads(doctor(room, "--json").stdout)
    assert [one["name"] for one in found[:4]] == ["CLAUDE", "CODEX", "GEMINI", "WRONG"]
    assert found[0]["channel"]["hears"] == "boundary" and found[0]["signed_in"] is None
    assert found[1]["signed_in"] is False
    assert {one["preset"] for one in found[4:] if one["name"] is None} == {"agy", "pi", "qwen"}


def test_without_an_agent_that_can_take_a_turn_it_fails(room: Path) -> None:
    (room / "bin" / "claude").unlink()
    assert doctor(room).returncode == 1
