"""The agents of the other members, as they are told to this one.

Invariant: what a member tells is what it knows itself (its roster), so that all members show an agent alike; what
runs it stays with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from relay.fleet.members import FleetMember
from relay.model import AccountLimit, Channel, Hears
from relay.room.dispatch.budget import Budget
from relay.room.dispatch.roster import Member, Policy

#: What stays with the member: what runs the agent, and its folder.
_OWN = frozenset({"agent", "cwd", "home", "absence", "heard_at"})


def told(members: Iterable[Member], shared: Iterable[str]) -> list[dict[str, Any]]:
    """What others are told of a relay's own agents. `shared`: the names of those that others may have too."""
    names = frozenset(shared)
    return [
        {
            **{field.name: getattr(member, field.name) for field in fields(member) if field.name not in _OWN},
            "policy": asdict(member.policy),
            "channel": member.channel.as_json(),
            "limits": [asdict(limit) for limit in member.limits],
            "shared": member.name in names,
        }
        for member in members
        if not member.home
    ]


def remote_members(others: Iterable[FleetMember], own: Iterable[str]) -> dict[str, Member]:
    """The agents of the other members by name, but those that this relay has itself. An agent that several have is at
    one that is live, where there is one."""
    found: dict[str, Member] = {}
    mine = frozenset(own)
    for other in sorted(others, key=lambda member: not member.live):
        for agent in other.agents:
            if agent["name"] not in mine and agent["name"] not in found:
                found[agent["name"]] = _member(agent, other)
    return found


def _member(agent: Mapping[str, Any], home: FleetMember) -> Member:
    known = {field.name for field in fields(Member)} - _OWN
    values = {name: value for name, value in agent.items() if name in known}
    policy = _policy(agent["policy"])
    if "channel" in values:  # a member of before tells none
        values["channel"] = Channel(**{**values["channel"], "hears": Hears(values["channel"]["hears"])})
    values["limits"] = tuple(AccountLimit(**limit) for limit in values.get("limits", ()))
    heard_at = None if home.live else home.heartbeat_at
    return Member(**{**values, "policy": policy}, home=home.name, absence=home.absence, heard_at=heard_at)


def _policy(values: Mapping[str, Any]) -> Policy:
    known = {field.name for field in fields(Policy)}
    made = Policy(**{name: value for name, value in values.items() if name in known})
    budget, names = Budget(**values["budget"]), tuple(values["names"])
    return replace(made, budget=budget, names=names, inbox=Hears(made.inbox))
