"""A question of an agent to the people of the room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PermissionOption:
    """One answer to a permission request. `kind`: allow_once, allow_always, reject_once, reject_always."""

    id: str
    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """What an agent asks a person for: `title` is one line, `tool` the kind of tool (edit, execute, ...)."""

    agent: str
    title: str
    tool: str = "other"
    paths: tuple[str, ...] = ()
    options: tuple[PermissionOption, ...] = ()
    advisory: str | None = None


@dataclass(frozen=True, slots=True)
class PermissionAnswer:
    """The option that was chosen, by whom. `option` None: nobody chose one, for the `reason`."""

    option: PermissionOption | None
    by: str = ""
    reason: str = ""


class Permits(Protocol):
    """Asks the people of the room on behalf of an agent."""

    async def ask(self, request: PermissionRequest, *, timeout_s: float) -> PermissionAnswer:
        """Wait for a person's answer, for `timeout_s` seconds at most; at once without one when nobody is
        there to answer. Cancelling the wait takes the request back."""
        ...


class Nobody:
    """Stands in for the people of a room that has no door to ask them by."""

    async def ask(self, request: PermissionRequest, *, timeout_s: float) -> PermissionAnswer:
        return PermissionAnswer(None, reason="nobody who could answer is connected")
