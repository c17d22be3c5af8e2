"""What a recall finds, of whichever kind of memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


def said_beside(why: Mapping[str, Any]) -> bool:
    """By its `why`: has it no word of the question itself, and is found since it was said next to one that has?"""
    return bool(why.get("neighbour")) and not why.get("words")


@dataclass(frozen=True, slots=True)
class Found:
    """A memory that answers a question.

    `memory_type`: episodic, procedural or knowledge. `relevance`: in (0, 1]; it is the order. `content`: the text to
    read. `why`: `{words, tags, neighbour, author}`, what made it a hit. `event_id`: the event that it comes from.
    `keys`: what it was imported as. `at`: Unix seconds; of equal ones the newest comes first. `more`: what only this
    kind says. `asks`: it only asks, so it informs nobody. `beside`: how much of the relevance comes of what stood
    beside it, not of its own words.
    """

    memory_type: str
    id: str
    relevance: float
    content: str
    at: float = 0.0
    number: int = 0
    why: Mapping[str, Any] = field(default_factory=dict)
    event_id: str | None = None
    keys: Sequence[str] = ()
    more: Mapping[str, Any] = field(default_factory=dict)
    asks: bool = False
    beside: float = 0.0

    @property
    def ended(self) -> bool:
        """Does it say only what holds no longer?"""
        return self.more.get("is_valid") is False

    @property
    def order(self) -> tuple[float, float, int]:
        """Sorts the most relevant first."""
        return -round(self.relevance, 6), -self.at, -self.number

    def as_json(self) -> dict[str, Any]:
        return {
            "memory_type": self.memory_type,
            "content": self.content,
            "relevance": round(self.relevance, 6),
            "memory_id": self.id,
            "why": dict(self.why),
            "event_id": self.event_id,
            "keys": list(self.keys),
            **self.more,
        }
