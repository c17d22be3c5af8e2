"""A program that goes on reading its input while it works, so that it can be told something, and asks something.

Invariant: pure, as every stream: what is to be written is a value, and who writes it is `command/conversation.py`.
A message counts as delivered by the program's own word alone.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from relay.agents.process.stream import Stream
from relay.model import Channel, SteeringMessage


@dataclass(frozen=True, slots=True)
class Question:
    """The program asks whether it may use a tool, and waits. `id`: its own of the question; `tool`, `given`: what it
    would do, in the words of Claude Code's hooks; `folder`: where it does it."""

    id: str
    tool: str
    given: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""


class Session(Stream):
    """One turn of such a program: what is written to it, and what it says.

    `channel`: how it hears what is said now, None while that is not known. `asks`: it is to ask before each edit; set
    before `begin`. `refused`: it lets nobody be asked this way, and has not begun its turn. `unanswered`: what it
    asked, until that is taken. `outgoing`: what is to be written besides, until that is taken.
    """

    is_json = True
    asks = False

    def __init__(self) -> None:
        super().__init__()
        self.channel: Channel | None = None
        self.refused = False
        self.unanswered: list[Question] = []
        self.outgoing = b""

    @property
    @abstractmethod
    def finished(self) -> bool:
        """The turn is over, and nothing that it was told is still to come: the input may be closed."""

    @abstractmethod
    def tell(self, message: SteeringMessage) -> bytes:
        """What tells the running turn this. A `DeliveredPart` follows when the program has taken it in."""

    @property
    def cut(self) -> bool:
        """It has said that its turn is over, after it was told to stop."""
        return self.finished

    def interrupt(self) -> bytes:
        """What tells it to stop its turn and all that it was told, so that its conversation says so; empty = it has
        not begun, or knows no such word, and is ended as it stands."""
        return b""

    def reply(self, question: Question, reason: str, note: str = "") -> bytes:
        """What says that it may, with a note for the model; with a `reason`, that it may not."""
        raise NotImplementedError("this program asks nothing")


def line(event: Mapping[str, Any]) -> bytes:
    """One line of a stream of JSON."""
    return json.dumps(event).encode() + b"\n"
