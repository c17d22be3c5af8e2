"""What people order when they read through an agent's branch, as values (`relay.model.actions`).

Pure.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from relay.model import references
from relay.model.orders.action import OfAgent


@dataclass(frozen=True)
class ShowReview(OfAgent, word="/review"):
    """What the agent's branch changes, which of its files the person has reviewed, and what was said of it."""


@dataclass(frozen=True)
class SendReview(OfAgent, word="/review"):
    """Tell the agent what a person says of its branch: one message. `text`: as the agent and the room read it."""

    text: str

    def line(self) -> str:
        return f"{self.word} @{self.agent} {self.text}"


@dataclass(frozen=True)
class MarkReviewed(OfAgent, word="/reviewed"):
    """The person has reviewed these files of the agent's branch as they are now. `undo`: has not."""

    paths: tuple[str, ...]
    undo: bool = False

    def line(self) -> str:
        undo = "undo " if self.undo else "-- " if self.paths[0] in ("undo", "--") else ""
        return f"{self.word} @{self.agent} {undo}{' '.join(map(shlex.quote, self.paths))}"


@dataclass(frozen=True)
class ApplySuggestion(OfAgent, word="/apply"):
    """Commit what a comment suggests onto the agent's branch. `message`: the room number of the review, `comment`:
    which one of it, from 1; `undo`: put back the lines that were there before."""

    message: int
    comment: int
    undo: bool = False

    def line(self) -> str:
        return f"{self.word} @{self.agent} {self.name}{' undo' * self.undo}"

    @property
    def name(self) -> str:
        """The comment, as people say it: `m17.2`."""
        return f"{references.message(self.message)}.{self.comment}"
