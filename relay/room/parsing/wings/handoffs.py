"""`/handoff` and `/pipeline`: from what a person types to an action.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from relay.model import actions, references
from relay.model.actions import Action, HandoffAnswer
from relay.model.references import Thing
from relay.room.parsing.arguments import MAX_REASON, Command, WrongArguments, agents_of, number_of


def handoff(rest: str, agents: Sequence[str]) -> Action:
    """Who hands on to whom, or what becomes of a handoff. Raises WrongArguments."""
    words = re.sub(r"^# +", "#", rest.strip()).split(maxsplit=2)
    written = references.read(words[0].strip(".,:"), Thing.HANDOFF) if words else None
    if written is not None and words[0].casefold() not in {agent.casefold() for agent in agents}:
        return _answer_handoff(words)
    if len(words) < 2:
        raise WrongArguments("Say who hands on and to whom: two agents, or two roles.")
    source, target = (_giver(word, agents) for word in words[:2])
    text = " ".join(words[2].split()) if len(words) > 2 else None
    return actions.HandOn(source, target, text)


def _giver(word: str, agents: Sequence[str]) -> str:
    """An agent, with its @, or the name of a role as it stands."""
    known = {agent.casefold(): agent for agent in agents}
    name = word.rstrip(",;:")
    if name.startswith("@"):
        return f"@{agents_of(name, agents)[0]}" if len(name) > 1 else name
    return f"@{known[name.casefold()]}" if name.casefold() in known else name


def _answer_handoff(words: Sequence[str]) -> Action:
    number = number_of(words[0], Thing.HANDOFF)
    word = words[1].strip(".,:").lower() if len(words) > 1 else ""
    try:
        answer = HandoffAnswer(word)
    except ValueError:
        raise WrongArguments("Say what becomes of it: `retry`, `escalate`, `skip` or `branch`.") from None
    value = " ".join(words[2].split()) if len(words) > 2 else None
    if answer is HandoffAnswer.SKIP:
        if value is None:
            raise WrongArguments("Say why it is skipped, since the reason is recorded.")
        if len(value) > MAX_REASON:
            raise WrongArguments(f"The reason has {len(value)} characters; the limit is {MAX_REASON}.")
    elif answer is HandoffAnswer.BRANCH:
        if value is None or " " in value:
            raise WrongArguments("Say the branch's name: one word.")
    elif value is not None:
        raise WrongArguments(f"`{answer}` takes nothing more.")
    return actions.AnswerHandoff(number, answer, value)


def pipeline(rest: str, _agents: Sequence[str]) -> Action:
    """What the roles are to do. Raises WrongArguments."""
    text = " ".join(rest.split())
    if not text:
        raise WrongArguments("Say what is to be done.")
    return actions.RunPipeline(text)


COMMANDS = (
    Command(
        "/handoff @AGENT @AGENT [text] | h<number> retry | escalate | skip <reason> | branch <name>",
        "check an agent's work and hand it on (agents or roles); the rest says what becomes of one that did not pass",
        "/handoff @CLAUDE @CODEX write the tests",
        handoff,
    ),
    Command(
        "/pipeline <task>",
        "run a task through the configured roles, each handing on to the next",
        "/pipeline Add a login page",
        pipeline,
    ),
)
