"""How well an entry answers a question: pure weighing of words.

Invariants: relevance is in (0, 1] and the order is its order, newer first among equals; it is made of nothing but
what the asker may read, so what it may not read changes no number; weights that a database sums are whole numbers, so
that both give the same candidates.

Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from relay.store.ports import Row

#: A word of the content counts this many times one of the rationale, the topics, the files.
CONTENT = 3
#: What holds no longer, and a word that was only the beginning of one, count less.
CLOSED, BEGINNING = 0.5, 0.6


@dataclass(frozen=True, slots=True)
class Term:
    """A word of the index that is looked for. `asked`: the question's word that it is for; `entries`: how many of
    those that the asker may read have it; `weight`: in thousandths."""

    word: str
    asked: str
    entries: int
    weight: int


def term(word: str, asked: str, entries: int, of: int) -> Term:
    """A word that `entries` of all `of` entries have: the rarer, the heavier (idf, never below a tenth)."""
    rare = math.log(1 + max(0.0, of - entries + 0.5) / (entries + 0.5))
    share = 1.0 if word == asked else BEGINNING
    return Term(word, asked, entries, max(100, round(rare * share * 1000)))


@dataclass(frozen=True, slots=True)
class Weighed:
    """An entry, how relevant it is, and the question's stems that it has."""

    row: Row
    relevance: float
    stems: tuple[str, ...]


def weigh(row: Row, terms: Sequence[Term], whole: int) -> Weighed:
    """How much of a question an entry has. `whole`: the weights of the question's words, known or not."""
    content, others = {*row["words"].split()}, {*row["other_words"].split()}
    best: dict[str, int] = {}
    for each in terms:
        times = CONTENT if each.word in content else 1 if each.word in others else 0
        best[each.asked] = max(best.get(each.asked, 0), each.weight * times)
    share = min(1.0, sum(best.values()) / (CONTENT * whole)) if whole else 0.0
    closed = 1.0 if row["valid_to"] is None else CLOSED
    sure: float = row["confidence"]
    stems = tuple(stem for stem, value in best.items() if value)
    return Weighed(row, round(share * closed * (0.5 + 0.5 * sure), 6), stems)


def weight_of_question(asked: Sequence[str], terms: Sequence[Term], of: int) -> int:
    """What an entry with every word of the question would have; a word that nothing has weighs as the rarest."""
    heaviest = dict.fromkeys(asked, 0)
    for each in terms:
        heaviest[each.asked] = max(heaviest[each.asked], each.weight)
    unknown = term("", "", 0, of).weight
    return sum(weight or unknown for weight in heaviest.values())


def in_order(rows: Sequence[Row], terms: Sequence[Term], whole: int) -> list[Weighed]:
    """The entries that have a word of the question, best first."""
    weighed = [each for each in (weigh(row, terms, whole) for row in rows) if each.relevance > 0]
    return sorted(weighed, key=lambda each: (-each.relevance, -each.row["valid_from"], -each.row["number"]))
