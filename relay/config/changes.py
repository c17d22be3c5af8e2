"""What differs between two configurations, and which of it applies while the daemon runs."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from relay.config.settings import LIVE, Settings


@dataclass(frozen=True, slots=True)
class Change:
    """One key that differs, agents by name: `agents.CLAUDE.model`; None stands for an agent not there."""

    key: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Changes:
    """What differs between two settings: `live` applies while the daemon runs, `restart` does not."""

    live: tuple[Change, ...] = ()
    restart: tuple[Change, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.live or self.restart)


def diff(old: Settings, new: Settings) -> Changes:
    """What changed from `old` to `new`, in the order of the keys; where the file is does not count."""
    live: list[Change] = []
    restart: list[Change] = []
    for each in fields(Settings):
        if each.name == "path":
            continue
        before, after = getattr(old, each.name), getattr(new, each.name)
        if each.name == "agents":
            before, after = ({agent.name: agent for agent in agents} for agents in (before, after))
        (live if each.name in LIVE else restart).extend(_changes(each.name, before, after))
    return Changes(tuple(live), tuple(restart))


def _changes(key: str, before: Any, after: Any) -> list[Change]:
    if before == after:
        return []
    if is_dataclass(before) and type(before) is type(after):
        before, after = (
            {each.name: getattr(side, each.name) for each in fields(side)} for side in (before, after)
        )
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            change
            for name in dict.fromkeys([*before, *after])
            for change in _changes(f"{key}.{name}", before.get(name), after.get(name))
        ]
    return [Change(key, before, after)]
