"""What a recall finds, of whichever kind of memory."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: How many memories a recall gives at most.
MOST_RECALLED = 100
#: What the `meta` of a message has, and so a tag of its memory, where its line proves nobody.
UNVERIFIED = "unverified"


def is_unverified(marks: Container[str]) -> bool:
    """Was it said by a line that proves nobody? `marks`: the `meta` of a message, the tags of a memory,
    or what a record of knowledge says."""
    return UNVERIFIED in marks


def whose(more: Mapping[str, Any], author: str) -> str:
    """An author as it is told, `ann, unverified` where nothing proves it. `more`: what is told of the memory."""
    return f"{author}, {UNVERIFIED}" if more.get(UNVERIFIED) else author


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
    def replaced_by(self) -> str | None:
        """What ended it, `r14`; None: it holds, or that is not there any more."""
        return self.more.get("replaced_by")

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
