"""What is done with one entry, like `/reply` and `/edit`: from what a person types to an action.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from relay.model.actions import Action
from relay.model.references import Thing
from relay.room.parsing.arguments import WrongArguments, number_of

_NUMBER = re.compile(r"\s*((?:# ?)?\S*)(.*)", re.DOTALL)


def with_text(action: Callable[[int, str], Action], missing: str) -> Callable[[str, Sequence[str]], Action]:
    """A command that takes the number of a message, and a text; `missing`: the error where there is none."""

    def parse(rest: str, _agents: Sequence[str]) -> Action:
        number, text = _parted(rest)
        message = number_of(number, Thing.MESSAGE)
        if not text:
            raise WrongArguments(missing)
        return action(message, text)

    return parse


def one(action: Callable[[int], Action]) -> Callable[[str, Sequence[str]], Action]:
    """A command that takes the number of a message and nothing more."""

    def parse(rest: str, _agents: Sequence[str]) -> Action:
        number, text = _parted(rest)
        message = number_of(number, Thing.MESSAGE)
        if text.strip(".!?"):
            raise WrongArguments("One number at a time.")
        return action(message)

    return parse


def _parted(rest: str) -> tuple[str, str]:
    match = _NUMBER.match(rest)
    assert match is not None
    return match[1], match[2].strip()
