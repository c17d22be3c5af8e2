"""What people order about the agents' worktrees, as values (`relay.model.actions`).

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from relay.model.orders.action import Action, OfAgent, OfAgents


class InWorktrees(Action):
    """An action on what runs in worktrees."""


class ShowApps(InWorktrees, word="/app"):
    """Which apps run, and where they listen."""


@dataclass(frozen=True)
class RunApp(OfAgent, InWorktrees, word="/app"):
    """Start the app of an agent's branch in its worktree."""

    def line(self) -> str:
        return f"{self.word} @{self.agent} run"


@dataclass(frozen=True)
class StopApp(OfAgent, InWorktrees, word="/app"):
    """End the app of an agent's branch."""

    def line(self) -> str:
        return f"{self.word} @{self.agent} stop"


@dataclass(frozen=True)
class ShowOutput(OfAgent, InWorktrees, word="/app"):
    """What the setup and the app of an agent's worktree have printed last."""

    def line(self) -> str:
        return f"{self.word} @{self.agent} output"


@dataclass(frozen=True)
class SetUp(OfAgents, InWorktrees, word="/setup"):
    """Run the setup of these agents' worktrees once more."""


@dataclass(frozen=True)
class GiveUpMerge(OfAgent, InWorktrees, word="/abort"):
    """Give up the merge of the main branch that relay began in an agent's worktree. `settle`: then, or where none is
    under way, ask the room what is to stand where the two conflict."""

    settle: bool = False

    def line(self) -> str:
        return f"{self.word} @{self.agent}" + " settle" * self.settle


@dataclass(frozen=True)
class TakeBackMerge(OfAgent, InWorktrees, word="/takeback"):
    """Take the merge of an agent's work back from the main branch. `commit`: the main branch's commit of it."""

    commit: str


@dataclass(frozen=True)
class MergeBranch(OfAgent, InWorktrees, word="/merge"):
    """Merge an agent's branch into the main branch. `anyway`: although its tests failed. What a page or a shell says
    beside, which the line has not:
    `message`, `head`, `joined` and `untested`, as `text` and these of the airspace's `MergeOptions`."""

    squash: bool = False
    message: str = ""
    head: str = ""
    joined: str = ""
    untested: bool = False
    anyway: bool = False

    def line(self) -> str:
        return f"{self.word} @{self.agent}" + " squash" * self.squash + " anyway" * self.anyway


class DiscardWork(OfAgent, InWorktrees, word="/discard"):
    """Take an agent's work off its branch; a ref keeps it."""


@dataclass(frozen=True)
class RestoreWork(OfAgent, InWorktrees, word="/restore"):
    """Bring back what was discarded of an agent's work. `kept`: the ref that has it; None = the latest."""

    kept: str | None = None


#: What is ordered of an agent's branch.
OnBranch = MergeBranch | DiscardWork | RestoreWork | GiveUpMerge | TakeBackMerge
