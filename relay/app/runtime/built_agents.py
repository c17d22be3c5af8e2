"""What runs an agent of the configuration.

Invariant: an agent that cannot be built (a bad script, say) is a value that says why, never an exception.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import relay
from relay.access.agent_keys import AgentKeys
from relay.agents.factory import AgentSpec, Permissions, SpecError, build_agent
from relay.agents.ollama import OllamaAgent
from relay.agents.setup.hooks import GuardHook
from relay.agents.setup.mcp import McpServer
from relay.config.settings import AgentSettings, Settings
from relay.model import Agent, Guard, Permits


@dataclass(frozen=True, slots=True)
class Built:
    """An agent of the configuration: `agent` None when it could not be built, for the reason in `trouble`."""

    settings: AgentSettings
    agent: Agent | None
    trouble: str = ""


def build(
    settings: Settings,
    agent: AgentSettings,
    guard: Guard | None = None,
    permits: Permits | None = None,
    keys: AgentKeys | None = None,
    *,
    apart: bool = False,
) -> Built:
    """What runs this agent. Never raises: what is wrong is said where people look for the agent.

    `guard` and `permits` answer an agent that asks while it works; `keys` has its key of the room. `apart`: it works
    where nobody else does, for as long as its caller lets it, so it has no hook, no tools of the room and no time
    limit of its own.
    """
    if agent.kind == "ollama":
        host = settings.dispatcher.ollama_host
        return Built(agent, OllamaAgent(agent.name, agent.model or "", host=host))
    try:
        spec = AgentSpec(
            name=agent.name,
            kind=agent.kind,
            preset=agent.preset,
            cmd=agent.cmd or (),
            args=agent.args,
            output=agent.output,
            model=agent.model,
            effort=agent.effort,
            timeout_s=None if apart else agent.timeout_s,
            cwd=agent.cwd or settings.repo,
            env=_environment(agent),
            script=agent.script,
            permissions=Permissions(agent.permissions),
            guard=None if apart else _guard(settings, agent),
            mcp=_mcp(settings) if agent.mcp and not apart else None,
            permission_timeout_s=agent.permission_timeout_s,
            key=lambda: keys.of(agent.name) if keys is not None else "",
        )
        return Built(agent, build_agent(spec, guard=guard, permits=permits))
    except SpecError as error:
        return Built(agent, None, str(error))


def _guard(settings: Settings, agent: AgentSettings) -> GuardHook | None:
    """What its program runs before each edit: the guard as a plain script, since it starts before every one."""
    script = str(Path(relay.__file__).absolute().with_name("guard_cli.py"))
    words = (
        sys.executable,
        "-I",
        "-S",
        script,
        "hook",
        "--agent",
        agent.name,
        "--config",
        str(settings.path),
    )
    return GuardHook(words, settings.runtime_dir / "guard")


def _mcp(settings: Settings) -> McpServer:
    """The room's tools, from this very installation; -P: no module of the codebase may stand in for one of ours."""
    words = (sys.executable, "-P", "-m", "relay.cli", "mcp", "--config", str(settings.path))
    return McpServer(words)


def _environment(agent: AgentSettings) -> Mapping[str, str]:
    passed = {name: os.environ[name] for name in agent.env_pass if name in os.environ}
    return {**passed, **agent.env}
