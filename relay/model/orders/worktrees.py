"""What people order about the agents' worktrees, as values (`relay.model.actions`).

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from relay.model.orders.action import Action, OfAgent


class Tending(Action):
    """An action on what runs in worktrees."""


class ShowApps(Tending, word="/app"):
    """Which apps run, and where they listen."""


@dataclass(frozen=True)
class RunApp(OfAgent, Tending, word="/app"):
    """Start the app of an agent's branch in its worktree."""

    def line(self) -> str:
        return f"{self.word} @{self.agent} run"


@dataclass(frozen=True)
class StopApp(OfAgent, Tending, word="/app"):
    """End the app of an agent's branch."""

    def line(self) -> str:
        return f"{self.word} @{self.agent} stop"


@dataclass(frozen=True)
class SetUp(OfAgent, Tending, word="/setup"):
    """Run the setup of an agent's worktree once more."""
