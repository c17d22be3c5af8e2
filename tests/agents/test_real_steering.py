"""The real programs are told something while they work, and the model reads it: the receipts are their own."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from relay.agents.factory import AgentSpec, CommandAgent, Permissions
from relay.agents.setup.hooks import GuardHook
from relay.model import DeliveredPart, Hears, Part, SessionPart, SteeringMessage, ToolPart, Turn, TurnLimits
from tests.agents.conftest import MODELS, end, furnish, log
from tests.agents.test_command import until
from tests.fakes.llm import FakeService
from tests.standing import REASON, Standing

pytestmark = pytest.mark.real_agents
LIMITS = TurnLimits(timeout_s=90)
Make = Callable[..., CommandAgent]
PRESETS = ("claude", "pi")


@pytest.fixture
async def service() -> AsyncIterator[FakeService]:
    async with FakeService().serve() as service:
        yield service


@pytest.fixture
def made(real_programs: Path, tmp_path: Path, service: FakeService) -> Make:
    """Agents that are asked on their pipe, by the names of their presets."""
    (tmp_path / "project").mkdir()
    env = furnish(tmp_path / "home", service)

    def make(preset: str, **more: Any) -> CommandAgent:
        judge = more.pop("judge", None)
        more = {"preset": preset, "env": env[preset], "model": MODELS.get(preset), **more}
        spec = AgentSpec("BOT", cwd=tmp_path / "project", **more)
        daemon = {"PATH": f"{real_programs}:{os.environ['PATH']}", "HOME": str(tmp_path / "home")}
        return CommandAgent(spec, daemon_env=daemon, guard=judge)

    return make


async def told(agent: CommandAgent, turn: Turn, when: Callable[[Part], bool]) -> list[Part]:
    """The parts of a turn that is told to turn left as soon as a part comes that `when` is true of."""
    parts: list[Part] = []
    async for part in agent.run(turn):
        if when(part):
            turn.inbox.put(SteeringMessage("m1", "[ANN] turn left"))
        parts.append(part)
    return parts


def receipts(parts: list[Part]) -> list[DeliveredPart]:
    return [part for part in parts if isinstance(part, DeliveredPart)]


@pytest.mark.parametrize(
    ("preset", "shell", "more"),
    [
        ("claude", "Bash", {"args": ("--allowedTools", "Bash")}),
        ("pi", "bash", {"permissions": Permissions.SKIP_ALL_CHECKS}),
    ],
)
async def test_it_hears_a_message_behind_its_tool(
    preset: str, shell: str, more: dict[str, Any], made: Make, service: FakeService
) -> None:
    service.call = (shell, {"command": "sleep 1", **({"description": "wait"} if preset == "claude" else {})})
    agent = made(preset, **more)
    assert (await agent.probe()).channel.hears is Hears.BOUNDARY
    turn = Turn("BOT", "hi", may_edit=True, limits=LIMITS)
    parts = await told(agent, turn, lambda part: isinstance(part, ToolPart))
    assert (end(parts).failure, end(parts).text) == (None, "Hello there."), parts
    assert receipts(parts) == [DeliveredPart(("m1",), after=shell)]
    assert ["turn left" in body for body in service.requests] == [False, True]
    assert not turn.inbox.hears


@pytest.mark.parametrize("preset", PRESETS)
async def test_a_message_that_races_the_end_is_delivered_once_or_not_at_all(
    preset: str, made: Make, service: FakeService
) -> None:
    agent, chance = made(preset), random.Random(18)
    outcomes: list[tuple[int, int]] = []
    for _ in range(10):
        service.requests.clear()
        turn = Turn("BOT", "hi", limits=LIMITS)

        async def put(turn: Turn = turn) -> None:
            await turn.inbox.opened.wait()
            await asyncio.sleep(chance.uniform(0, 0.25))
            turn.inbox.put(SteeringMessage("m1", "[ANN] turn left"))

        putting = asyncio.create_task(put())
        parts = await told(agent, turn, lambda part: False)
        putting.cancel()
        assert end(parts).failure is None, parts
        heard = sum("turn left" in body for body in service.requests)
        outcomes.append((len(receipts(parts)), heard))
    assert set(outcomes) <= {(0, 0), (1, 1)}, outcomes


@pytest.mark.parametrize("preset", PRESETS)
async def test_it_asks_the_guard_on_its_own_pipe(
    preset: str, made: Make, service: FakeService, tmp_path: Path
) -> None:
    guard = Standing("new.txt")
    service.write = str(tmp_path / "project" / "new.txt")
    agent = made(preset, judge=guard, guard=GuardHook(("/bin/false",), tmp_path / "guard"))
    turn = Turn("BOT", "hi", may_edit=True, room_session="s", limits=LIMITS)
    parts = await told(agent, turn, lambda part: False)
    assert end(parts).failure is None, log(parts)
    assert not Path(service.write).exists()
    assert [(agent, place.path) for agent, place in guard.asked] == [("BOT", "new.txt")], log(parts)
    assert guard.sessions == ["s"] and REASON in service.requests[-1].replace("\\u2013", "-")


@pytest.mark.parametrize("preset", PRESETS)
async def test_it_goes_on_with_an_edit_that_nothing_stands_against(
    preset: str, made: Make, service: FakeService, tmp_path: Path
) -> None:
    guard = Standing()
    guard.notes["new.txt"] = "BOB reads new.txt."
    service.write = str(tmp_path / "project" / "new.txt")
    agent = made(preset, judge=guard, guard=GuardHook(("/bin/false",), tmp_path / "guard"))
    parts = await told(agent, Turn("BOT", "hi", may_edit=True, limits=LIMITS), lambda part: False)
    assert end(parts).failure is None, log(parts)
    assert Path(service.write).read_text() == "x" and guard.asked[0][1].text == b"x"
    assert "BOB reads new.txt." in service.requests[-1]


async def test_claude_s_interrupted_turn_is_resumed_with_what_it_was_told(
    made: Make, service: FakeService, tmp_path: Path
) -> None:
    """It is told to stop on its pipe: its conversation says so. A message that it had not taken in is the room's."""
    service.call = ("Bash", {"command": "sleep 1; touch began; sleep 300", "description": "wait"})
    agent = made("claude", args=("--allowedTools", "Bash"))
    turn, parts = Turn("BOT", "the word is heron", may_edit=True, limits=LIMITS), list[Part]()

    async def run() -> None:
        async for part in agent.run(turn):
            parts.append(part)

    running = asyncio.create_task(run())
    await until((tmp_path / "project" / "began").exists)
    turn.inbox.put(SteeringMessage("m1", "[ANN] turn left"))
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled() and receipts(parts) == [] and not turn.inbox.hears
    (session,) = {part.id for part in parts if isinstance(part, SessionPart)}
    service.call = None
    again = Turn("BOT", "go on", resume=session, interrupted=True, may_edit=True, limits=LIMITS)
    parts = await told(agent, again, lambda part: False)
    assert end(parts).failure is None, log(parts)
    assert session in {part.id for part in parts if isinstance(part, SessionPart)}
    request = service.requests[-1]
    assert "the word is heron" in request and "go on" in request
    assert "interrupted by user" in request, "it does not know that its turn was cut off"
    assert "turn left" not in request
