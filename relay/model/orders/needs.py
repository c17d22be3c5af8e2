"""What people order about what needs them, as values (`relay.model.actions`).

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from relay.model.orders.action import Action, OfAgent


class Needing(Action):
    """An action on what needs a person."""


class ShowNeeds(Needing, word="/inbox"):
    """What needs a person now."""


@dataclass(frozen=True)
class ShowSince(Needing, word="/since"):
    """What came since the message `after` (`m12`), in short; empty = since the asker's last one."""

    after: str = ""

    def line(self) -> str:
        return f"{self.word} {self.after}".rstrip()


@dataclass(frozen=True)
class PutOff(Needing, word="/later"):
    """Take something out of the inbox until tomorrow, a question for good, or until it ends by itself. `need`: its
    id; `undo`: show it again."""

    need: str
    undo: bool = False

    def line(self) -> str:
        return f"{self.word} {self.need}{' undo' if self.undo else ''}"


@dataclass(frozen=True)
class RaiseBudget(OfAgent, word="/budget"):
    """Set one limit of an agent's budget in the configuration. `what`: turns_per_hour, tokens_per_day or usd_per_day;
    `limit`: the new one, in turns, tokens or US dollars."""

    what: str
    limit: float

    def line(self) -> str:
        return f"{self.word} @{self.agent} {self.what} {self.limit:.15g}"


@dataclass(frozen=True)
class SetAgent(OfAgent, word="/agent"):
    """Set an agent's model, effort, or whether it is given work, in the configuration. `model`, `effort`: empty = as
    it is, None = its program's own; `enabled`: None = as it is."""

    model: str | None = ""
    effort: str | None = ""
    enabled: bool | None = None

    @property
    def changes(self) -> dict[str, Any]:
        """What is set, by the key of the configuration; None takes the key out."""
        named = {"model": self.model, "effort": self.effort}
        changed: dict[str, Any] = {key: value for key, value in named.items() if value != ""}
        return changed if self.enabled is None else {**changed, "enabled": self.enabled}

    def said(self, by: str) -> str:
        """What the room says of it."""
        return (
            f"{by} set {self.agent}: {', '.join(f'{key} = {value}' for key, value in self.changes.items())}."
        )

    def line(self) -> str:
        words = [self.word, f"@{self.agent}"]
        for key, value in self.changes.items():
            words += [("off", "on")[value]] if key == "enabled" else [key, UNSET if value is None else value]
        return " ".join(words)


@dataclass(frozen=True)
class MarkAdvisory(Action, word="/mark"):
    """Say of an advisory what it was worth. `advisory`: the room's message that tells of it (`m12`), or its id;
    `mark`: `useful` or `noise`, None = neither."""

    advisory: str
    mark: str | None

    def line(self) -> str:
        return f"{self.word} {self.advisory} {self.mark or 'none'}"


#: What may be said of an advisory.
MARKS = ("useful", "noise")
#: In place of a model or an effort: the one that the agent's program takes by itself.
UNSET = "default"
