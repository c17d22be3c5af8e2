"""What an agent is told while its turn runs, and by which channel it hears that.

The room puts urgent messages into the inbox of a running turn. Whoever runs the agent takes them out, gives them to
the agent's program, and says with a `DeliveredPart` which of them the program has taken in. A message without that
receipt belongs to the room: it comes with the next turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256


def mark_for(text: str) -> str:
    """A mark for the two ends of `text` that does not occur in it. The same text has the same mark."""
    seed = sha256(text.encode("utf-8", "replace"))
    while (mark := f"ROOM-{seed.hexdigest()[:16]}") in text:
        seed.update(b".")
    return mark


class Hears(StrEnum):
    """When an agent that works hears what is said to it."""

    #: At its next tool boundary.
    BOUNDARY = "boundary"
    #: With its next turn.
    NEXT = "next"


@dataclass(frozen=True, slots=True)
class Channel:
    """How an agent hears what is said while it works. `name`: the way, as its program's documentation calls it.
    `why`: why it is this one, in a sentence."""

    name: str = "next turn"
    hears: Hears = Hears.NEXT
    why: str = ""

    def as_json(self) -> dict[str, str]:
        return {"name": self.name, "hears": str(self.hears), "why": self.why}


@dataclass(frozen=True, slots=True)
class SteeringMessage:
    """What a running turn is told. `id`: of the room's entry; `text`: as the agent reads it, fenced, with its
    speaker."""

    id: str
    text: str


class Inbox:
    """The messages for one running turn, the oldest first.

    `channel` is set by whoever runs the agent, as soon as its program can be told something; until then, and after
    `close`, nothing is taken in.
    """

    def __init__(self) -> None:
        self.channel: Channel | None = None
        #: The agent hears what is put from now on.
        self.opened = asyncio.Event()
        #: What was there when it was opened has been put.
        self.filled = asyncio.Event()
        self.closed = False
        self._put = asyncio.Event()
        self._waiting: deque[SteeringMessage] = deque()

    @property
    def hears(self) -> bool:
        """Does the agent hear now what is put?"""
        return self.channel is not None and self.channel.hears is Hears.BOUNDARY

    def open(self, channel: Channel) -> None:
        """Once it is closed it stays so."""
        if not self.closed:
            self.channel = channel
            if self.hears:
                self.opened.set()

    def close(self) -> None:
        """The turn takes nothing in any more; what waits comes with the next one."""
        self.channel, self.closed = None, True
        self._waiting.clear()
        self.filled.set()

    def put(self, message: SteeringMessage) -> None:
        """Where the agent does not hear, the message is not kept."""
        if self.hears:
            self._waiting.append(message)
            self._put.set()

    def take(self) -> list[SteeringMessage]:
        """All that waits, without waiting for more."""
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    async def wait(self) -> list[SteeringMessage]:
        """All that waits, as soon as there is something."""
        while not self._waiting:
            self._put.clear()
            await self._put.wait()
        return self.take()
