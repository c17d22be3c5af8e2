"""What `relay mcp install` writes, as the real programs list it; and what they are sent by the server."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from relay.mcp_cli import main

pytestmark = pytest.mark.real_agents


@pytest.mark.parametrize("program", ["claude", "codex", "gemini"])
def test_the_programs_see_it(
    program: str, real_programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, room = tmp_path / "home", tmp_path / "room"
    (home / ".gemini").mkdir(parents=True)
    room.mkdir()
    (room / "config.json").write_text('{"agents": []}')
    (home / ".gemini/trustedFolders.json").write_text(json.dumps({str(room): "TRUST_FOLDER"}))
    for name in [name for name in os.environ if name.startswith(("RELAY_", "CODEX_", "CLAUDE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(room)
    assert main(["install", program]) == 0
    words = ("mcp", "list") if program == "gemini" else ("mcp", "get", "relay")
    done = subprocess.run(  # noqa: PLW1510 - its output says more than its code
        [real_programs / program, *words],
        cwd=room,
        env={**os.environ, "PATH": f"{real_programs}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0 and f"mcp --agent {program}" in said, said
