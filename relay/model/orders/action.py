"""One thing that people and agents order, as a value (`relay.model.actions` has them all).

Pure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from relay.base.terminal_text import fenced
from relay.model import references

#: A slash and a word of letters, with which a command begins.
COMMAND_WORD = re.compile(r"/([^\W\d_][\w-]*|\?)[?!.,:;]*(?=\s|$)")


@dataclass(frozen=True)
class Action:
    """One action. `word` is its command. An action is equal to another of its kind with the same fields."""

    word: ClassVar[str]
    kinds: ClassVar[dict[str, type[Action]]] = {}

    def __init_subclass__(cls, word: str = "") -> None:
        """A class with a `word` is a kind of action, by its name in JSON."""
        if word:
            cls.word = word
            cls.kinds[cls.__name__] = cls

    def named(self) -> tuple[str, ...]:
        """The agents that it names."""
        return ()

    def line(self) -> str:
        """The action as the room shows it: the command that a person would have typed."""
        written = [
            _WRITTEN.get(name, str)(value) for name, value in asdict(self).items() if value is not None
        ]
        return " ".join([self.word, *written]).rstrip()

    def as_json(self) -> dict[str, Any]:
        """The action as a JSON value: `{kind, ...}`."""
        return {"kind": type(self).__name__, **asdict(self)}


@dataclass(frozen=True)
class Answer:
    """What the room answers to an action. `text` is markdown; `task` is the room number of the task that the action
    is about; `undo`: the command that takes it back, and nothing else, "" = none is known."""

    success: bool
    text: str
    task: int | None = None
    undo: str = ""

    def as_json(self) -> dict[str, Any]:
        """`{success, reason, task?, undo?}`."""
        answer: dict[str, Any] = {"success": self.success, "reason": self.text}
        answer |= {} if self.task is None else {"task": self.task}
        return answer | ({"undo": self.undo} if self.undo else {})


@dataclass(frozen=True)
class OfAgents(Action):
    """An action on agents, each named once and spelled as configured."""

    agents: tuple[str, ...]

    def named(self) -> tuple[str, ...]:
        return self.agents


@dataclass(frozen=True)
class OfAgent(Action):
    """An action on one agent."""

    agent: str

    def named(self) -> tuple[str, ...]:
        return (self.agent,)


def mentioned(agents: Sequence[str]) -> str:
    return " ".join(f"@{agent}" for agent in agents)


#: By the name of a field: how its value stands in a line. Other fields stand there as they are.
_WRITTEN: dict[str, Callable[[Any], str]] = {
    "agent": "@{}".format,
    "agents": mentioned,
    "conflict": references.conflict,
    "lines": lambda lines: "\n" + fenced(lines),
    "path": shlex.quote,
    "paths": lambda paths: " ".join(map(shlex.quote, paths)) or "-",
    "task": references.task,
    "tasks": lambda tasks: " ".join(map(references.task, tasks)),
    "handoff": references.handoff,
    "exploration": references.exploration,
    "verification": references.verification,
    "approval": references.approval,
    "memory": lambda memory: memory if isinstance(memory, str) else references.memory(memory),
}
