"""`/review`, `/reviewed` and `/apply`: from what a person types to an action.

Pure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from relay.model import actions
from relay.model.actions import Action
from relay.room.parsing.arguments import Command, WrongArguments, agents_of, shown

_COMMENT = re.compile(r"[mM#]?([1-9][0-9]{0,8})\.([1-9][0-9]{0,3})")


def _agent(word: str, agents: Sequence[str]) -> str:
    """The one agent that a word names. Raises WrongArguments."""
    chosen = agents_of(word, agents)
    if len(chosen) != 1:
        raise WrongArguments("Say whose branch: one agent.")
    return chosen[0]


def review(rest: str, agents: Sequence[str]) -> Action:
    """Raises WrongArguments."""
    first, *text = rest.split(None, 1) or [""]
    agent = _agent(first.rstrip(":,"), agents)
    said = text[0].strip() if text else ""
    return actions.SendReview(agent, said) if said else actions.ShowReview(agent)


def reviewed(rest: str, agents: Sequence[str]) -> Action:
    """Raises WrongArguments."""
    try:
        words = shlex.split(rest.replace("\n", " "))
    except ValueError:
        raise WrongArguments("A quotation mark is not closed.") from None
    agent = _agent(words[0] if words else "", agents)
    undo = len(words) > 2 and words[1] == "undo"
    plain = len(words) > 2 and words[1] == "--"  # what is behind it are files alone
    paths = tuple(dict.fromkeys(path for path in words[1 + (undo or plain) :] if path))
    if not paths:
        raise WrongArguments("Say which files.")
    return actions.MarkReviewed(agent, paths, undo)


def apply(rest: str, agents: Sequence[str]) -> Action:
    """Raises WrongArguments."""
    words = rest.split()
    agent = _agent(words[0] if words else "", agents)
    undo = len(words) == 3 and words[2].lower() == "undo"
    return actions.ApplySuggestion(agent, *comment_of(" ".join(words[1 : len(words) - undo])), undo)


def comment_of(text: str) -> tuple[int, int]:
    """The message's number and the comment's place of `m17.2`. Raises WrongArguments."""
    named = _COMMENT.fullmatch(text.strip())
    if named is None:
        given = f", not `{shown(text)}`" if text else ""
        raise WrongArguments(f"The comment is needed, like `m17.2`{given}.")
    return int(named[1]), int(named[2])


COMMANDS = (
    Command(
        "/review @AGENT [text]",
        "what an agent's branch changes, and what of it you have reviewed; with a text: tell it the agent",
        "/review @CODEX",
        review,
    ),
    Command(
        "/reviewed @AGENT [undo | --] <path>...",
        "mark files of an agent's branch as reviewed, until they change",
        "/reviewed @CODEX src/app.py",
        reviewed,
    ),
    Command(
        "/apply @AGENT m<number>.<comment> [undo]",
        "commit what a comment of a review suggests onto the agent's branch",
        "/apply @CODEX m17.2",
        apply,
    ),
)
