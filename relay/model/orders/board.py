"""What people order about the tasks of the board, as values (`relay.model.actions`).

Pure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from relay.model import references
from relay.model.orders.action import Action

#: What is no title of a new task: the number of one that is there, or `--`, behind which a title may begin so.
NO_TITLE = re.compile(r"\s*(?:t[0-9]{1,9}\b|--(?:\s|$))", re.IGNORECASE)
#: What a person writes for nothing at all: no files, no description.
NOTHING = "-"


class Status(StrEnum):
    """The board's columns."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    DONE = "done"


class OfBoard(Action):
    """An action on the tasks of the board."""


class ShowTasks(Action, word="/tasks"):
    """The board, with what is blocked or failed and why."""


@dataclass(frozen=True)
class ShowTask(OfBoard, word="/task"):
    """One task, whole (its room number)."""

    task: int


@dataclass(frozen=True)
class AddTask(OfBoard, word="/task"):
    """Put a new task on the board. `description`: Markdown."""

    title: str
    description: str | None = None

    def line(self) -> str:
        below = f"\n\n{self.description}" if self.description else ""
        return f"{self.word} {'-- ' if NO_TITLE.match(self.title) else ''}{self.title}{below}"


class Field(StrEnum):
    """What people change of a task."""

    TITLE = "title"
    DESCRIPTION = "description"
    PRIORITY = "priority"
    FILES = "files"
    DEPENDS = "depends"


@dataclass(frozen=True)
class EditTasks(OfBoard, word="/task"):
    """Change one thing of these tasks (their room numbers). `value` as a person writes it: a text, a number, paths
    with quotes where they need them, tasks (`t1 t2`); `-` = none. Of several tasks: the priority only."""

    tasks: tuple[int, ...]
    what: Field
    value: str

    @classmethod
    def files(cls, task: int, paths: Sequence[str]) -> EditTasks:
        return cls((task,), Field.FILES, " ".join(map(shlex.quote, paths)) or NOTHING)

    @classmethod
    def depends(cls, task: int, needs: Sequence[int]) -> EditTasks:
        return cls((task,), Field.DEPENDS, " ".join(map(references.task, needs)) or NOTHING)


@dataclass(frozen=True)
class MoveTask(OfBoard, word="/move"):
    """`task` is the room number of a task."""

    task: int
    status: Status


@dataclass(frozen=True)
class MoveTasks(OfBoard, word="/move"):
    """Several, by their room numbers; those that are there stay."""

    tasks: tuple[int, ...]
    status: Status


@dataclass(frozen=True)
class MoveAll(OfBoard, word="/moveall"):
    """Active tasks only."""

    status: Status


@dataclass(frozen=True)
class Archive(OfBoard, word="/archive"):
    """Take these tasks (their room numbers) off the board."""

    tasks: tuple[int, ...]


class ClearAll(OfBoard, word="/clearall"):
    """Take every task off the board."""


@dataclass(frozen=True)
class Undo(OfBoard, word="/undo"):
    """Take back the last change of the board, whoever made it; with a `message` (its number): what that ordered, if
    it is the last change."""

    message: int | None = None

    def line(self) -> str:
        return self.word if self.message is None else f"{self.word} {references.message(self.message)}"


@dataclass(frozen=True)
class Give(OfBoard, word="/give"):
    """Give these tasks (their room numbers) to an agent, each by a message of the person's. `agent` None: each to
    whoever is free. `why`: what the message says beside the task, "" = nothing; further lines stand
    below the command."""

    tasks: tuple[int, ...]
    agent: str | None = None
    why: str = ""

    def named(self) -> tuple[str, ...]:
        return () if self.agent is None else (self.agent,)

    def line(self) -> str:
        tasks = " ".join(map(references.task, self.tasks))
        why = f": {self.why.strip()}" if self.why else ""
        return f"{self.word} {tasks} {'any' if self.agent is None else f'@{self.agent}'}{why}"
