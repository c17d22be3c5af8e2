"""Agents from the configuration: what runs them, and what the room knows of each.

Invariant: an agent that cannot be built (`Built.trouble`) stays in the room, is not installed, and says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from relay.access.agent_keys import AgentKeys
from relay.agents.registry import presets
from relay.app.fleet.remote_agents import remote_members, told
from relay.app.runtime.built_agents import Built, build
from relay.config.settings import AgentSettings, Settings
from relay.faces.room import rules_of
from relay.fleet.members import FleetMember
from relay.model import Availability, Guard, Hears, Permits, Program
from relay.room.dispatch.budget import Budget
from relay.room.dispatch.roster import Member, Policy, Roster
from relay.room.parsing import file_names


def _guarded(agent: AgentSettings) -> bool:
    """Is it asked about each edit before it makes it?"""
    preset = presets().get(agent.preset or "")
    return agent.kind == "acp" or (agent.kind == "command" and preset is not None and preset.guarded)


def _about(agent: AgentSettings) -> str:
    """One line on what an agent is good at, for people and for the dispatcher."""
    if agent.about:
        return " ".join(agent.about.split())
    preset = presets().get(agent.preset or "")
    return preset.about if preset is not None else ""


def policy_of(settings: Settings, agent: AgentSettings, names: tuple[str, ...], unable: str) -> Policy:
    breaker, queue = settings.locks.circuit_breaker, settings.queue
    return Policy(
        agent=agent.name,
        threshold=breaker.failure_threshold,
        reset_timeout=breaker.reset_timeout,
        max_attempts=queue.max_attempts,
        backoff_s=queue.backoff_s,
        backoff_max_s=queue.backoff_max_s,
        lease_s=queue.lease_s,
        context_len=settings.workspace.context_len,
        files=str(settings.runtime_dir / file_names.FOLDER),
        budget=Budget(agent.budget.turns_per_hour, agent.budget.tokens_per_day, agent.budget.usd_per_day),
        unable=unable,
        agent_mentions=settings.room.agent_mentions,
        hop_limit=settings.room.hop_limit,
        names=names,
        role=agent.role or "agent",
        member=settings.member,
        shared=agent.shared,
        inbox=Hears(agent.inbox),
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
        self._remote: Mapping[str, Member] = {}
        self.roster = roster
        roster.programs = {
            name: Program(preset.title, preset.install, preset.sign_in) for name, preset in presets().items()
        }
        self.settings = settings
        self.apply(settings)

    def apply(self, settings: Settings) -> None:
        """Take over a configuration; an agent whose settings did not change keeps what runs it."""
        before, self.settings = self.settings, settings
        around_same = before.dispatcher.ollama_host == settings.dispatcher.ollama_host
        around_same = around_same and before.airspace.enabled == settings.airspace.enabled
        built = {}
        for agent in settings.agents:
            known = self._built.get(agent.name)
            if known is None or known.settings != agent or not around_same:
                known = build(settings, agent, self._guard, self._permits, self._keys)
                self._probed.pop(agent.name, None)
            built[agent.name] = known
        self._built = built
        self._probed = {name: availability for name, availability in self._probed.items() if name in built}
        self._renew()

    def meet(self, others: Iterable[FleetMember]) -> None:
        """Take over what the other members of the fleet tell of their agents."""
        self._remote = remote_members(others, self._built)
        self._renew()

    def told(self) -> list[dict[str, Any]]:
        """What the other members are told of the agents here."""
        shared = [name for name, built in self._built.items() if built.settings.shared]
        return told(self.roster.members.values(), shared)

    async def probe(self, changed: Callable[[], Awaitable[None]] | None = None) -> bool:
        """Look which agents can run, and keep each answer as it arrives; True when an answer changed.

        `changed` is called after each change. An answer for an agent that was rebuilt meanwhile is dropped: another
        look follows the rebuild.
        """
        before = dict(self._probed)

        async def look(name: str, built: Built) -> None:
            if built.agent is None:
                availability = Availability(False, built.trouble, "fix its entry in config.json")
            else:
                availability = await built.agent.probe()
            if self._built.get(name) is not built or self._probed.get(name) == availability:
                return
            self._probed[name] = availability
            self._renew()
            if changed is not None:
                await changed()

        async with asyncio.TaskGroup() as group:
            for name, built in self._built.items():
                group.create_task(look(name, built), name=f"probe-{name}")
        return self._probed != before

    def _renew(self) -> None:
        self._remote = {name: member for name, member in self._remote.items() if name not in self._built}
        names = (*self._built, *self._remote)
        members = {}
        for name, built in self._built.items():
            known = self._probed.get(name) or Availability(built.agent is not None, built.trouble)
            fix = f" (`{known.fix}`)" if known.fix and known.fix not in known.detail else ""
            # One that is broken finds out with each turn whether it still is.
            able = known.installed or known.broken
            unable = "" if able else f"{known.detail or 'it is not installed'}{fix}"
            if not built.settings.enabled:
                unable = "it is switched off in the configuration"
            settings = built.settings
            members[name] = Member(
                name=name,
                kind=settings.kind,
                policy=policy_of(self.settings, settings, names, unable),
                preset=settings.preset,
                model=settings.model,
                effort=settings.effort,
                enabled=settings.enabled,
                installed=known.installed,
                broken=known.broken,
                detail=known.detail,
                fix=known.fix,
                version=known.version,
                about=_about(settings),
                agent=built.agent,
                timeout_s=settings.timeout_s,
                cwd=settings.cwd or self.settings.repo,
                # Without a worktree: only a script, which nothing but its permissions limits.
                may_edit=settings.kind == "scripted" and settings.permissions in ("edit", "skip-all-checks"),
                guarded=_guarded(settings),
                channel=known.channel,
                limits=known.limits,
            )
        self.roster.update({**members, **self._remote}, rules_of(self.settings))

    def types(self) -> Mapping[str, str]:
        """What each agent is, by its name, as its programs say it (RELAY_AGENT_TYPE)."""
        return {name: built.settings.preset or built.settings.kind for name, built in self._built.items()}
