"""When one statement contradicts another, supersedes it, or says the same.

Invariant: what is closed without being named was surely meant: the same words with and without a negation; or what
the new statement has chosen against (`instead of X`) where the older one has chosen it about the same thing.

Pure.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from relay.memory.knowledge.entry import Kind, Relation
from relay.memory.knowledge.line_forms import without_alternatives
from relay.memory.ranking.words import meant

#: The kinds of which two can contradict each other.
COMPARED = frozenset(
    {Kind.DECISION, Kind.CONSTRAINT, Kind.PATTERN, Kind.CONTRACT, Kind.CONFIGURATION, Kind.FACT}
)
_NEGATION = re.compile(
    r"\b(?:(?:do|does|did|must|should|shall|will|can|is|are|may|need)\s+not|not|never|no|cannot|(?:do|does|did|must|should|"
    r"would|wo|ca|is|are|need)n['\u2019]t|avoid(?:ing)?|without|stop(?:ping)?)\b",
    re.IGNORECASE,
)
#: What says that something is chosen, and not what.
_CHOOSING = frozenset(
    meant(
        "use using choose pick adopt take go with prefer keep always must should shall will we let do store run"
    )
)


@dataclass(frozen=True, slots=True)
class Said:
    """What a statement says: `chosen`, the stems of what it is for; `against`, of each alternative."""

    chosen: frozenset[str]
    negated: bool
    against: tuple[frozenset[str], ...] = ()


def said(content: str, alternatives: tuple[str, ...] = ()) -> Said:
    """The parts of a statement that are compared."""
    text = without_alternatives(content)
    stems = frozenset(meant(_NEGATION.sub(" ", text))) - _CHOOSING
    against = (frozenset(meant(each)) - _CHOOSING for each in alternatives)
    return Said(stems, _NEGATION.search(text) is not None, tuple(each for each in against if each))


def digest(statement: Said) -> str | None:
    """The same for statements of the same words, negated or not; None: it has none."""
    if not statement.chosen:
        return None
    return hashlib.sha256(" ".join(sorted(statement.chosen)).encode()).hexdigest()[:16]


def relation(new: Said, old: Said) -> Relation | None:
    """What the new statement is to an older one, by their words alone."""
    if new.chosen == old.chosen:
        return Relation.SUPPORTS if new.negated == old.negated else Relation.CONTRADICTS
    if new.negated or old.negated:
        return None
    for against in new.against:
        # What else the older one is about, the new one is about too.
        if against <= old.chosen and old.chosen - against <= new.chosen:
            return Relation.SUPERSEDES
    return None
