"""The presets against the real programs: their flags, and whole turns against a model service of ours."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from relay.agents.factory import AgentSpec, CommandAgent, Permissions
from relay.agents.registry import presets
from relay.agents.setup.presets import Call
from relay.model import FailureClass, SessionPart, ToolPart, Turn, TurnLimits, UsagePart
from tests.agents.conftest import MODELS, REPOSITORY, collect, end, furnish, log, text
from tests.fakes.llm import FakeService

#: No registry has `agy` (docs/agents.md): a stand-in plays it in test_command.py and test_stream.py.
PROGRAMS = ["claude", "codex", "gemini", "pi", "qwen"]

pytestmark = pytest.mark.real_agents

GONE = "11111111-1111-4111-8111-111111111111"
LIMITS = TurnLimits(timeout_s=90)
HELP = {
    "claude": [["--help"]],
    "codex": [["exec", "--help"], ["exec", "resume", "--help"]],
    "gemini": [["--help"]],
    "pi": [["--help"]],
    "qwen": [["--help"]],
}


def pinned() -> dict[str, str]:
    script = REPOSITORY / "scripts" / "real-agents.sh"
    said = subprocess.run(["bash", script, "--versions"], capture_output=True, text=True, check=True).stdout
    return dict(line.split() for line in said.splitlines())


@pytest.fixture
def daemon_env(real_programs: Path, tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "home"
    (home / ".gemini").mkdir(parents=True)
    return {"PATH": f"{real_programs}:{os.environ['PATH']}", "HOME": str(home)}


def made(preset: str, daemon: dict[str, str], tmp_path: Path, **more: object) -> CommandAgent:
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    return CommandAgent(AgentSpec("BOT", preset=preset, cwd=project, **more), daemon_env=daemon)  # type: ignore[arg-type]


@pytest.fixture
async def service() -> AsyncIterator[FakeService]:
    async with FakeService().serve() as service:
        yield service


@pytest.fixture
def served(daemon_env: dict[str, str], tmp_path: Path, service: FakeService):
    """Agents whose real program talks to our service."""
    env = furnish(tmp_path / "home", service)
    args = {"codex": ("--config", f'openai_base_url="{service.url}/v1"')}

    def make(preset: str, permissions: Permissions = Permissions.AUTO) -> CommandAgent:
        return made(
            preset,
            daemon_env,
            tmp_path,
            env=env[preset],
            args=args.get(preset, ()),
            model=MODELS.get(preset),
            permissions=permissions,
        )

    return make


HELPS: dict[tuple[str, ...], str] = {}


def help_of(preset: str, env: dict[str, str], arguments: list[str]) -> str:
    key = (preset, *arguments)
    if key not in HELPS:
        done = subprocess.run(key, env=env, capture_output=True, text=True, timeout=60, check=True)
        HELPS[key] = done.stdout
    return HELPS[key]


def section(said: str, flag: str) -> str | None:
    """What the help says about one flag, on one line; None when it does not know it."""
    lines = said.splitlines()
    for number, line in enumerate(lines):
        if not line.lstrip().startswith("-") or flag not in re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", line):
            continue
        rest = []
        for after in lines[number + 1 :]:
            if after.lstrip().startswith("-") and not after.lstrip().startswith("- "):
                break
            rest.append(after.strip())
        return " ".join([line.strip(), *rest])
    return None


@pytest.mark.parametrize("preset", PROGRAMS)
@pytest.mark.parametrize("permissions", [each for each in Permissions if each is not Permissions.AUTO])
@pytest.mark.parametrize("session", [None, GONE])
def test_every_flag_and_listed_value_exists(
    preset: str, permissions: Permissions, session: str | None, daemon_env: dict[str, str]
) -> None:
    arguments = presets()[preset].arguments(Call(permissions, model="m", effort="low", session=session))
    said = "\n".join(help_of(preset, daemon_env, each) for each in HELP[preset])
    flags = [(number, each) for number, each in enumerate(arguments) if each.startswith("-") and each != "-"]
    assert len(flags) >= 3
    for number, flag in flags:
        known = section(said, flag)
        assert known is not None, f"{preset} knows no {flag}"
        choices = re.search(r"(?:choices|possible values): ([^\])]*)", known)
        if choices and number + 1 < len(arguments):
            assert arguments[number + 1] in re.findall(r"[\w-]+", choices[1]), known


@pytest.mark.parametrize("preset", PROGRAMS)
async def test_the_installed_versions_are_the_pinned_ones(
    preset: str, daemon_env: dict[str, str], tmp_path: Path
) -> None:
    seen = await made(preset, daemon_env, tmp_path).probe()
    assert seen.installed
    assert seen.version == pinned()[preset]
    assert f"{preset} {seen.version}" in (REPOSITORY / "docs" / "agents.md").read_text()


@pytest.mark.parametrize("preset", PROGRAMS)
async def test_without_credentials_it_is_not_signed_in(
    preset: str, daemon_env: dict[str, str], tmp_path: Path
) -> None:
    parts = await collect(made(preset, daemon_env, tmp_path), Turn("BOT", "say hi", limits=LIMITS))
    assert end(parts).failure is FailureClass.NOT_SIGNED_IN
    assert presets()[preset].sign_in in end(parts).detail


@pytest.mark.parametrize("preset", PROGRAMS)
async def test_a_conversation_of_two_turns(preset: str, served, service: FakeService) -> None:
    agent = served(preset)
    first = await collect(agent, Turn("BOT", "the word is heron", limits=LIMITS))
    assert (end(first).failure, end(first).text, text(first)) == (None, "Hello there.", "Hello there."), first
    usage = [part for part in first if isinstance(part, UsagePart)][-1]
    assert usage.input_tokens > 0 and usage.output_tokens > 0
    (session,) = {part.id for part in first if isinstance(part, SessionPart)}

    second = await collect(agent, Turn("BOT", "and now?", resume=session, limits=LIMITS))
    assert end(second).failure is None
    assert {part.id for part in second if isinstance(part, SessionPart)} == {session}
    assert "the word is heron" in service.requests[-1]
    again = [part for part in second if isinstance(part, UsagePart)][-1]
    assert (again.input_tokens, again.output_tokens) == (usage.input_tokens, usage.output_tokens)


@pytest.mark.parametrize("preset", PROGRAMS)
async def test_a_conversation_that_is_gone_is_started_anew(preset: str, served, service: FakeService) -> None:
    parts = await collect(served(preset), Turn("BOT", "hi", resume=GONE, limits=LIMITS))
    assert end(parts).failure is None
    assert f"conversation {GONE} is gone" in log(parts)
    assert len(service.requests) == 1
    assert [part.id for part in parts if isinstance(part, SessionPart)] != [GONE]


@pytest.mark.parametrize("preset", PROGRAMS)
async def test_a_read_only_turn_cannot_write(
    preset: str, served, service: FakeService, tmp_path: Path
) -> None:
    target = tmp_path / "project" / "new.txt"
    agent = served(preset)
    service.write = str(target)
    parts = await collect(agent, Turn("BOT", "hi", limits=LIMITS))
    assert end(parts).failure is None
    assert end(parts).text == "Hello there."
    assert len(service.requests) == 2, "the model's call of the tool was not answered"
    assert not target.exists()


@pytest.mark.parametrize(
    "preset", ["claude", "gemini", "pi", "qwen"]
)  # codex needs a sandbox that not every machine allows
async def test_a_turn_that_may_edit_writes(preset: str, served, service: FakeService, tmp_path: Path) -> None:
    target = tmp_path / "project" / "new.txt"
    agent = served(preset)
    service.write = str(target)
    parts = await collect(agent, Turn("BOT", "hi", may_edit=True, limits=LIMITS))
    assert end(parts).failure is None
    assert target.read_text().strip() == "x"
    assert [part.paths for part in parts if isinstance(part, ToolPart)] == [(str(target),)]


async def test_codex_is_told_its_sandbox_in_both_forms_of_its_command(served, service: FakeService) -> None:
    agent = served("codex")
    parts = await collect(agent, Turn("BOT", "hi", limits=LIMITS))
    assert "sandbox_mode` is `read-only" in service.requests[-1]
    (session,) = [part.id for part in parts if isinstance(part, SessionPart)]
    turn = Turn("BOT", "hi", resume=session, may_edit=True, limits=LIMITS)
    await collect(agent, turn)
    assert "sandbox_mode` is `workspace-write" in service.requests[-1]
    await collect(agent, replace(turn, may_edit=False))
    assert service.requests[-1].rfind("sandbox_mode` is `read-only") > service.requests[-1].rfind(
        "sandbox_mode` is `workspace-write"
    )


@pytest.mark.parametrize("preset", PROGRAMS)
async def test_a_refused_key_is_not_signed_in(preset: str, served, service: FakeService) -> None:
    google = {
        "code": 400,
        "message": "API key not valid. Please pass a valid API key.",
        "status": "INVALID_ARGUMENT",
    }
    service.error = {
        "claude": (
            401,
            {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}},
        ),
        "codex": (401, {"error": {"message": "Incorrect API key provided", "type": "invalid_request_error"}}),
        "gemini": (400, {"error": google}),
    }.get(preset, (401, {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}))
    parts = await collect(served(preset), Turn("BOT", "hi", limits=LIMITS))
    assert end(parts).failure is FailureClass.NOT_SIGNED_IN, parts


@pytest.mark.parametrize(
    "preset", ["claude", "codex"]
)  # gemini goes on trying for minutes, with other models
async def test_a_spent_quota_is_a_rate_limit(preset: str, served, service: FakeService) -> None:
    limit = {"type": "rate_limit_error", "message": "This request would exceed the rate limit"}
    spent = {
        "type": "usage_limit_reached",
        "message": "reached",
        "plan_type": "plus",
        "resets_in_seconds": 3700,
    }
    service.error = {
        "claude": (429, {"type": "error", "error": limit}),
        "codex": (429, {"error": spent}),
    }[preset]
    agent = served(preset)
    if preset == "claude":  # it would wait and try ten times
        agent = CommandAgent(
            replace(agent.spec, env={**agent.spec.env, "CLAUDE_CODE_MAX_RETRIES": "0"}),
            daemon_env=agent._daemon_env,
        )
    parts = await collect(agent, Turn("BOT", "hi", limits=LIMITS))
    assert end(parts).failure is FailureClass.RATE_LIMIT, parts
