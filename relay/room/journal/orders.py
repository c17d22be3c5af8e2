"""What somebody orders in the room, and what comes of it. Plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from relay.model import Message, PermissionOption


@dataclass(frozen=True, slots=True)
class Order:
    """Who orders an action, in which message (`cause`: its event). `now`: Unix seconds."""

    by: str
    message: Message
    cause: Sequence[str]
    verified: bool
    now: float


class Ending(NamedTuple):
    """A running turn that a person ends: this agent's, which has the job `job` and began it at `began` (Unix
    seconds). What was said from the room's number `before` on is not taken back with it."""

    agent: str
    by: str
    job: int
    began: float
    before: int


@dataclass(frozen=True, slots=True)
class Result:
    """`text` is the room's answer; `task`: the room number of the task that the action is about. What is done after
    the commit: `cancel`, the turns to be ended, and `permission`, (request, option, by whom).
    `for_people`: agents are not shown the answer with their turns. `meta`: more of the answer's own; `to`: agents
    that hear the answer while they work, and with a turn of their own if they cannot (`asks`)."""

    text: str
    task: int | None = None
    cancel: tuple[Ending, ...] = ()
    permission: tuple[str, PermissionOption | None, str] | None = None
    for_people: bool = False
    meta: Mapping[str, Any] = field(default_factory=dict)
    to: tuple[str, ...] = ()
    asks: bool = False
