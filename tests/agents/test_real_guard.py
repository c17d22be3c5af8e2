"""The guard's hook in the real programs: an edit is refused, with the reason, or goes on; by the real route."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from relay import guard_cli
from relay.agents.factory import AgentSpec, CodexAgent, CommandAgent
from relay.agents.setup.hooks import GuardHook, rooted
from relay.app.guard.inbox_routes import InboxRoutes
from relay.faces.http.routes.guard import GuardRoutes
from relay.model import SteeringMessage, Turn, TurnLimits
from tests.agents.conftest import MODELS, collect, end, furnish, log
from tests.faces.house import House, house, reader_of
from tests.fakes.llm import FakeService
from tests.standing import Folders, Standing

pytestmark = pytest.mark.real_agents
LIMITS = TurnLimits(timeout_s=90)
#: Codex by its app-server, and by the command that a turn has without it.
PRESETS = ("claude", "codex", "codex exec", "gemini", "qwen")


@pytest.fixture
def guard() -> Standing:
    return Standing()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
async def home(tmp_path: Path, project: Path, guard: Standing) -> AsyncIterator[House]:
    """A room that runs, as the hook finds it."""
    allows: Any = guard
    routes = GuardRoutes(allows, Folders(project, {"BOT": project}), reader_of("BOT"))
    async with house(tmp_path / "room", routes=routes.table()) as one:
        (tmp_path / "room" / ".relay" / "state.json").write_text(json.dumps({"url": f"http://{one.at}"}))
        yield one


@pytest.fixture
async def service() -> AsyncIterator[FakeService]:
    async with FakeService().serve() as service:
        service.patch = True
        yield service


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where the hook's own files are. Gemini reads them only below folders that root alone can write."""
    if not rooted(Path.home()):
        yield tmp_path / "room" / ".relay" / "guard"
        return
    with tempfile.TemporaryDirectory(prefix=".relay-test-", dir=Path.home()) as one:
        yield Path(one)


@pytest.fixture
def codex_home() -> Iterator[Path]:
    """Codex makes its helper programs in no folder below /tmp, and finds no sandbox then."""
    with tempfile.TemporaryDirectory(prefix=".relay-test-", dir=Path.home()) as one:
        yield Path(one)


@pytest.fixture
def made(
    real_programs: Path, tmp_path: Path, project: Path, service: FakeService, folder: Path, codex_home: Path
):
    env = furnish(tmp_path / "home", service)
    env["codex"]["CODEX_HOME"] = str(codex_home)
    args = {"codex": ("--config", f'openai_base_url="{service.url}/v1"')}
    script, config = str(Path(guard_cli.__file__)), str(tmp_path / "room" / "config.json")
    words = (sys.executable, "-I", "-S", script, "hook", "--agent", "BOT", "--config", config)

    def make(name: str) -> CommandAgent:
        preset = name.split(maxsplit=1)[0]
        spec = AgentSpec(
            "BOT",
            preset=preset,
            cwd=project,
            env=env[preset],
            args=args.get(preset, ()),
            model=MODELS.get(preset),
            guard=GuardHook(words, folder),
        )
        path = f"{real_programs}:{os.environ['PATH']}"
        by = CodexAgent if name == "codex" else CommandAgent
        return by(spec, daemon_env={"PATH": path, "HOME": str(tmp_path / "home")})

    return make


Make = Callable[[str], CommandAgent]


def skip_without_sandbox(preset: str, real_programs: Path, home: Path) -> None:
    """Codex writes by a sandbox that not every machine allows, nor every home."""
    if preset.startswith("codex"):
        words = [
            str(real_programs / "codex"),
            "sandbox",
            "-c",
            'sandbox_mode="workspace-write"',
            "--",
            "true",
        ]
        env = os.environ | {"CODEX_HOME": str(home)}
        if subprocess.run(words, capture_output=True, check=False, env=env).returncode:
            pytest.skip("this machine allows no sandbox to codex")


@pytest.mark.parametrize("preset", PRESETS)
async def test_a_contested_edit_is_refused_and_the_model_reads_why(
    preset: str, made: Make, home: House, guard: Standing, service: FakeService, project: Path
) -> None:
    if preset == "gemini" and not rooted(Path.home()):
        pytest.skip("Gemini takes no hook of a user who is not root; docs/agents.md says so")
    guard.contested = {"new.txt"}
    service.write = str(project / "new.txt")
    parts = await collect(made(preset), Turn("BOT", "hi", may_edit=True, limits=LIMITS))
    assert end(parts).failure is None, parts
    assert not (project / "new.txt").exists()
    assert [(agent, place.path) for agent, place in guard.asked] == [("BOT", "new.txt")], log(parts)
    assert "take other work first" in service.requests[-1]


@pytest.mark.parametrize("preset", PRESETS)
async def test_a_clear_edit_goes_on(
    preset: str,
    made: Make,
    home: House,
    guard: Standing,
    service: FakeService,
    project: Path,
    real_programs: Path,
    codex_home: Path,
) -> None:
    skip_without_sandbox(preset, real_programs, codex_home)
    service.write = str(project / "new.txt")
    parts = await collect(made(preset), Turn("BOT", "hi", may_edit=True, limits=LIMITS))
    assert end(parts).failure is None, parts
    assert (project / "new.txt").read_text().strip() == "x"
    asked = [place.path for _, place in guard.asked]
    if preset == "gemini" and not rooted(Path.home()):
        assert asked == [] and "edits are not guarded" in log(parts)
    else:
        assert asked == ["new.txt"]


@pytest.mark.parametrize("preset", PRESETS)
async def test_without_a_room_the_edit_goes_on(
    preset: str, made: Make, service: FakeService, project: Path, real_programs: Path, codex_home: Path
) -> None:
    skip_without_sandbox(preset, real_programs, codex_home)
    service.write = str(project / "new.txt")
    parts = await collect(made(preset), Turn("BOT", "hi", may_edit=True, limits=LIMITS))
    assert end(parts).failure is None, parts
    assert (project / "new.txt").read_text().strip() == "x"


@pytest.mark.parametrize("preset", PRESETS)
async def test_the_hook_leaves_the_users_files_alone(
    preset: str, made: Make, home: House, service: FakeService, tmp_path: Path, project: Path
) -> None:
    service.write = str(project / "new.txt")
    mine = [tmp_path / "home" / name / "settings.json" for name in (".gemini", ".qwen")]
    before = [file.read_text() for file in mine]
    await collect(made(preset), Turn("BOT", "hi", may_edit=True, limits=LIMITS))
    assert [file.read_text() for file in mine] == before
    written = [path for path in (tmp_path / "home").rglob("*") if path.is_file() and path.suffix != ".jsonl"]
    assert not [path for path in written if b"guard_cli" in path.read_bytes()]
    assert not [name for name in (".claude", ".gemini", ".qwen") if (project / name).exists()]


class Waiting:
    """What waits for the running turn in the room: one message, until the hook says that it stands in the turn."""

    def __init__(self) -> None:
        self.heard_after: list[str] = []

    async def take(self, agent: str, session: str) -> list[SteeringMessage]:
        return [] if self.heard_after else [SteeringMessage("m1", "[ANN] turn left")]

    async def heard(self, agent: str, messages: Sequence[str], after: str, *, session: str) -> bool:
        self.heard_after.append(after)
        return True


@pytest.mark.parametrize("preset", ["gemini", "qwen"])
async def test_a_hook_tells_the_model_after_a_tool(
    preset: str, made: Make, service: FakeService, tmp_path: Path, project: Path
) -> None:
    if preset == "gemini" and not rooted(Path.home()):
        pytest.skip("Gemini takes no hook of a user who is not root; docs/agents.md says so")
    service.write, waiting = str(project / "new.txt"), Waiting()
    workers: Any = waiting
    async with house(tmp_path / "room", routes=InboxRoutes(workers, reader_of("BOT")).table()) as one:
        (tmp_path / "room" / ".relay" / "state.json").write_text(json.dumps({"url": f"http://{one.at}"}))
        parts = await collect(made(preset), Turn("BOT", "hi", may_edit=True, room_session="s", limits=LIMITS))
    assert end(parts).failure is None, parts
    assert waiting.heard_after == ["write_file"]
    assert ["turn left" in body for body in service.requests] == [False, True]
