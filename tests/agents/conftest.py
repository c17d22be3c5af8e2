from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import aclosing
from pathlib import Path

import pytest

from relay.agents.factory import AgentSpec, CommandAgent
from relay.model import Agent, EndPart, Guard, LogPart, Part, TextPart, Turn
from tests.fakes.llm import FakeService

FAKES = Path(__file__).parent.parent / "fakes"
REPOSITORY = Path(__file__).parent.parent.parent
LEFT_OUT: list[str] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if LEFT_OUT:
        terminalreporter.write_line(
            f"left out: {len(LEFT_OUT)} tests of the real agent programs; "
            "bash scripts/real-agents.sh installs them"
        )


@pytest.fixture
def real_programs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the real programs; those that want a newer Node.js are on the PATH. In CI they must be there;
    else the summary says what is left out."""
    root = _installed()
    folder = root / "node_modules" / ".bin"
    wanted = {
        folder: ("claude", "codex", "gemini"),
        root / "acp" / "node_modules" / ".bin": ("claude-agent-acp", "codex-acp"),
        root / "newer" / "bin": ("pi", "qwen"),
    }
    missing = [name for place, names in wanted.items() for name in names if not (place / name).exists()]
    if missing:
        _leave_out(request, f"{', '.join(missing)} missing in {root}")
    monkeypatch.setenv("PATH", f"{root / 'newer' / 'bin'}:{os.environ['PATH']}")
    return folder


#: The models of ours by which the real programs that want one ask for it.
MODELS = {"pi": "fake/m", "qwen": "m"}


def furnish(home: Path, service: FakeService) -> dict[str, dict[str, str]]:
    """Lets the real programs of this home ask our model service; gives the variables that each wants."""
    files = {
        ".gemini/settings.json": {"security": {"auth": {"selectedType": "gemini-api-key"}}},
        # Without the version it would write that itself; with its memory it asks the model once more after a turn.
        ".qwen/settings.json": {
            "$version": 4,
            "security": {"auth": {"selectedType": "openai"}},
            "memory": {"enableManagedAutoMemory": False},
        },
        ".pi/agent/models.json": service.pi_models(),
    }
    for name, content in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(json.dumps(content))
    return {
        "claude": {"ANTHROPIC_BASE_URL": service.url, "ANTHROPIC_API_KEY": "sk-none"},
        "codex": {"CODEX_API_KEY": "sk-none"},
        "gemini": {"GOOGLE_GEMINI_BASE_URL": service.url, "GEMINI_API_KEY": "none"},
        "pi": {},
        "qwen": {"OPENAI_BASE_URL": f"{service.url}/v1", "OPENAI_API_KEY": "sk-none"},
    }


@pytest.fixture
def old_mcp_clients(request: pytest.FixtureRequest) -> Path:
    """The folder of the official MCP clients of before 2025-11-25, as `real_programs`."""
    folder = _installed() / "mcp"
    if not (folder / "versions").exists():
        _leave_out(request, f"the older MCP clients are missing in {folder}")
    return folder


def _installed() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("RELAY_REAL_AGENTS") or cache / "relay" / "agents-cli")


def _leave_out(request: pytest.FixtureRequest, missing: str) -> None:
    what = f"{missing}; install with: bash scripts/real-agents.sh"
    if os.environ.get("CI"):
        pytest.fail(what)
    LEFT_OUT.append(request.node.nodeid)
    pytest.skip(what)


async def collect(agent: Agent, turn: Turn) -> list[Part]:
    """All parts of a turn, which must end with one EndPart and hold no other."""
    parts: list[Part] = []
    async with aclosing(agent.run(turn)) as stream:  # type: ignore[type-var]
        async for part in stream:
            parts.append(part)
    assert [isinstance(part, EndPart) for part in parts] == [False] * (len(parts) - 1) + [True], parts
    return parts


def end(parts: list[Part]) -> EndPart:
    assert isinstance(parts[-1], EndPart)
    return parts[-1]


def text(parts: list[Part]) -> str:
    return "".join(part.text for part in parts if isinstance(part, TextPart))


def log(parts: list[Part]) -> str:
    return "\n".join(part.line for part in parts if isinstance(part, LogPart))


MakeAgent = Callable[..., CommandAgent]


@pytest.fixture
def make_agent(tmp_path: Path) -> MakeAgent:
    """A preset's agent whose program is the fake one, made to act in the way that `act` says."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()

    def make(
        preset: str = "claude",
        act: str = "answer",
        env: Mapping[str, str] | None = None,
        judge: Guard | None = None,
        **more: object,
    ):
        program = bin_folder / preset
        program.unlink(missing_ok=True)
        program.symlink_to(FAKES / "agent.py")
        own = {"FAKE_ACT": act, "FAKE_DIR": str(tmp_path), **(env or {})}
        spec = AgentSpec(name="BOT", preset=preset, cwd=tmp_path, env=own, **more)  # type: ignore[arg-type]
        path = f"{bin_folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        return CommandAgent(spec, daemon_env={"PATH": path, "HOME": str(tmp_path)}, guard=judge)

    return make
