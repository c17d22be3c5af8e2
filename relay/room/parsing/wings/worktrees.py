"""`/app`, `/setup` and `/abort`: from what a person types to an action.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from relay.model import actions
from relay.model.actions import Action
from relay.room.parsing.arguments import Command, WrongArguments, agents_of, shown

_VERBS = {
    **dict.fromkeys(("run", "start"), actions.RunApp),
    **dict.fromkeys(("stop", "end"), actions.StopApp),
    "output": actions.ShowOutput,
}


def app(rest: str, agents: Sequence[str]) -> Action:
    """Raises WrongArguments."""
    words = rest.split()
    if not words:
        return actions.ShowApps()
    verbs = [word for word in words if word.lower().rstrip(".!") in _VERBS and not word.startswith("@")]
    names = " ".join(word for word in words if word not in verbs)
    chosen = agents_of(names, agents)
    if len(chosen) != 1:
        raise WrongArguments("Say whose app, one agent at a time.")
    if len(verbs) != 1:
        raise WrongArguments(f"Say what to do with the app of {shown(chosen[0])}: `run`, `stop` or `output`.")
    return _VERBS[verbs[0].lower().rstrip(".!")](chosen[0])


def _of_one(make: Callable[[str], Action]) -> Callable[[str, Sequence[str]], Action]:
    """For an action on one agent's worktree."""

    def parse(rest: str, agents: Sequence[str]) -> Action:
        chosen = agents_of(rest, agents)
        if len(chosen) != 1:
            raise WrongArguments("Say whose worktree, one agent at a time.")
        return make(chosen[0])

    return parse


def set_up(rest: str, agents: Sequence[str]) -> Action:
    """Raises WrongArguments."""
    if chosen := agents_of(rest, agents):
        return actions.SetUp(chosen)
    raise WrongArguments("Say whose worktree.")


COMMANDS = (
    Command(
        "/app [@AGENT run | stop | output]",
        "start the app of an agent's branch in its worktree, end it, or show what it and the setup printed; alone it "
        "shows which run, and where",
        "/app @CODEX run",
        app,
    ),
    Command("/setup @AGENT...", "run the setup of these agents' worktrees again", "/setup @CODEX", set_up),
    Command(
        "/abort @AGENT",
        "give up the merge of the main branch that relay began in an agent's worktree; its files are kept",
        "/abort @CODEX",
        _of_one(actions.GiveUpMerge),
    ),
)
