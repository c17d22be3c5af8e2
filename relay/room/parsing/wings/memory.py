"""`/recall`, `/remember`, `/decide`, `/forget` and `/useful`: from what a person types to an action.

Invariant: the text is kept as it was typed, its lines too. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from relay.model import references
from relay.model.actions import Action, Decide, Forget, JudgeMemory, Recall, Remember
from relay.model.references import Thing
from relay.room.parsing.arguments import Command, WrongArguments, number_of

#: Characters of what a command keeps: a paragraph. What is longer is a document, which stands in a file.
MOST_TEXT = 4096
_BECAUSE = re.compile(r"(?:^|(?<!\s)\s++)because(?:\s+|$)", re.IGNORECASE)


def parse_recall(rest: str, _agents: Sequence[str]) -> Action:
    return Recall(" ".join(rest.split()))


def parse_remember(rest: str, _agents: Sequence[str]) -> Action:
    """Raises WrongArguments."""
    return Remember(_text(rest, "Say what to remember."))


def parse_decide(rest: str, _agents: Sequence[str]) -> Action:
    """`TEXT [because WHY]`. Raises WrongArguments."""
    text = _text(rest, "Say what is decided.")
    because = _BECAUSE.search(text)
    if because is None:
        return Decide(text)
    what, why = text[: because.start()], text[because.end() :]
    if not what or not why:
        raise WrongArguments(f"Say {'why' if what else 'what is decided'}.")
    return Decide(what, why)


def parse_forget(rest: str, _agents: Sequence[str]) -> Action:
    """`r<number>`, or the id of an entry of the knowledge. Raises WrongArguments."""
    if entry := references.entry(rest.strip(" #.,:")):
        return Forget(entry)
    return Forget(number_of(" ".join(rest.split()).replace("# ", "#"), Thing.MEMORY))


def parse_useful(rest: str, _agents: Sequence[str]) -> Action:
    """`r<number>`, with `no` behind it: it did not help. Raises WrongArguments."""
    words = rest.replace("# ", "#").split()
    useful = len(words) < 2 or words[-1].lower().rstrip(".!") != "no"
    return JudgeMemory(number_of(" ".join(words if useful else words[:-1]), Thing.MEMORY), useful)


def _text(rest: str, missing: str) -> str:
    text = rest.strip()
    if not text:
        raise WrongArguments(missing)
    if len(text) > MOST_TEXT:
        raise WrongArguments(f"That has {len(text):,} characters; the limit is {MOST_TEXT:,}.")
    return text


COMMANDS = (
    Command(
        "/recall [text]",
        "show what is remembered that bears on it, with who said it and when",
        "/recall why do we not mock the clock",
        parse_recall,
    ),
    Command(
        "/remember <text>",
        "keep it for whoever it concerns later: an agent is told it with a turn that it bears on",
        "/remember never mock the clock here, it hid a bug",
        parse_remember,
    ),
    Command(
        "/decide <text> [because <reason>]",
        "record a decision, which answers who asks why it is so",
        "/decide use PostgreSQL because two hosts write",
        parse_decide,
    ),
    Command(
        "/forget r<number>|k<id>",
        "tell it to nobody any more (its number or id is in `/recall`, and in what an agent was given)",
        "/forget r14",
        parse_forget,
    ),
    Command(
        "/useful r<number> [no]",
        "say that what is remembered helped (`no`: that it did not): it moves its place for everybody",
        "/useful r14",
        parse_useful,
    ),
)
