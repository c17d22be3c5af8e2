"""The real programs over ACP, against a model service of ours: turns, conversations, permissions, the guard."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from relay.agents.factory import AcpAgent, AgentSpec, Permissions
from relay.agents.registry import acp_presets
from relay.model import (
    DeliveredPart,
    FailureClass,
    Hears,
    Part,
    SessionPart,
    SteeringMessage,
    ToolPart,
    Turn,
    TurnLimits,
    UsagePart,
)
from tests.agents.conftest import REPOSITORY, collect, end, log, text
from tests.agents.test_real_agents import pinned
from tests.fakes.llm import FakeService
from tests.standing import REASON, Standing

pytestmark = pytest.mark.real_agents
LIMITS = TurnLimits(timeout_s=90)
GONE = "11111111-1111-4111-8111-111111111111"
Make = Callable[..., AcpAgent]
#: What a shell does until the test says that it may go on.
WAIT = "until [ -e go ]; do sleep 0.1; done"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "home" / ".gemini").mkdir(parents=True)
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
async def service() -> AsyncIterator[FakeService]:
    async with FakeService().serve() as service:
        service.patch = True
        yield service


@pytest.fixture
def made(real_programs: Path, tmp_path: Path, project: Path, service: FakeService) -> Make:
    """An agent whose real program, the pinned one, talks to our service; `signed`: with a sign-in."""
    home = tmp_path / "home"
    adapters = real_programs.parent.parent / "acp" / "node_modules" / ".bin"
    path = f"{real_programs}:{adapters}:{os.environ['PATH']}"
    own = {
        "claude": {"CLAUDE_CODE_EXECUTABLE": str(real_programs / "claude")},
        "codex": {"CODEX_PATH": str(real_programs / "codex"), "NO_BROWSER": "1"},
        "gemini": {},
    }
    served = {
        "claude": {"ANTHROPIC_BASE_URL": service.url, "ANTHROPIC_API_KEY": "sk-none"},
        "codex": {"CODEX_CONFIG": json.dumps({"openai_base_url": f"{service.url}/v1"})},
        "gemini": {"GOOGLE_GEMINI_BASE_URL": service.url, "GEMINI_API_KEY": "none"},
    }

    def make(
        preset: str,
        *,
        signed: bool = True,
        permissions: Permissions = Permissions.AUTO,
        **more: object,
    ) -> AcpAgent:
        settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
        (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
        if preset == "codex" and signed:
            words = [str(real_programs / "codex"), "login", "--with-api-key"]
            env = {"PATH": path, "HOME": str(home)}
            subprocess.run(words, input=b"sk-none", env=env, check=True, capture_output=True)
        env = {**own[preset], **(served[preset] if signed else {})}
        spec = AgentSpec("BOT", kind="acp", preset=preset, cwd=project, env=env, permissions=permissions)
        return AcpAgent(spec, daemon_env={"PATH": path, "HOME": str(home)}, **more)  # type: ignore[arg-type]

    return make


def _age_gemini(home: Path) -> None:
    """Gemini CLI 0.61.0 names a conversation's file by the minute, and loading one over ACP within the minute in
    which it began overwrites it: relay starts anew then (docs/agents.md). Here a minute is to have passed."""
    for path in home.glob(".gemini/tmp/*/chats/session-*.jsonl"):
        path.rename(path.with_name(re.sub(r"T\d\d-\d\d-", "T00-00-", path.name)))


def test_the_adapters_are_those_of_the_docs(real_programs: Path) -> None:
    said = (REPOSITORY / "docs" / "agents.md").read_text()
    for name in ("claude-agent-acp", "codex-acp"):
        assert f"`{name} {pinned()[name]}`" in said


@pytest.mark.parametrize("preset", acp_presets())
async def test_the_version_is_told(preset: str, made: Make) -> None:
    name = acp_presets()[preset].preset.program
    seen = await made(preset).probe()
    assert (seen.installed, seen.version) == (True, pinned()[name])


@pytest.mark.parametrize("preset", acp_presets())
async def test_a_conversation_of_two_turns(
    preset: str, made: Make, service: FakeService, tmp_path: Path
) -> None:
    agent = made(preset)
    first = await collect(agent, Turn("BOT", "the word is heron", limits=LIMITS))
    assert (end(first).failure, end(first).text, text(first)) == (None, "Hello there.", "Hello there."), first
    (session,) = {part.id for part in first if isinstance(part, SessionPart)}
    used = [part for part in first if isinstance(part, UsagePart)][-1]
    assert used.input_tokens > 0 and used.output_tokens > 0

    _age_gemini(tmp_path / "home")
    before = len(service.requests)
    second = await collect(agent, Turn("BOT", "and now?", resume=session, limits=LIMITS))
    assert (end(second).failure, text(second)) == (None, "Hello there."), second
    assert {part.id for part in second if isinstance(part, SessionPart)} == {session}
    assert "the word is heron" in service.requests[-1]
    again = [part for part in second if isinstance(part, UsagePart)][-1]
    assert (again.input_tokens, again.output_tokens) == (used.input_tokens, used.output_tokens)
    # What the program asks beside, as a title for the conversation, costs too, and comes when it comes.
    assert again.cost_usd <= max(2, len(service.requests) - before) * used.cost_usd


@pytest.mark.parametrize("preset", acp_presets())
async def test_a_conversation_that_is_gone_is_started_anew(
    preset: str, made: Make, service: FakeService
) -> None:
    parts = await collect(made(preset), Turn("BOT", "hi", resume=GONE, limits=LIMITS))
    assert (end(parts).failure, end(parts).text) == (None, "Hello there."), parts
    assert f"conversation {GONE} is gone" in log(parts)
    assert [part.id for part in parts if isinstance(part, SessionPart)] != [GONE]


@pytest.mark.parametrize("preset", acp_presets())
async def test_without_credentials_it_is_not_signed_in(preset: str, made: Make) -> None:
    parts = await collect(made(preset, signed=False), Turn("BOT", "hi", limits=LIMITS))
    assert end(parts).failure is FailureClass.NOT_SIGNED_IN, parts
    assert acp_presets()[preset].preset.sign_in in end(parts).detail


@pytest.mark.parametrize("preset", acp_presets())
async def test_a_turn_that_may_edit_writes_once_the_guard_was_asked(
    preset: str, made: Make, service: FakeService, project: Path
) -> None:
    guard = Standing()
    service.write = str(project / "new.txt")
    parts = await collect(made(preset, guard=guard), Turn("BOT", "hi", may_edit=True, limits=LIMITS))
    assert (end(parts).failure, end(parts).text) == (None, "Hello there."), parts
    assert (project / "new.txt").read_text().strip() == "x"
    # The watch also asks about what a program puts there for a moment (a temporary file, its own folder).
    assert "new.txt" in {place.path for _, place in guard.asked}
    told = [place.path for part in parts if isinstance(part, ToolPart) for place in part.places]
    assert str(project / "new.txt") in told


@pytest.mark.parametrize("preset", acp_presets())
async def test_a_contested_edit_is_not_made_and_the_model_reads_why(
    preset: str, made: Make, service: FakeService, project: Path
) -> None:
    service.write = str(project / "new.txt")
    agent = made(preset, guard=Standing("new.txt"))
    parts = await collect(agent, Turn("BOT", "hi", may_edit=True, limits=LIMITS))
    assert (end(parts).failure, end(parts).text) == (None, "Hello there."), parts
    assert not (project / "new.txt").exists()
    assert REASON in service.requests[-1]
    assert len([part for part in parts if isinstance(part, SessionPart)]) == 1


@pytest.mark.parametrize("preset", acp_presets())
async def test_a_read_only_turn_cannot_write(
    preset: str, made: Make, service: FakeService, project: Path
) -> None:
    service.write = str(project / "new.txt")
    parts = await collect(made(preset), Turn("BOT", "hi", limits=LIMITS))
    assert end(parts).failure is None, parts
    assert not (project / "new.txt").exists() and "may only read" in log(parts)


@pytest.mark.parametrize(
    ("preset", "call"),
    [
        ("claude", ("Bash", {"command": WAIT, "description": "wait"})),
        ("codex", ("exec_command", {"cmd": WAIT})),
    ],
)
async def test_a_message_lands_in_the_prompt_that_runs(
    preset: str, call: tuple[str, dict[str, str]], made: Make, service: FakeService, project: Path
) -> None:
    """By `_session/steering`, which these adapters offer."""
    service.call = call
    agent = made(
        preset, permissions=Permissions.SKIP_ALL_CHECKS
    )  # no sandbox, which not every machine allows
    seen = await agent.probe()
    assert (seen.channel.name, seen.channel.hears) == ("_session/steering", Hears.BOUNDARY)
    turn, parts = Turn("BOT", "hi", may_edit=True, limits=LIMITS), list[Part]()
    async with aclosing(agent.run(turn)) as stream:
        async for part in stream:
            if isinstance(part, ToolPart):
                turn.inbox.put(SteeringMessage("m1", "[ANN] turn left"))
            parts.append(part)
    assert (end(parts).failure, end(parts).text) == (None, "Hello there."), parts
    (delivered,) = [part for part in parts if isinstance(part, DeliveredPart)]
    assert delivered.ids == ("m1",) and delivered.after, log(parts)
    heard = ["turn left" in body for body in service.requests]  # some adapters ask the model for a title too
    assert heard[0] is False and any(heard), log(parts)


@pytest.mark.parametrize("preset", ["gemini"])
async def test_an_agent_that_offers_no_steering_says_so(preset: str, made: Make) -> None:
    seen = await made(preset).probe()
    assert seen.channel.hears is Hears.NEXT and "_session/steering" in seen.channel.why
