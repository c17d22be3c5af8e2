"""The arguments of commands: from the words that a person types to values, and what is said when they are wrong.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from relay.model import references
from relay.model.actions import Action, Status
from relay.model.references import Thing

#: Characters of a reason that people read in one glance.
MAX_REASON = 300


@dataclass(frozen=True, slots=True)
class Command:
    """One command. `parse` takes the rest of the body and the names of the agents; it raises WrongArguments."""

    usage: str
    help: str
    example: str
    parse: Callable[[str, Sequence[str]], Action]

    @property
    def name(self) -> str:
        """The command's word, with its slash."""
        return self.usage.split()[0]


class WrongArguments(Exception):
    """The message is one sentence that says what is wrong."""


#: The words that people use for a status: "doing" is in_progress in the log.
STATUS_WORDS: dict[str, Status] = {
    **dict.fromkeys(("pending", "todo", "to do", "open", "backlog", "waiting"), Status.PENDING),
    **dict.fromkeys(
        ("in progress", "inprogress", "progress", "doing", "started", "wip", "active", "working"),
        Status.IN_PROGRESS,
    ),
    **dict.fromkeys(("done", "complete", "completed", "finished", "closed"), Status.DONE),
}


def status_of(text: str) -> Status:
    """A column of the board. Raises WrongArguments."""
    words = " ".join(re.split(r"[\s_-]+", text.strip().strip(".!`\"'").lower()))
    if not words:
        raise WrongArguments("The status is missing.")
    if words in STATUS_WORDS:
        return STATUS_WORDS[words]
    near = get_close_matches(words, STATUS_WORDS, n=1)
    guess = f" Did you mean `{STATUS_WORDS[near[0]]}`?" if near else ""
    raise WrongArguments(f"`{shown(words)}` is not a status: `pending`, `in_progress` or `done`.{guess}")


def number_of(text: str, thing: Thing) -> int:
    """The number of a `thing`, written with or without its letter. Raises WrongArguments."""
    name = thing.name.lower()
    reference = references.read(text.strip(".,:"), thing)
    if reference is None or reference[0] is not thing:
        given = f", not `{shown(text)}`" if text else ""
        if reference is not None:
            given += f", which is {references.NAMES[reference[0]]}"
        raise WrongArguments(
            f"The number of the {name} is needed, like `{references.ref(thing, 12)}`{given}."
        )
    if reference[1] == 0:
        raise WrongArguments(f"The numbers of a {name} start at 1.")
    return reference[1]


def agents_of(text: str, agents: Sequence[str]) -> tuple[str, ...]:
    """The agents that the text names, with or without @, separated by blanks, commas or "and".
    Raises WrongArguments."""
    known = {name.casefold(): name for name in agents}
    chosen: dict[str, None] = {}
    for word in re.split(r"[\s,]+", text.strip()):
        name = word.removeprefix("@").rstrip(".!;:")
        folded = name.casefold()
        if not name or (folded in ("and", "&", "+") and folded not in known):
            continue
        if folded in known:
            chosen[known[folded]] = None
        elif folded in ("all", "everyone"):
            chosen.update(dict.fromkeys(agents))
        else:
            near = get_close_matches(folded, known, n=1)
            guess = f" Did you mean `@{known[near[0]]}`?" if near else ""
            names = ", ".join(f"`@{agent}`" for agent in agents) or "none yet"
            raise WrongArguments(f"There is no agent `{shown(name)}`; the agents are {names}.{guess}")
    return tuple(chosen)


def shown(text: str) -> str:
    """The text as it can stand in a code span: short, on one line, without backticks."""
    line = " ".join(text.replace("`", "'").split())
    return line if len(line) <= 40 else line[:39] + "…"
