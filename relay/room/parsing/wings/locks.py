"""`/locks` and `/unlock`: from what a person types to an action.

Pure.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from io import StringIO

from relay.model import actions
from relay.model.actions import Action
from relay.room.parsing.arguments import MAX_REASON, Command, WrongArguments


def _first_word(text: str) -> tuple[str, str]:
    """The first word, which may be quoted, and the rest unparsed: a reason may have apostrophes."""
    stream = StringIO(text)
    words = shlex.shlex(stream, posix=True)
    words.whitespace_split, words.commenters, words.escape = True, "", ""
    try:
        word = words.get_token() or ""
    except ValueError:
        raise WrongArguments("A quotation mark is not closed.") from None
    return word, stream.read().strip()


def show_locks(rest: str, _agents: Sequence[str]) -> Action:
    path, more = _first_word(rest)
    if more:
        raise WrongArguments("One path at a time; put it in quotes if it has spaces.")
    return actions.ShowLocks(path or None)


def force_release(rest: str, _agents: Sequence[str]) -> Action:
    path, reason = _first_word(rest)
    if not path:
        raise WrongArguments("Say which path to unlock.")
    reason = " ".join(reason.split())
    if not reason:
        raise WrongArguments("Say why: its holder is told.")
    if len(reason) > MAX_REASON:
        raise WrongArguments(f"The reason has {len(reason)} characters; the limit is {MAX_REASON}.")
    return actions.ForceRelease(path, reason)


COMMANDS = (
    Command("/locks [path]", "show who holds which files, and who waits", "/locks", show_locks),
    Command(
        "/unlock <path> <reason>",
        "take a lock from its holder, who is told why (put a path with spaces in quotes)",
        "/unlock src/app.py I take it over",
        force_release,
    ),
)
