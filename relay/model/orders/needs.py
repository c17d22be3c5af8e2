"""What people order about what needs them, as values (`relay.model.actions`).

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from relay.model.orders.action import Action, OfAgent


class Needing(Action):
    """An action on what needs a person."""


class ShowNeeds(Needing, word="/inbox"):
    """What needs a person now, the newest first."""


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
