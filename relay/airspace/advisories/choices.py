"""What a person can decide about an advisory: the buttons of the page, and the same as commands.

Invariant: whatever a message offers works as a command of the room, word for word, and acts. Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from relay.airspace.readings import Level

if TYPE_CHECKING:
    from relay.airspace.advisories.rules.advisory import Advisory

FIRST, STOP, UPDATE = "first", "stop", "update"


@dataclass(frozen=True, slots=True)
class Choice:
    """`name`: first, stop or update; `label`: a button's words; `command`: the same, to be written in the room."""

    name: str
    agent: str
    label: str

    @property
    def command(self) -> str:
        return f"/{self.name} @{self.agent}"

    def as_json(self) -> dict[str, str]:
        return {"name": self.name, "agent": self.agent, "label": self.label, "command": self.command}


def choices(advisory: Advisory, agents: Collection[str]) -> tuple[Choice, ...]:
    """What can be decided now, and does something: who goes first, who stops, who takes main in. `agents`: those of
    the room; people are told nothing by a button."""
    found = []
    told = advisory.roles
    if advisory.between is Level.RESOLUTION:
        first = advisory.decided
        parties = [name for name in (*told.hold, *told.steer) if first is None or name != first.agent]
        found += [Choice(FIRST, name, f"{name} goes first") for name in parties if name in agents]
    late = {*told.steer, *advisory.set_back} & set(agents)
    for name in (name for name in advisory.part if name in late):
        found.append(Choice(STOP, name, f"Stop {name}"))
        if name in advisory.set_back:
            found.append(Choice(UPDATE, name, f"Ask {name} to merge main into its branch"))
    return tuple(found)
