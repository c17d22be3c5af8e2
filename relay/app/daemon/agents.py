"""Agents from the configuration: what runs them, and what the room knows of each.

Invariant: an agent that cannot be built (a bad script, say) stays in the room, is not installed, and says why.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import relay
from relay.access.agent_keys import AgentKeys
from relay.agents.factory import AgentSpec, Permissions, SpecError, build_agent
from relay.agents.ollama import OllamaAgent
from relay.agents.setup.hooks import GuardHook
from relay.agents.setup.mcp import McpServer
from relay.config.settings import AgentSettings, Settings
from relay.faces.room import rules_of
from relay.model import Agent, Availability, Guard, Permits
from relay.room.dispatch.budget import Budget
from relay.room.dispatch.roster import Member, Policy, Roster

#: One line for the dispatcher on what an agent is good at.
ABOUT = {
    "claude": "a coding agent (Claude Code): reads and changes code, reviews, plans, explains",
    "codex": "a coding agent (Codex): implements, tests and debugs code",
    "gemini": "a coding agent (Gemini): large contexts, research, reviews and documents",
    "agy": "a coding agent (Antigravity, with Gemini models): large contexts, research, reviews and documents",
}


@dataclass(frozen=True, slots=True)
class Built:
    """An agent of the configuration: `agent` None when it could not be built, for the reason in `trouble`."""

    settings: AgentSettings
    agent: Agent | None
    trouble: str = ""


def build(
    settings: Settings,
    one: AgentSettings,
    guard: Guard | None = None,
    permits: Permits | None = None,
    keys: AgentKeys | None = None,
) -> Built:
    """What runs this agent. Never raises: what is wrong is said where people look for the agent.

    `guard` and `permits` answer an agent that asks while it works; `keys` has its key of the room.
    """
    if one.kind == "ollama":
        host = settings.dispatcher.ollama_host
        return Built(one, OllamaAgent(one.name, one.model or "", host=host))
    try:
        spec = AgentSpec(
            name=one.name,
            kind=one.kind,
            preset=one.preset,
            cmd=one.cmd or (),
            args=one.args,
            output=one.output,
            model=one.model,
            effort=one.effort,
            timeout_s=one.timeout_s,
            cwd=one.cwd or settings.repo,
            env=_environment(one),
            script=one.script,
            permissions=Permissions(one.permissions),
            guard=_guard(settings, one),
            mcp=_mcp(settings) if one.mcp else None,
            permission_timeout_s=one.permission_timeout_s,
            key=lambda: keys.of(one.name) if keys is not None else "",
        )
        return Built(one, build_agent(spec, guard=guard, permits=permits))
    except SpecError as error:
        return Built(one, None, str(error))


def _may_edit(one: AgentSettings) -> bool:
    """May its turns change files without a worktree? A script's own affair, since nothing else bounds it."""
    return one.kind == "scripted" and one.permissions in ("edit", "skip-all-checks")


def _guard(settings: Settings, one: AgentSettings) -> GuardHook | None:
    """What its program runs before each edit: the guard as a plain script, since it starts before every one."""
    script = str(Path(relay.__file__).absolute().with_name("guard_cli.py"))
    words = (sys.executable, "-I", "-S", script, "hook", "--agent", one.name, "--config", str(settings.path))
    return GuardHook(words, settings.runtime_dir / "guard")


def _mcp(settings: Settings) -> McpServer:
    """The room's tools, from this very installation; -P: no module of the codebase may stand in for one of ours."""
    words = (sys.executable, "-P", "-m", "relay.cli", "mcp", "--config", str(settings.path))
    return McpServer(words)


def _guarded(one: AgentSettings) -> bool:
    """Is it asked about each edit before it makes it? Gemini's program takes our hook from root only, and so not
    for sure."""
    return one.kind == "acp" or (one.kind == "command" and one.preset in ("claude", "codex"))


def _environment(one: AgentSettings) -> Mapping[str, str]:
    passed = {name: os.environ[name] for name in one.env_pass if name in os.environ}
    return {**passed, **one.env}


def policy_of(settings: Settings, one: AgentSettings, names: tuple[str, ...], unable: str) -> Policy:
    breaker, queue = settings.locks.circuit_breaker, settings.queue
    return Policy(
        agent=one.name,
        threshold=breaker.failure_threshold,
        reset_timeout=breaker.reset_timeout,
        max_attempts=queue.max_attempts,
        backoff_s=queue.backoff_s,
        backoff_max_s=queue.backoff_max_s,
        lease_s=queue.lease_s,
        context_len=settings.workspace.context_len,
        budget=Budget(one.budget.turns_per_hour, one.budget.tokens_per_day, one.budget.usd_per_day),
        unable=unable,
        agent_mentions=settings.room.agent_mentions,
        hop_limit=settings.room.hop_limit,
        names=names,
    )


class Agents:
    """The agents of the room as they are now: built from the settings, probed, entered into the roster with what
    runs each."""

    def __init__(
        self,
        settings: Settings,
        roster: Roster,
        *,
        guard: Guard | None = None,
        permits: Permits | None = None,
        keys: AgentKeys | None = None,
    ) -> None:
        self._guard, self._permits, self._keys = guard, permits, keys
        self._built: dict[str, Built] = {}
        self._probed: dict[str, Availability] = {}
        self.roster = roster
        self.settings = settings
        self.apply(settings)

    def apply(self, settings: Settings) -> None:
        """Take over a configuration; an agent whose settings did not change keeps what runs it."""
        before, self.settings = self.settings, settings
        around_same = before.dispatcher.ollama_host == settings.dispatcher.ollama_host
        around_same = around_same and before.airspace.enabled == settings.airspace.enabled
        built = {}
        for one in settings.agents:
            have = self._built.get(one.name)
            same = have is not None and have.settings == one and around_same
            built[one.name] = have if have is not None and same else self._build(settings, one)
            if not same:
                self._probed.pop(one.name, None)
        self._built = built
        self._probed = {name: found for name, found in self._probed.items() if name in built}
        self._renew()

    def _build(self, settings: Settings, one: AgentSettings) -> Built:
        return build(settings, one, self._guard, self._permits, self._keys)

    async def probe(self, changed: Callable[[], Awaitable[None]] | None = None) -> bool:
        """Look which agents can run, and keep each answer as it comes; True when one is another than before.

        `changed` is called after each that is. What comes in for an agent that was built anew meanwhile is old,
        and let go: whoever built it looks at it.
        """
        before = dict(self._probed)

        async def look(name: str, one: Built) -> None:
            if one.agent is None:
                found = Availability(False, one.trouble, "fix its entry in config.json")
            else:
                found = await one.agent.probe()
            if self._built.get(name) is not one or self._probed.get(name) == found:
                return
            self._probed[name] = found
            self._renew()
            if changed is not None:
                await changed()

        async with asyncio.TaskGroup() as group:
            for name, one in self._built.items():
                group.create_task(look(name, one), name=f"probe-{name}")
        return self._probed != before

    def _renew(self) -> None:
        names = tuple(self._built)
        members = {}
        for name, one in self._built.items():
            known = self._probed.get(name) or Availability(one.agent is not None, one.trouble)
            fix = f" (`{known.fix}`)" if known.fix and known.fix not in known.detail else ""
            unable = "" if known.installed else f"{known.detail or 'it is not installed'}{fix}"
            if not one.settings.enabled:
                unable = "it is switched off in the configuration"
            settings = one.settings
            members[name] = Member(
                name=name,
                kind=settings.kind,
                policy=policy_of(self.settings, settings, names, unable),
                preset=settings.preset,
                model=settings.model,
                effort=settings.effort,
                enabled=settings.enabled,
                installed=known.installed,
                detail=known.detail,
                fix=known.fix,
                version=known.version,
                about=ABOUT.get(settings.preset or "", ""),
                agent=one.agent,
                timeout_s=settings.timeout_s,
                cwd=settings.cwd or self.settings.repo,
                may_edit=_may_edit(settings),
                guarded=_guarded(settings),
            )
        self.roster.update(members, rules_of(self.settings))

    def types(self) -> Mapping[str, str]:
        """What each agent is, by its name, as its programs say it (RELAY_AGENT_TYPE)."""
        return {name: one.settings.preset or one.settings.kind for name, one in self._built.items()}
