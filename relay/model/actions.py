"""What people and agents order, as values: parsed from a command's text, or made by any other interface.

One function carries an action out, whoever ordered it: `ActionHandlers.handle` calls it for a person in the room, an
operation for its caller. Invariants: `commands.parse(action.line(), agents) == action`, and
`of_json(action.as_json()) == action`. Pure.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, ClassVar

from relay.model import references


class Status(StrEnum):
    """The board's columns."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    DONE = "done"


@dataclass(frozen=True)
class Action:
    """One action. `word` is its command. An action is equal to another of its kind with the same fields."""

    word: ClassVar[str]

    def named(self) -> tuple[str, ...]:
        """The agents that it names."""
        return ()

    def arguments(self) -> list[str]:
        """What follows the word in its line."""
        return [f"@{agent}" for agent in self.named()]

    def line(self) -> str:
        """The action as the room shows it: the command that a person would have typed."""
        return " ".join([self.word, *self.arguments()]).rstrip()

    def as_json(self) -> dict[str, Any]:
        """The action as a JSON value: `{kind, ...}`."""
        return {"kind": type(self).__name__, **asdict(self)}


@dataclass(frozen=True)
class Answer:
    """What the room answers to an action. `text` is markdown; `task` is the room number of the task that the action
    is about."""

    success: bool
    text: str
    task: int | None = None

    def as_json(self) -> dict[str, Any]:
        """`{success, reason, task?}`."""
        answer = {"success": self.success, "reason": self.text}
        return answer if self.task is None else {**answer, "task": self.task}


class ShowTasks(Action):
    word = "/tasks"


class ShowWho(Action):
    word = "/who"


class ShowQueue(Action):
    word = "/queue"


class ShowAirspace(Action):
    word = "/airspace"


@dataclass(frozen=True)
class ShowHelp(Action):
    """`command` is a known one, with its slash, or None for all."""

    word = "/help"
    command: str | None = None

    def arguments(self) -> list[str]:
        return [self.command or ""]


@dataclass(frozen=True)
class ShowLocks(Action):
    """`path`: only the locks near it; None = all."""

    word = "/locks"
    path: str | None = None

    def arguments(self) -> list[str]:
        return [shlex.quote(self.path)] if self.path else []


@dataclass(frozen=True)
class AddTask(Action):
    word = "/task"
    title: str

    def arguments(self) -> list[str]:
        return [self.title]


@dataclass(frozen=True)
class MoveTask(Action):
    """`task` is the room number of a task."""

    word = "/move"
    task: int
    status: Status

    def arguments(self) -> list[str]:
        return [references.task(self.task), self.status]


@dataclass(frozen=True)
class MoveAll(Action):
    """Active tasks only."""

    word = "/moveall"
    status: Status

    def arguments(self) -> list[str]:
        return [self.status]


class ClearAll(Action):
    word = "/clearall"


class Undo(Action):
    word = "/undo"


@dataclass(frozen=True)
class OfAgents(Action):
    """An action on agents, each named once and spelled as configured."""

    agents: tuple[str, ...]

    def named(self) -> tuple[str, ...]:
        return self.agents


class Cancel(OfAgents):
    """End the running turns of these agents."""

    word = "/cancel"


class Stop(OfAgents):
    """End the running turns of these agents, take back what waits, and start no new ones."""

    word = "/stop"


class Pause(OfAgents):
    """Start no new turns of these agents; without agents: of all."""

    word = "/pause"


class Resume(OfAgents):
    """Start turns of these agents again; without agents: of all."""

    word = "/resume"


class TryNow(OfAgents):
    """Make the one attempt of these agents' open circuits now."""

    word = "/try"


class TakeMain(OfAgents):
    """Ask these agents to take the main branch into their own."""

    word = "/update"


@dataclass(frozen=True)
class Route(OfAgents):
    """Send a message (`message` is its room number) to these agents, at least one."""

    word = "/route"
    message: int

    def arguments(self) -> list[str]:
        return [references.message(self.message), *super().arguments()]


@dataclass(frozen=True)
class Retry(Action):
    """`of` is "job" or "message" when the person said which, else "any": look for a message first, since
    those are the numbers that people see."""

    word = "/retry"
    number: int
    of: str = "any"

    def arguments(self) -> list[str]:
        return [{"job": references.job, "message": references.message}.get(self.of, str)(self.number)]


class Continue(Action):
    """Lift the hop limit of the conversation among agents."""

    word = "/continue"


@dataclass(frozen=True)
class OfAgent(Action):
    """An action on one agent."""

    agent: str

    def named(self) -> tuple[str, ...]:
        return (self.agent,)


class GoFirst(OfAgent):
    """This agent goes first where its work collides with another's."""

    word = "/first"


@dataclass(frozen=True)
class DeclareIntent(OfAgent):
    """What an agent is about to touch; no paths = nothing any more."""

    word = "/intent"
    paths: tuple[str, ...]

    def arguments(self) -> list[str]:
        return [*super().arguments(), *(map(shlex.quote, self.paths) if self.paths else "-")]


@dataclass(frozen=True)
class Permit(Action):
    """Answer what an agent asks for. `request`: its number or id; `option`: its id, name or place, None = the first
    that fits `allow`."""

    word = "/allow"
    request: str
    option: str | None
    allow: bool

    def line(self) -> str:
        return f"{self.word if self.allow else '/deny'} {self.request} {self.option or ''}".rstrip()


@dataclass(frozen=True)
class ForceRelease(Action):
    """Take the locks of `path` (a path, a pattern or a key) from whoever holds them."""

    word = "/unlock"
    path: str
    reason: str

    def arguments(self) -> list[str]:
        return [shlex.quote(self.path), self.reason]


_KINDS = {kind.__name__: kind for base in (Action, OfAgents, OfAgent) for kind in base.__subclasses__()}


def of_json(value: Mapping[str, Any]) -> Action:
    """The action that `Action.as_json` wrote. Raises KeyError or TypeError when this version has no such action."""
    fields: dict[str, Any] = {
        name: tuple(field) if isinstance(field, list) else field for name, field in value.items()
    }
    kind = _KINDS[fields.pop("kind")]
    if "status" in fields:
        fields["status"] = Status(fields["status"])
    return kind(**fields)
