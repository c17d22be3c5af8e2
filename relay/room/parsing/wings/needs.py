"""`/inbox`, `/since`, `/later`, `/budget`, `/agent` and `/mark`: from what a person types to an action.

Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from relay.model import actions, references
from relay.model.actions import Action
from relay.model.orders.needs import MARKS, UNSET
from relay.room.parsing.arguments import Command, WrongArguments, agents_of, shown

#: What a budget limits, by the key of the configuration.
LIMITS = ("turns_per_hour", "tokens_per_day", "usd_per_day")


def inbox(rest: str, _agents: Sequence[str]) -> Action:
    """Raises WrongArguments."""
    if rest.strip(" ?.!"):
        raise WrongArguments("It takes nothing more.")
    return actions.ShowNeeds()


def since(rest: str, _agents: Sequence[str]) -> Action:
    """Raises WrongArguments."""
    words = rest.strip(" ?.!").split()
    if len(words) > 1:
        raise WrongArguments("Name one message, like `m12`, or none.")
    number = references.read(words[0], bare=references.Thing.MESSAGE) if words else None
    if words and (number is None or number[0] is not references.Thing.MESSAGE):
        raise WrongArguments(f"`{shown(words[0])}` is no message; one is called like `m12`.")
    return actions.ShowSince(references.message(number[1]) if number else "")


def later(rest: str, _agents: Sequence[str]) -> Action:
    """Raises WrongArguments."""
    words = rest.split()
    undo = len(words) == 2 and words[1].lower() == "undo"
    if len(words) != 1 + undo:
        raise WrongArguments("Say what is put off, by its id, like `job:17`.")
    return actions.PutOff(words[0], undo)


def budget(rest: str, agents: Sequence[str]) -> Action:
    """Raises WrongArguments."""
    words = rest.split()
    if len(words) != 3:
        raise WrongArguments("Say whose budget, which limit, and how much.")
    chosen = agents_of(words[0], agents)
    if len(chosen) != 1:
        raise WrongArguments("Say whose budget: one agent.")
    if words[1] not in LIMITS:
        raise WrongArguments(f"There is no limit `{shown(words[1])}`; there is {', '.join(LIMITS)}.")
    try:
        limit = float(words[2].lstrip("$").replace(",", "").replace("_", ""))
    except ValueError:
        limit = math.nan
    if not 0 < limit < 2**53:
        raise WrongArguments(f"`{shown(words[2])}` is no limit: a number above 0 is.")
    return actions.RaiseBudget(chosen[0], words[1], limit)


def agent(rest: str, agents: Sequence[str]) -> Action:
    """`@AGENT`, then `on`, `off`, `model NAME` and `effort LEVEL` in any order. Raises WrongArguments."""
    name, *words = rest.split() or [""]
    chosen = agents_of(name, agents)
    if len(chosen) != 1:
        raise WrongArguments("Say which agent, one at a time.")
    found: dict[str, Any] = {}
    while words:
        word = words.pop(0)
        key, value = "enabled" if word.lower() in ("on", "off") else word.lower(), word.lower() == "on"
        if key not in ("enabled", "model", "effort"):
            raise WrongArguments(f"`{shown(word)}` is not `on`, `off`, `model NAME` or `effort LEVEL`.")
        if key in found:
            raise WrongArguments(f"Say `{shown(word)}` once.")
        if key == "enabled":
            found[key] = value
        elif words:
            given = words.pop(0)
            found[key] = None if given.lower() == UNSET else given
        else:
            raise WrongArguments(f"Say which {key}; `{UNSET}`: the one that its program takes.")
    if not found:
        raise WrongArguments("Say what to set: `on`, `off`, `model NAME` or `effort LEVEL`.")
    return actions.SetAgent(chosen[0], **found)


def mark(rest: str, _agents: Sequence[str]) -> Action:
    """Raises WrongArguments."""
    words = rest.split()
    said = words[-1].lower().rstrip(".!") if words else ""
    if len(words) != 2 or said not in (*MARKS, "none"):
        raise WrongArguments("Say which advisory, and `useful`, `noise` or `none`.")
    return actions.MarkAdvisory(words[0], None if said == "none" else said)


COMMANDS = (
    Command(
        "/mark m<number> useful | noise | none",
        "say whether an advisory was of use: that of the message; `none` takes it back",
        "/mark m12 noise",
        mark,
    ),
    Command(
        "/agent @AGENT on | off | model NAME | effort LEVEL",
        "give an agent work or none, or set its model or effort, in config.json; `default` as a NAME or LEVEL: what "
        "its program takes by itself",
        "/agent @CODEX model gpt-5",
        agent,
    ),
    Command("/inbox", "what needs you, with what you can do about it", "/inbox", inbox),
    Command(
        "/since [m<number>]",
        "what came since that message, or since your last one, in short",
        "/since m12",
        since,
    ),
    Command(
        "/later <id> [undo]",
        "take something out of the inbox until tomorrow; `/inbox` shows the id, and its beginning is enough",
        "/later job:17",
        later,
    ),
    Command(
        "/budget @AGENT turns_per_hour | tokens_per_day | usd_per_day <limit>",
        "set a limit of an agent's budget",
        "/budget @CODEX usd_per_day 10",
        budget,
    ),
)
