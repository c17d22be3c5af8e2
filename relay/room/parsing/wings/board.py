"""The commands of the board: from what a person types to an action.

Pure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from relay.model import actions, references
from relay.model.actions import Action, Field
from relay.model.orders.board import NOTHING
from relay.model.references import Thing
from relay.room.parsing.arguments import Command, WrongArguments, agents_of, number_of, shown, status_of

#: The words that people use for what they change.
_FIELDS: dict[str, Field] = {
    **{str(field): field for field in Field},
    **dict.fromkeys(("desc", "text", "body"), Field.DESCRIPTION),
    **dict.fromkeys(("prio", "p"), Field.PRIORITY),
    **dict.fromkeys(("file", "paths"), Field.FILES),
    **dict.fromkeys(("depends_on", "depends-on", "dependencies", "needs"), Field.DEPENDS),
}
_NUMBERS = re.compile(r"\s*((?:t[0-9]{1,9}[\s,]+)*t[0-9]{1,9})(?:[\s:]+|\Z)", re.IGNORECASE)
_WHOEVER = frozenset({"any", "anyone", "anybody", "whoever", "free"})


def task(rest: str, _agents: Sequence[str]) -> Action:
    """A new task, or what is to change of one that is there. Raises WrongArguments."""
    named = _NUMBERS.match(rest)
    if named is not None:
        return _of(tuple(_numbers(named[1])), rest[named.end() :])
    title, _, description = re.sub(r"^\s*--(\s+|$)", "", rest).lstrip().partition("\n\n")
    title = " ".join(title.split())
    if not title:
        raise WrongArguments("The title is missing.")
    return actions.AddTask(title, description.strip("\n").rstrip() or None)


def _of(tasks: tuple[int, ...], rest: str) -> Action:
    word, value = [*re.split(r"[\s:]+", rest, maxsplit=1), ""][:2]
    if not word:
        if len(tasks) > 1:
            raise WrongArguments("One task at a time is shown.")
        return actions.ShowTask(tasks[0])
    field, one = _FIELDS.get(word.lower()), references.task(tasks[0])
    if field is None:
        raise WrongArguments(
            f"`{shown(word)}` is nothing of a task that can be changed: `{'`, `'.join(Field)}`. "
            f"`/task -- {one} …` adds one whose title begins so."
        )
    if len(tasks) > 1 and field is not Field.PRIORITY:
        raise WrongArguments(f"The {field} of one task at a time; of several the priority.")
    return actions.EditTasks(tasks, field, _value(field, value))


def _value(field: Field, value: str) -> str:
    value = value.strip("\n").rstrip() if field is Field.DESCRIPTION else " ".join(value.split())
    if not value:
        none = f", or `{NOTHING}` for none" if field not in (Field.TITLE, Field.PRIORITY) else ""
        raise WrongArguments(f"Say what the {field} is to be{none}.")
    match field:
        case Field.PRIORITY:
            level = value.lower().removeprefix("p")
            if not re.fullmatch("[0-9]{1,2}", level) or not 1 <= int(level) <= 10:
                raise WrongArguments(f"`{shown(value)}` is no priority: 1 (first) to 10 is.")
            return str(int(level))
        case Field.FILES:
            try:
                paths = [path for word in shlex.split(value) if (path := word.strip(","))]
            except ValueError:
                raise WrongArguments("A quotation mark is not closed.") from None
            paths = [] if paths == [NOTHING] else list(dict.fromkeys(paths))
            return actions.EditTasks.files(0, paths).value
        case Field.DEPENDS:
            return actions.EditTasks.depends(0, [] if value == NOTHING else _numbers(value)).value
        case _:
            return value


def _numbers(text: str) -> list[int]:
    """Raises WrongArguments."""
    words = re.split(r"[\s,]+", text.replace("# ", "#").strip(" ,"))
    return list(dict.fromkeys(number_of(word, Thing.TASK) for word in words if word != "and"))


def _leading(rest: str) -> tuple[tuple[int, ...], str]:
    """The tasks that it begins with, and what follows. Raises WrongArguments when it begins with none."""
    words = re.split(r"[\s,]+", rest.replace("# ", "#").strip())
    count = 0
    while count < len(words) and references.read(words[count].strip(".,:"), Thing.TASK) is not None:
        count += 1
    numbers = _numbers(" ".join(words[: max(count, 1)]))
    return tuple(numbers), " ".join(words[max(count, 1) :])


def move(rest: str, _agents: Sequence[str]) -> Action:
    """Raises WrongArguments."""
    tasks, status = _leading(rest)
    to = status_of(re.sub(r"^(?:to|->|→) +", "", status))
    return actions.MoveTask(tasks[0], to) if len(tasks) == 1 else actions.MoveTasks(tasks, to)


def move_all(rest: str, _agents: Sequence[str]) -> Action:
    """Raises WrongArguments."""
    return actions.MoveAll(status_of(re.sub(r"^(?:to|->|→) +", "", " ".join(rest.split()))))


def archive(rest: str, _agents: Sequence[str]) -> Action:
    """Raises WrongArguments."""
    tasks, more = _leading(rest)
    if more:
        raise WrongArguments("It takes the numbers of tasks, and nothing more.")
    return actions.Archive(tasks)


def give(rest: str, agents: Sequence[str]) -> Action:
    """Raises WrongArguments."""
    tasks, to = _leading(rest)
    to, _, why = re.sub(r"^(?:to|->|→) +", "", to).partition(": ")
    # As it was written, with its lines.
    why = rest.partition(f"{to}: ")[2].strip() or why
    if not to:
        raise WrongArguments("Say to whom: `@AGENT`, or `any` for whoever is free.")
    if to.lower() in _WHOEVER:
        return actions.Give(tasks, why=why)
    chosen = agents_of(to, agents)
    if len(chosen) != 1:
        raise WrongArguments("Say to whom: one agent, or `any` for whoever is free.")
    return actions.Give(tasks, chosen[0], why)


def undo(rest: str, _agents: Sequence[str]) -> Action:
    """Raises WrongArguments."""
    named = rest.strip().strip(".!?")
    return actions.Undo(number_of(named, Thing.MESSAGE) if named else None)


COMMANDS = (
    Command(
        "/task <title> | t<number> [title|description|priority|files|depends <value>]",
        "put a new task on the board (below an empty line: its description), show one, or change something of it",
        "/task Fix the login page",
        task,
    ),
    Command(
        "/give t<number>... @AGENT | any[: <why>]",
        "let an agent begin with a task: it gets its title, description and files as your message",
        "/give t3 @CLAUDE",
        give,
    ),
    Command(
        "/move t<number>... <pending|in_progress|done>",
        "move a task to another column, or several",
        "/move t3 in_progress",
        move,
    ),
    Command(
        "/moveall <pending|in_progress|done>",
        "move every active task; finished ones stay",
        "/moveall done",
        move_all,
    ),
    Command("/archive t<number>...", "take a task off the board, or several", "/archive t3 t4", archive),
    Command(
        "/undo [m<number>]",
        "take back the last change of the board; with a message: what it did, if that was the last change",
        "/undo",
        undo,
    ),
)
