"""What a person can decide about an advisory: the buttons of the page, and the same as commands.

Invariant: whatever a message offers works as a command of the room, word for word, and acts. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

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
