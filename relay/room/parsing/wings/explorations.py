"""`/explore`: from what a person types to an action.

Pure.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from relay.model import actions, references
from relay.model.actions import Action
from relay.model.references import Thing
from relay.room.parsing.arguments import Command, WrongArguments, number_of, shown

#: Variants of a task for which nobody says how many.
USUAL = 3


def explore(rest: str, _agents: Sequence[str]) -> Action:
    """What is to be explored, or what becomes of an exploration. Raises WrongArguments."""
    words = rest.split(maxsplit=1)
    if not words:
        raise WrongArguments("Say what is to be done.")
    first, more = words[0].lower(), words[1].strip() if len(words) > 1 else ""
    if first == "take" and _is_exploration(more.split(maxsplit=1)[0] if more else ""):
        return _take(more)
    if first == "end" and _is_exploration(more):
        return actions.EndExploration(number_of(more, Thing.EXPLORATION))
    if not more and _is_exploration(first):
        return actions.ShowExploration(number_of(first, Thing.EXPLORATION))
    if first.isdecimal() and first.isascii():
        if not more:
            raise WrongArguments("Say what is to be done.")
        if len(first) > 2 or int(first) < 2:
            raise WrongArguments(
                f"`{shown(first)}` variants cannot be compared: two or more, a dozen at most."
            )
        return actions.Explore(int(first), " ".join(more.split()))
    return actions.Explore(USUAL, " ".join(rest.split()))


def _is_exploration(text: str) -> bool:
    """Is it written with its letter?"""
    found = references.read(text.strip(".,:"))
    return found is not None and found[0] is Thing.EXPLORATION


def _take(rest: str) -> Action:
    try:
        number, *words = shlex.split(rest)
    except ValueError:
        raise WrongArguments("A quotation mark is not closed.") from None
    if not words:
        raise WrongArguments("Say which variant is merged.")
    files = words[1:]
    for word in files:
        path, cut, variant = word.rpartition("=")
        if not cut or not path or not variant:
            raise WrongArguments(f"`{shown(word)}` is not `path=variant`.")
    return actions.TakeVariant(number_of(number, Thing.EXPLORATION), words[0], tuple(files))


COMMANDS = (
    Command(
        "/explore <variants> <task> | x<number> | take x<number> <variant> [path=variant]... | end x<number>",
        "do a task in several ways at once, by the room's agents in turn, and keep the best; `x3` shows how they "
        "compare, `take` merges one (with files from others), `end` none",
        "/explore 3 Cache the answers of lookup()",
        explore,
    ),
)
