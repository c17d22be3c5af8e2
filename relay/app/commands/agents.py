"""`relay agents doctor`: can each agent take a turn, and does it hear what is said while it works? `cost`: what their
turns cost since midnight. `set`: an agent's model or effort, and whether it is given work.

Invariant: no turn is begun. `doctor` and `cost` change nothing: the installed programs are asked, or the room
(docs/agents.md).
"""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from relay.access.git_person import git_person
from relay.agents.command.command import CommandAgent
from relay.agents.registry import presets
from relay.app.runtime.built_agents import Built, build
from relay.app.runtime.daemon_requests import asked
from relay.base.terminal_text import fail, indented, safe_line
from relay.config.loading import load_for_command
from relay.config.settings import AgentSettings, Settings
from relay.model import Availability, Hears
from relay.model.orders.needs import UNSET
from relay.room.journal.usage import Used, dollars

HEARS = {Hears.BOUNDARY: "gets messages during the turn", Hears.NEXT: "gets messages at the next turn"}


@dataclass(frozen=True, slots=True)
class Found:
    """An agent of the room, or (`configured` False) a program that relay knows. `signed_in` None: it cannot tell."""

    settings: AgentSettings
    configured: bool
    seen: Availability
    signed_in: bool | None

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.settings.name if self.configured else None,
            "kind": self.settings.kind,
            "preset": self.settings.preset,
            "enabled": self.settings.enabled if self.configured else None,
            "installed": self.seen.installed,
            "version": self.seen.version,
            "detail": self.seen.detail,
            "fix": self.seen.fix,
            "signed_in": self.signed_in,
            "channel": self.seen.channel.as_json(),
        }

    def lines(self) -> list[str]:
        """As people read it."""
        what = self.settings.preset or self.settings.kind
        name = f"{self.settings.name} ({what})" if self.configured else f"{what}, which no agent uses"
        if not self.seen.installed:
            fix = f" `{self.seen.fix}`" if self.seen.fix else ""
            return [f"{name}: cannot take a turn. {safe_line(self.seen.detail)}{fix}"]
        signed = {True: ", signed in", False: ", not signed in", None: ""}[self.signed_in]
        off = ", switched off" if self.configured and not self.settings.enabled else ""
        version = f" {self.seen.version}" if self.seen.version else ""
        channel = self.seen.channel
        way = f" by {channel.name}" if channel.hears is Hears.BOUNDARY else ""
        return [
            f"{name}: installed{version}{signed}{off}",
            f"  {HEARS[channel.hears]}{way}{': ' + channel.why if channel.why else ''}",
        ]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        choices=["doctor", "cost", "set"],
        help="doctor: look at each agent, and at each program relay knows; cost: what the agents' turns cost since "
        "midnight; set: write an agent's settings into config.json, by the running room",
    )
    parser.add_argument("agent", nargs="?", metavar="AGENT", help="set: which agent")
    parser.add_argument("--model", metavar="NAME", help=f"set: its model; {UNSET}: what its program takes")
    parser.add_argument("--effort", metavar="LEVEL", help=f"set: its effort; {UNSET}: what its program takes")
    given = parser.add_mutually_exclusive_group()
    given.add_argument("--on", dest="enabled", action="store_true", default=None, help="set: give it work")
    given.add_argument("--off", dest="enabled", action="store_false", help="set: give it none")
    parser.add_argument("--name", help="set: your name in the room (the one that git has for you)")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")


def run(args: argparse.Namespace) -> int:
    """The command; its exit code is 1 when no agent can take a turn, or the room does not say what they cost or
    refuses what is set; 2 = wrong use."""
    named = {"model": args.model, "effort": args.effort}
    changes: dict[str, Any] = {
        key: None if value == UNSET else value for key, value in named.items() if value is not None
    }
    changes |= {} if args.enabled is None else {"enabled": args.enabled}
    if args.what == "set":
        if args.agent is None or not changes:
            return fail("agents set takes AGENT, and --model, --effort, --on or --off", 2)
        return _set(load_for_command(args.config), args, changes)
    if args.agent is not None or changes:
        return fail(f"agents {args.what} takes no AGENT, and sets nothing", 2)
    if args.what == "cost":
        return _cost(load_for_command(args.config), args.json)
    found = asyncio.run(look(load_for_command(args.config)))
    if args.json:
        print(json.dumps([one.as_json() for one in found]))
    else:
        for one in found:
            for line in one.lines():
                print(indented(line))
    able = any(one.configured and one.settings.enabled and one.seen.installed for one in found)
    return 0 if able else 1


def _set(settings: Settings, args: argparse.Namespace, changes: dict[str, Any]) -> int:
    """As `/agent` in the room."""
    by, agent = args.name or git_person(settings.repo, settings.agent_names), args.agent.upper()
    path = f"/api/agents/{quote(agent, safe='')}"
    done = asked(settings, path, person=by, body=changes, as_json=args.json, method="PATCH")
    print(json.dumps(done) if args.json else safe_line(f"{agent} is set, and the room is told.", 200))
    return 0


def _cost(settings: Settings, as_json: bool) -> int:
    use = asked(settings, "/api/usage", as_json=as_json)
    if as_json:
        print(json.dumps(use))
        return 0
    if not use["agents"]:
        print("No turn has begun since midnight.")
        return 0
    columns = ("turns", "input", "cache_write", "cache_read", "output")
    heads = "".join(f"{name.replace('_', ' '):>14}" for name in columns)
    print(f"{'since midnight':<16}{heads}{'dollars':>16}")
    for name, used in [*use["agents"].items(), ("all", use["total"])]:
        counts = "".join(f"{used[column]:>14,}" for column in columns)
        print(f"{safe_line(name, 32):<16}{counts}{dollars(Used(**used)):>16}")
    return 0


async def look(settings: Settings) -> list[Found]:
    """The agents in the order of the configuration, then the known programs that none of them uses."""
    used = {agent.preset for agent in settings.agents}
    others = [AgentSettings(name=name.upper(), preset=name) for name in presets() if name not in used]
    each = [(agent, True) for agent in settings.agents]
    each += [(replace(agent, mcp=False), False) for agent in others]
    return list(await asyncio.gather(*(_look(settings, agent, known) for agent, known in each)))


async def _look(settings: Settings, agent: AgentSettings, configured: bool) -> Found:
    built: Built = build(settings, agent)
    if built.agent is None:
        return Found(agent, configured, Availability(False, built.trouble), None)
    seen = await built.agent.probe()
    able = built.agent if isinstance(built.agent, CommandAgent) and seen.installed else None
    return Found(agent, configured, seen, await able.signed_in() if able is not None else None)
