"""Knowledge: what somebody decided, found out or did, with the event that it comes from (003, sections 7.3 and 7.6).

Invariants: the id of an entry is a digest of its event and its position there, so whoever makes it anew gives it the
same; whoever owns an entry may read it, whatever its visibility.

Pure.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from relay.model.references import DIGITS

#: Positions of one event; an entry's number is its event's place in the log times this, and its position.
POSITIONS = 1000


class Kind(StrEnum):
    """003, `KnowledgeType`."""

    DECISION = "decision"
    FACT = "fact"
    CONSTRAINT = "constraint"
    PATTERN = "pattern"
    PROBLEM = "problem"
    SOLUTION = "solution"
    CONTRACT = "contract"
    CONFIGURATION = "configuration"


class Relation(StrEnum):
    """003, `KnowledgeRelationType`, and `solves` of its section 7.5: what the source is to the target."""

    SUPPORTS = "supports"
    CONTRADICTS = "contradicts"
    SUPERSEDES = "supersedes"
    DERIVED_FROM = "derived_from"
    IMPLEMENTS = "implements"
    DEPENDS_ON = "depends_on"
    SOLVES = "solves"


#: The relations that end the time in which the target held.
CLOSING = frozenset({Relation.CONTRADICTS, Relation.SUPERSEDES})


class Visibility(StrEnum):
    """003, `KnowledgeVisibility`."""

    PUBLIC = "public"
    ROLE = "role"
    PRIVATE = "private"
    SHARED = "shared"


class Extractor(StrEnum):
    """How an entry was found in its event."""

    RULE = "rule"
    PERSON = "person"
    LLM = "llm"


class Standing(IntEnum):
    """By whose word an entry is there: a line that proves nobody, an agent, a person. Only what has as much of it
    ends an older entry."""

    UNVERIFIED = 0
    AGENT = 1
    PERSON = 2


@dataclass(frozen=True, slots=True)
class Access:
    """Who may read it besides its owner. `names`: roles or agents, as the visibility says."""

    visibility: Visibility = Visibility.PUBLIC
    names: tuple[str, ...] = ()

    def readers(self, owner: str) -> tuple[str, ...]:
        """The readers as the table has them; none for what is public."""
        match self.visibility:
            case Visibility.PUBLIC:
                return ()
            case Visibility.ROLE:
                return (reader(owner), *(f"role:{name}" for name in self.names))
            case _:
                return tuple(dict.fromkeys((reader(owner), *map(reader, self.names))))


PUBLIC = Access()


def reader(name: str) -> str:
    """An agent or person as a reader."""
    return f"@{name}"


@dataclass(frozen=True, slots=True)
class Reference:
    """That an entry relates to another. `target`: the beginning of its id, its content (`quoted`), or the position
    of one in the same event."""

    relation: Relation
    target: str | int
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """An entry as its event says it. `position`: in the event; `agent`: whose it is; `at`: Unix seconds;
    `alternatives`: what was not chosen; `origins`: by file the path that it had before."""

    position: int
    kind: Kind
    content: str
    agent: str
    at: float
    topics: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    origins: tuple[tuple[str, str], ...] = ()
    confidence: float = 1.0
    rationale: str | None = None
    alternatives: tuple[str, ...] = ()
    severity: str | None = None
    access: Access = PUBLIC
    references: tuple[Reference, ...] = ()
    extractor: Extractor = Extractor.RULE
    standing: Standing = Standing.AGENT


def entry_id(event_id: str, position: int) -> str:
    """The id of the entry at this position of an event."""
    return "k" + hashlib.sha256(f"{event_id}:{position}".encode()).hexdigest()[:DIGITS]
