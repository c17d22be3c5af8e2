"""What an agent's message only repeats of what its author was given: no knowledge of its own.

Invariant: else a memory that is forgotten would be told on as what an agent has said that was given it. What adds
something (a word that carries a meaning, a negation, a reason, a relation) is the agent's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from relay.base.terminal_text import lines
from relay.log.events import Event
from relay.memory.knowledge.contradictions import said
from relay.memory.knowledge.entry import Draft, Kind, Reference
from relay.memory.knowledge.extractors import POSTED, Extracted
from relay.memory.knowledge.line_forms import Statement, parse
from relay.memory.knowledge.quotable import texts_by
from relay.memory.prompt import without_quotes
from relay.memory.ranking.words import meant
from relay.store.ports import Tx

_WORD = re.compile(r"[^\W_]+")
#: How a memory or an entry is named: that it is said where something is from adds nothing to it.
_NAMED = re.compile(r"(?<!\w)(?:r\d{1,9}|k[\da-f]{8,24})(?!\w)")


@dataclass(frozen=True, slots=True)
class Told:
    """What an author was told: texts, and the statements and parts of statements that they are."""

    texts: tuple[str, ...]
    references: frozenset[Reference]
    words: frozenset[tuple[str, ...]]

    @classmethod
    def of(cls, given_texts: Sequence[str]) -> Told:
        """Of the texts of what was given."""
        whole = [line for text in given_texts for line in lines(text)]
        made = [each for line in whole if (each := parse(Kind.FACT, line))]
        parts = (part for each in made for part in _parts(each))
        texts = tuple(dict.fromkeys([*whole, *map("because {}".format, whole), *parts]))
        references = frozenset(reference for each in made for reference in each.references)
        return cls(texts, references, frozenset(_words(text) for text in texts))

    def has(self, draft: Draft) -> bool:
        """Does this statement say nothing beside what was told?"""
        named = {each for each in draft.references if not isinstance(each.target, int)}
        if not named <= self.references:
            return False
        reason = f"because {draft.rationale}" if draft.rationale else ""
        if not self._adds(f"{draft.content} {reason}".strip()):
            return True
        return not self._adds(draft.content) and not (reason and self._adds(reason))

    def _adds(self, text: str) -> bool:
        if _words(text) in self.words:
            return False
        text = _NAMED.sub(" ", text)
        rest = without_quotes(text, self.texts)
        # A rest of words without a meaning has these as its meaning; the whole has not.
        return rest == text.strip() or said(rest).negated or not {*meant(text)}.isdisjoint(meant(rest))


async def without_repeated(tx: Tx, event: Event, found: Extracted) -> Extracted:
    """What an event says, without the statements of an agent's message that only repeat what it was given; the others
    keep their positions."""
    if event.type != POSTED or not found.drafts or event.outputs["message"]["kind"] != "agent":
        return found
    texts = await texts_by(tx, event)
    if not texts:
        return found
    told = Told.of(texts)
    return replace(found, drafts=tuple(draft for draft in found.drafts if not told.has(draft)))


def _parts(statement: Statement) -> Iterator[str]:
    yield statement.content
    if statement.rationale:
        yield f"because {statement.rationale}"


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text.casefold()))
