"""Ways to run one agent turn.

Invariant: whatever the kind, a turn is a stream of parts that ends with exactly one EndPart, and closing the
stream ends every process it started. Nothing above this wing knows how an agent runs.
"""

from __future__ import annotations

from collections.abc import Mapping

from relay.agents.acp.acp import AcpAgent
from relay.agents.app_server.codex import CodexAgent
from relay.agents.command.command import CommandAgent
from relay.agents.registry import presets
from relay.agents.scripted.scripted import ScriptedAgent
from relay.agents.setup.spec import AgentSpec, Permissions, SpecError
from relay.model import Agent, Guard, Permits

__all__ = [
    "AcpAgent",
    "AgentSpec",
    "CodexAgent",
    "CommandAgent",
    "Permissions",
    "ScriptedAgent",
    "SpecError",
    "build_agent",
]


def build_agent(
    spec: AgentSpec,
    *,
    daemon_env: Mapping[str, str] | None = None,
    guard: Guard | None = None,
    permits: Permits | None = None,
) -> Agent:
    """The agent that `spec` describes. Raises SpecError; the script of a scripted agent is read with each turn.

    `daemon_env` is what the agent's environment is chosen from; None = this process's own. `guard` and
    `permits` are for an agent that asks while it works; None = nothing is contested, nobody is there.
    """
    if spec.kind == "scripted":
        return ScriptedAgent(spec)
    if spec.kind == "acp":
        return AcpAgent(spec, daemon_env=daemon_env, guard=guard, permits=permits)
    if spec.preset and presets()[spec.preset].app_server:
        return CodexAgent(spec, daemon_env=daemon_env, guard=guard)
    return CommandAgent(spec, daemon_env=daemon_env, guard=guard)
