"""The commands of the worktrees and of their branches: from what a person types to an action.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from relay.model import actions
from relay.model.actions import Action
from relay.room.parsing.arguments import Command, WrongArguments, agents_of, shown

_COMMIT = re.compile(r"[0-9a-f]{7,40}")
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


def takeback(rest: str, agents: Sequence[str]) -> Action:
    """Raises WrongArguments."""
    words = rest.split()
    commits = [word for word in words if _COMMIT.fullmatch(word) and not word.startswith("@")]
    chosen = agents_of(" ".join(word for word in words if word not in commits), agents)
    if len(chosen) != 1 or len(commits) != 1:
        raise WrongArguments("Say whose merge, and the commit of it on the main branch.")
    return actions.TakeBackMerge(chosen[0], commits[0])


def _of_one(make: Callable[[str], Action]) -> Callable[[str, Sequence[str]], Action]:
    """For an action on one agent's worktree."""

    def parse(rest: str, agents: Sequence[str]) -> Action:
        chosen = agents_of(rest, agents)
        if len(chosen) != 1:
            raise WrongArguments("Say whose worktree, one agent at a time.")
        return make(chosen[0])

    return parse


def merge(rest: str, agents: Sequence[str]) -> Action:
    """Raises WrongArguments."""
    words, how = rest.split(), set[str]()
    while len(words) > 1 and (last := words[-1].lower().rstrip(".!")) in ("squash", "anyway"):
        how.add(last)
        words.pop()
    merged = _of_one(actions.MergeBranch)(" ".join(words), agents)
    assert isinstance(merged, actions.MergeBranch)
    return replace(merged, squash="squash" in how, anyway="anyway" in how)


def restore(rest: str, agents: Sequence[str]) -> Action:
    """Raises WrongArguments."""
    words = rest.split()
    refs = [word for word in words if word.startswith("refs/")]
    if len(refs) > 1:
        raise WrongArguments("Say which work to bring back by one ref, or by none for the latest.")
    restored = _of_one(actions.RestoreWork)(" ".join(word for word in words if word not in refs), agents)
    assert isinstance(restored, actions.RestoreWork)
    return replace(restored, kept=refs[0] if refs else None)


def abort(rest: str, agents: Sequence[str]) -> Action:
    """Raises WrongArguments."""
    words = rest.split()
    names = [word for word in words if word.lower().rstrip(".!") != "settle"]
    given_up = _of_one(actions.GiveUpMerge)(" ".join(names), agents)
    assert isinstance(given_up, actions.GiveUpMerge)
    return replace(given_up, settle=len(names) < len(words))


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
        "/merge @AGENT [squash] [anyway]",
        "merge an agent's branch into the main branch at once, without the landing queue; `squash`: as one commit; "
        "`anyway`: although its tests failed",
        "/merge @CODEX squash",
        merge,
    ),
    Command(
        "/discard @AGENT",
        "take an agent's work off its branch; a ref keeps it",
        "/discard @CODEX",
        _of_one(actions.DiscardWork),
    ),
    Command(
        "/restore @AGENT [REF]",
        "bring back what was discarded of an agent's work: the latest, or what the ref keeps",
        "/restore @CODEX",
        restore,
    ),
    Command(
        "/abort @AGENT [settle]",
        "give up the merge of the main branch that relay began in an agent's worktree; its files are kept; `settle`: "
        "then, or where none is under way, decide in the room what is to stand",
        "/abort @CODEX settle",
        abort,
    ),
    Command(
        "/takeback @AGENT COMMIT",
        "take the merge of an agent's work back from the main branch; the agent's branch has the work again",
        "/takeback @CODEX 4f2a91c",
        takeback,
    ),
)
