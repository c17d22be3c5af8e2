"""The room's tools in the real programs: what `relay mcp install` writes is listed, what a turn is given is used."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from relay.agents.factory import AgentSpec, build_agent
from relay.agents.setup.hooks import GuardHook, rooted
from relay.agents.setup.mcp import McpServer
from relay.app.mcp.command import main
from relay.model import Turn, TurnLimits
from tests.agents.conftest import MODELS, REPOSITORY, collect, end, furnish, log
from tests.fakes.llm import FakeService

pytestmark = pytest.mark.real_agents
#: What each program calls the tool to its model.
TOOL = {
    "claude": "mcp__relay__acquire_lock",
    "codex": "mcp__relay__acquire_lock",
    "gemini": "mcp_relay_acquire_lock",
    "pi": "mcp__relay__acquire_lock",
    "qwen": "mcp__relay__acquire_lock",
}


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


@pytest.fixture
async def service() -> AsyncIterator[FakeService]:
    async with FakeService().serve() as service:
        yield service


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where files of ours are. Gemini reads them only below folders that root alone can write."""
    if not rooted(Path.home()):
        yield tmp_path / "guard"
        return
    with tempfile.TemporaryDirectory(prefix=".relay-test-", dir=Path.home()) as one:
        yield Path(one)


@pytest.mark.parametrize(
    ("kind", "preset"),
    [
        *((kind, preset) for kind in ("command", "acp") for preset in ("claude", "codex", "gemini")),
        ("command", "pi"),
        ("command", "qwen"),
    ],
)
async def test_an_agent_of_the_room_takes_a_lock(
    kind: str, preset: str, real_programs: Path, tmp_path: Path, service: FakeService, folder: Path
) -> None:
    """In a turn that may only read, with nobody there to be asked: as itself, in the session of its conversation."""
    if (kind, preset) == ("command", "gemini") and not rooted(Path.home()):
        pytest.skip("Gemini takes no settings of a user who is not root; docs/agents.md says so")
    home, room, project = tmp_path / "home", tmp_path / "room", tmp_path / "project"
    for one in (room, project):
        one.mkdir(parents=True)
    (room / "config.json").write_text('{"agents": []}')
    path = f"{real_programs}:{real_programs.parent.parent / 'acp/node_modules/.bin'}:{os.environ['PATH']}"
    daemon = {"PATH": path, "HOME": str(home), "RELAY_CONFIG": str(room / "config.json")}
    own = furnish(home, service)[preset]
    if kind == "acp":
        own |= {"claude": {"CLAUDE_CODE_EXECUTABLE": str(real_programs / "claude")}}.get(preset, {})
        if preset == "codex":
            own = {"CODEX_PATH": str(real_programs / "codex"), "NO_BROWSER": "1"}
            own["CODEX_CONFIG"] = json.dumps({"openai_base_url": f"{service.url}/v1"})
            words = [real_programs / "codex", "login", "--with-api-key"]
            subprocess.run(words, input=b"sk-none", env=daemon, check=True, capture_output=True)  # noqa: ASYNC221
    # The programs hand a server their own variables or a few of them: what it needs of ours here is in its command.
    server = McpServer(("env", f"PYTHONPATH={REPOSITORY}", sys.executable, "-m", "relay.cli", "mcp"))
    spec = AgentSpec(
        "BOT",
        kind=kind,
        preset=preset,
        cwd=project,
        env=own,
        model=MODELS.get(preset) if kind == "command" else None,
        args=("--config", f'openai_base_url="{service.url}/v1"')
        if (kind, preset) == ("command", "codex")
        else (),
        guard=GuardHook(("true",), folder),
        mcp=server,
    )
    service.call = (TOOL[preset], {"file_path": "src/a.py"})
    agent = build_agent(spec, daemon_env=daemon)
    turn = Turn("BOT", "hi", room_session="conversation-1", limits=TurnLimits(timeout_s=120))
    parts = await collect(agent, turn)
    assert end(parts).failure is None, parts
    with closing(sqlite3.connect(room / ".relay/events.db")) as database:
        held = database.execute("SELECT agent_id, session_id, path FROM file_locks").fetchall()
    assert held == [("BOT", "conversation-1", "src/a.py")], (log(parts), service.requests[-1][-3000:])
