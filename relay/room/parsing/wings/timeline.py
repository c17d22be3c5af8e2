"""`/rewind` and `/checkpoint`: from what a person types to an action.

Invariant: a name or a moment in quotes is taken as it stands; without quotes the words behind it (`into main`,
`preview`, `of @AGENT`) are the command's own. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from relay.model.actions import Action, MakeCheckpoint, RedoRewind, Rewind, UndoRewind
from relay.room.parsing.arguments import Command, WrongArguments

_PLACES = ("new", "worktree", "main")
_LANE = re.compile(r"(?:\"(?P<quoted>[^\"]+)\"|(?P<plain>.+?(?<! ))) ++to(?: +|$)", re.IGNORECASE)
_TO = re.compile(r"\"(?P<quoted>[^\"]*)\"(?P<rest>.*)")
#: An option at the end, which has a word before it.
_OPTION = re.compile(r"(?:^| )(?:(?P<flag>preview|partial)|into +(?P<into>\S+))$", re.IGNORECASE)
_OF = re.compile(r"(?P<name>\"[^\"]*\"|[^\"]+?(?<! )) ++of +@(?P<agent>\S+)", re.IGNORECASE)


def parse_rewind(rest: str, agents: Sequence[str]) -> Action:
    """`NAME to MOMENT [into new|worktree|main] [partial] [preview]`, `undo ...` or `redo ...`. Raises
    WrongArguments."""
    text = " ".join(rest.split())
    word, _, behind = text.partition(" ")
    if (kind := {"undo": UndoRewind, "redo": RedoRewind}.get(word.lower())) and not behind.startswith("to "):
        left, into, flags = _options(behind)
        if left or into is not None:
            raise WrongArguments(f"Behind `{word}` may stand `partial` and `preview`.")
        return kind(partial="partial" in flags, preview="preview" in flags)
    match = _LANE.match(text)
    if match is None:
        raise WrongArguments("Say whose work to take back, and to which moment.")
    lane = match["quoted"] or match["plain"]
    quoted = _TO.fullmatch(text[match.end() :])
    left, into, flags = _options(quoted["rest"] if quoted else text[match.end() :])
    if quoted and left:
        raise WrongArguments("Behind the moment may stand `into new|worktree|main`, `partial` and `preview`.")
    to = (quoted["quoted"] if quoted else left).strip()
    if not to:
        raise WrongArguments("Say to which moment: a time, how long ago, an event or a checkpoint.")
    return Rewind(_spelled(lane, agents), to, into, partial="partial" in flags, preview="preview" in flags)


def parse_checkpoint(rest: str, agents: Sequence[str]) -> Action:
    """`NAME [of @AGENT]`. Raises WrongArguments."""
    text, agent = " ".join(rest.split()), None
    if match := _OF.fullmatch(text):
        text, agent = match["name"], _spelled(match["agent"], agents)
        if agent not in agents:
            raise WrongArguments(
                f"There is no agent of the name behind `of`; the agents are {', '.join(agents)}."
            )
    name = text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
    if not name.strip():
        raise WrongArguments("The name is missing.")
    return MakeCheckpoint(name.strip(), agent)


def _options(text: str) -> tuple[str, str | None, set[str]]:
    """What stands before the options, the place behind `into`, and the other options."""
    into, flags = None, set[str]()
    while match := _OPTION.search(text):
        if match["flag"]:
            flags.add(match["flag"].lower())
        elif into is None and match["into"].lower() in _PLACES:
            into = match["into"].lower()
        else:
            raise WrongArguments(f"It goes into one of: {', '.join(_PLACES)}.")
        text = text[: match.start()].rstrip()
    return text.strip(), into, flags


def _spelled(name: str, agents: Sequence[str]) -> str:
    """An agent's name as it is configured; another's as it was typed."""
    known = {agent.casefold(): agent for agent in agents}
    plain = name.removeprefix("@")
    return known.get(plain.casefold(), plain)


COMMANDS = (
    Command(
        "/rewind NAME to <moment> [into main | worktree | new] [partial] [preview] | undo | redo",
        "take back what an agent or a person did since a moment (`14:00`, `-1h`, `#1234`, a checkpoint), and leave "
        "others' work; `into` says where, `preview` only shows it",
        "/rewind CODEX to 14:00 preview",
        parse_rewind,
    ),
    Command(
        "/checkpoint <name> [of @AGENT]",
        "give the main branch's files as they are (or an agent's) a name to go back to",
        "/checkpoint before the big change",
        parse_checkpoint,
    ),
)
