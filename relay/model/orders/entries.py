"""What people order about entries of the transcript, as values (`relay.model.actions`).

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from relay.model import references
from relay.model.orders.action import Action


class OnEntries(Action):
    """An action on entries of the transcript."""


@dataclass(frozen=True)
class OnEntry(OnEntries):
    """An action on one entry, by its room number."""

    message: int

    def line(self) -> str:
        return f"{self.word} {references.message(self.message)}"


@dataclass(frozen=True)
class EditMessage(OnEntry, word="/edit"):
    """Let one's own message say `text` from now on."""

    text: str

    def line(self) -> str:
        return f"{self.word} {references.message(self.message)} {self.text}"


@dataclass(frozen=True)
class Reply(OnEntry, word="/reply"):
    """Say `text` in answer to an entry, in its thread."""

    text: str

    def line(self) -> str:
        return f"{self.word} {references.message(self.message)} {self.text}"


class DeleteMessage(OnEntry, word="/delete"):
    """Take one's own message out of the room. The transcript file keeps it."""


class Pin(OnEntry, word="/pin"):
    """Keep an entry on top of the room, for people and for agents."""


class Unpin(OnEntry, word="/unpin"):
    """Take a pinned entry down again."""


class ShowPins(OnEntries, word="/pins"):
    """What is pinned."""


class ShowThread(OnEntry, word="/thread"):
    """An entry, what it answers, and what answers it."""
