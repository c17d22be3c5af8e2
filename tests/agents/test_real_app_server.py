"""Codex by its real app-server, against a model service of ours."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from relay.agents.app_server.codex import CodexAgent
from relay.agents.app_server.turn import CHANNEL
from relay.agents.factory import AgentSpec, Permissions
from relay.agents.setup.hooks import GuardHook
from relay.model import (
    BriefPart,
    DebriefPart,
    DeliveredPart,
    FailureClass,
    Part,
    SessionPart,
    SteeringMessage,
    ToolPart,
    Turn,
    TurnLimits,
    UsagePart,
)
from tests.agents.conftest import collect, end, log, text
from tests.fakes.llm import FakeService

pytestmark = pytest.mark.real_agents
LIMITS = TurnLimits(timeout_s=90)
GONE = "11111111-1111-4111-8111-111111111111"
FREE = Permissions.SKIP_ALL_CHECKS  # no sandbox, which not every machine allows


@pytest.fixture
async def service(request: pytest.FixtureRequest) -> AsyncIterator[FakeService]:
    async with HelpedService().serve() if "helper" in request.node.name else FakeService().serve() as service:
        yield service


@pytest.fixture
def served(real_programs: Path, tmp_path: Path, service: FakeService) -> Callable[..., CodexAgent]:
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    env = {"PATH": f"{real_programs}:{os.environ['PATH']}", "HOME": str(tmp_path / "home")}

    def make(permissions: Permissions = Permissions.AUTO, *more: str, **fields: Any) -> CodexAgent:
        spec = AgentSpec(
            "BOT",
            preset="codex",
            cwd=tmp_path / "project",
            env={"CODEX_API_KEY": "sk-none"},
            args=("--config", f'openai_base_url="{service.url}/v1"', *more),
            permissions=permissions,
            **fields,
        )
        return CodexAgent(spec, daemon_env=env)

    return make


def asked(words: str = "hi", **more: object) -> Turn:
    return Turn("BOT", words, limits=LIMITS, **more)  # type: ignore[arg-type]


def session_of(parts: list[Part]) -> str:
    (session,) = {part.id for part in parts if isinstance(part, SessionPart)}
    return session


async def test_a_conversation_of_two_turns(served, service: FakeService, tmp_path: Path) -> None:
    agent = served()
    seen = await agent.probe()
    assert seen.channel == CHANNEL
    first = await collect(agent, asked("the word is heron"))
    assert (end(first).failure, end(first).text, text(first)) == (None, "Hello there.", "Hello there."), first
    usage = [part for part in first if isinstance(part, UsagePart)][-1]
    assert usage == UsagePart(100, 9, cache_read_tokens=20)
    second = await collect(agent, asked("and now?", resume=session_of(first)))
    assert end(second).failure is None and session_of(second) == session_of(first)
    assert "the word is heron" in service.requests[-1]
    assert [part for part in second if isinstance(part, UsagePart)][-1] == usage


async def test_a_conversation_that_is_gone_is_started_anew(served, service: FakeService) -> None:
    parts = await collect(served(), asked(resume=GONE))
    assert end(parts).failure is None and f"conversation {GONE} is gone" in log(parts)
    assert len(service.requests) == 1 and session_of(parts) != GONE


async def test_each_turn_has_its_own_sandbox_and_the_users_settings_stay(
    served, service: FakeService, tmp_path: Path
) -> None:
    session: str | None = None
    for permissions, mode in (
        (Permissions.READ_ONLY, "read-only"),
        (Permissions.EDIT, "workspace-write"),
        (FREE, "danger-full-access"),
        (Permissions.READ_ONLY, "read-only"),
    ):
        parts = await collect(served(permissions), asked(resume=session))
        session = session_of(parts)
        request = service.requests[-1]
        assert request.rfind("sandbox_mode` is `") == request.rfind(f"sandbox_mode` is `{mode}") > 0
    settings = tmp_path / "home" / ".codex" / "config.toml"
    assert not settings.exists(), "it noted something in the user's settings"


async def test_a_message_lands_inside_the_running_turn(served, service: FakeService) -> None:
    service.call = ("exec_command", {"cmd": "sleep 30"})
    agent, turn, parts = served(FREE), asked(), []
    async with aclosing(agent.run(turn)) as stream:
        async for part in stream:
            parts.append(part)
            if isinstance(part, ToolPart):
                turn.inbox.put(SteeringMessage("e7", "turn left"))
    (delivered,) = (part for part in parts if isinstance(part, DeliveredPart))
    assert delivered.ids == ("e7",) and "sleep 30" in delivered.after
    assert end(parts).failure is None and end(parts).text == "Hello there."
    assert len(service.requests) == 2
    assert service.requests[1].count("turn left") == 1


async def test_an_interrupted_turn_is_resumed_with_what_it_was_told(served, service: FakeService) -> None:
    service.call = ("exec_command", {"cmd": "sleep 30"})
    agent, turn = served(FREE), asked("the word is heron")
    sessions: list[str] = []
    async with aclosing(agent.run(turn)) as stream:
        async for part in stream:
            if isinstance(part, SessionPart):
                sessions.append(part.id)
            if isinstance(part, ToolPart):
                break
    assert turn.inbox.channel is None
    service.call = None
    parts = await collect(agent, asked("turn left", resume=sessions[0], interrupted=True))
    assert end(parts).failure is None
    request = service.requests[-1]
    assert "the word is heron" in request and "turn left" in request
    assert "turn_aborted" in request, "it does not know that its turn was cut off"


class HelpedService(FakeService):
    """Its model starts a helper by `multi_agent_v2`, which writes a file, and waits for it."""

    def _openai(self, body: str) -> list[dict[str, Any]]:
        said = json.loads(body)["input"]
        asked = [number for number, item in enumerate(said) if item.get("recipient") == "/root/writer"]
        if asked:
            self.write = None if any("_output" in item["type"] for item in said[asked[0] :]) else "new.txt"
            return super()._openai(body.replace("custom_tool_call_output", ""))
        used = [item["name"] for item in said if item["type"] == "function_call"]
        if used == ["spawn_agent", "wait_agent"]:
            return super()._openai(body)
        given = {"timeout_ms": 30_000} if used else {"task_name": "writer", "message": "write new.txt"}
        call = {"type": "function_call", "id": f"f{len(used)}", "call_id": f"f{len(used)}"}
        call |= {"name": "wait_agent" if used else "spawn_agent", "namespace": "collaboration"}
        began, *_, done = super()._openai(body)
        item = {**call, "arguments": json.dumps(given)}
        return [began, {"type": "response.output_item.done", "item": item}, done]


async def test_a_helper_of_its_second_way_is_told_and_asks_before_it_edits(
    served, service: HelpedService, tmp_path: Path
) -> None:
    service.patch = True
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ncat >> {tmp_path}/asked\n")
    hook.chmod(0o755)
    agent = served(FREE, "--enable", "multi_agent_v2", guard=GuardHook((str(hook),), tmp_path))
    parts = await collect(agent, asked(may_edit=True))
    assert (end(parts).failure, end(parts).text) == (None, "Hello there."), parts
    (brief,) = [part for part in parts if isinstance(part, BriefPart)]
    assert brief.brief == "writer"
    assert [part for part in parts if isinstance(part, DebriefPart)] == [
        DebriefPart(brief.helper, "Hello there.")
    ]
    by = {part.helper for part in parts if isinstance(part, ToolPart) and part.name == "file_change"}
    assert by == {brief.helper}, parts
    assert "new.txt" in (tmp_path / "asked").read_text()
    usage = [part for part in parts if isinstance(part, UsagePart)][-1]
    assert usage.output_tokens == 9 * len(service.requests) == 45


async def test_a_refused_key_is_not_signed_in(served, service: FakeService) -> None:
    service.error = (401, {"error": {"message": "Incorrect API key", "type": "invalid_request_error"}})
    parts = await collect(served(), asked())
    assert end(parts).failure is FailureClass.NOT_SIGNED_IN and "codex login" in end(parts).detail, parts


async def test_a_spent_quota_is_a_rate_limit(served, service: FakeService) -> None:
    spent = {"type": "usage_limit_reached", "message": "reached", "plan_type": "plus"}
    service.error = (429, {"error": {**spent, "resets_in_seconds": 3700}})
    parts = await collect(served(), asked())
    assert end(parts).failure is FailureClass.RATE_LIMIT, parts


async def test_without_credentials_it_is_not_signed_in(served) -> None:
    agent = served()
    agent.spec = AgentSpec("BOT", preset="codex", cwd=agent.spec.cwd)
    parts = await collect(agent, asked())
    assert end(parts).failure is FailureClass.NOT_SIGNED_IN and "codex login" in end(parts).detail
