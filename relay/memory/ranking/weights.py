"""How relevant a text is to a question: pure decisions over plain values, the same on every engine.

Invariants:
- relevance = text x outcome x feedback x age, in (0, 1], and the order is the order of relevance;
- outcome, feedback and age are bounded, so that no age hides a sole good hit and no opinion a good answer;
- the text's share is what of the question's meaning is there (BM25F: how rare a word is among all texts, how often it
  is in which field, how long the text is). 1 would be every word, without end.

Pure: no clock, no I/O. (004, "Episodic Memory": "decay in relevance over time"; 001: wall time misleads.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from relay.memory.experience import Experience
from relay.memory.ranking.counts import TEXTS
from relay.memory.ranking.words import Question
from relay.store.ports import Row

#: How much a word in a field says, and one in what stood directly before or behind.
SUMMARY, BODY, NEIGHBOUR = 3.0, 1.0, 0.9
#: How fast more of a word says nothing new, and how much a text's length takes away (BM25's k1 and b).
SATURATION, LENGTH = 1.2, 0.75
#: How much more the words of an author count whom the question names.
NAMED = 2.0
#: By outcome: as expected, partly or not said, failed without a lesson. A failure that says why counts as partly.
OUTCOMES = {"well": 1.0, "partly": 0.9, "badly": 0.7}
#: The least that age leaves, and the seconds in which what it can take away halves.
OLDEST, HALF_LIFE_S = 0.8, 30 * 86_400.0
#: The most that feedback adds, as a factor, and the least that it leaves is as far below 1.
FEEDBACK = 0.25
_WELL = frozenset(
    {"success", "succeeded", "successful", "positive", "completed", "done", "ok", "passed", "fixed"}
)
_BADLY = frozenset(
    {"failure", "failed", "fail", "negative", "error", "broken", "reverted", "rejected", "aborted"}
)


@dataclass(frozen=True, slots=True)
class Match:
    """How a text answers a question. `words`: of the question's stems those that it has itself, `near`: those that
    only its neighbours have; `named`: the question names its author."""

    score: float
    words: tuple[str, ...]
    near: tuple[str, ...]
    named: bool


@dataclass(frozen=True, slots=True)
class Weighing:
    """How the texts of one kind are weighed for one question. `rarity`: of each of its words; `whole`: of all."""

    question: Question
    rarity: Mapping[str, float]
    whole: float
    average: float

    @classmethod
    def of(cls, question: Question, counts: Mapping[str, int]) -> Weighing:
        """`counts`: of the question's words and of all texts (`relay.memory.ranking.counts`)."""
        texts = max(1, counts.get(TEXTS, 0))
        rarity = {word: rarity_of(counts.get(word, 0), texts) for word in question.words}
        length = counts.get("_summary", 0) + counts.get("_body", 0)
        return cls(question, rarity, sum(rarity.values()), max(1.0, length / texts))

    def match(self, row: Row, before_and_behind: Sequence[Row] = (), *, named: bool = False) -> Match:
        """How this text (`summary`, `body`: stems, each with a space on either side) answers the question."""
        summary, body = row["summary"], row["body"]
        around = "".join([text for near in before_and_behind for text in (near["summary"], near["body"])])
        length = row["summary_count"] + row["body_count"]
        reach = SATURATION * (1 - LENGTH + LENGTH * length / self.average)
        factor = NAMED if named else 1.0
        score = 0.0
        own: list[str] = []
        near_only: list[str] = []
        for word, rarity in self.rarity.items():
            spaced = f" {word} "
            here = SUMMARY * summary.count(spaced) + BODY * body.count(spaced)
            beside = NEIGHBOUR * around.count(spaced) if around else 0.0
            if not here and not beside:
                continue
            (own if here else near_only).append(word)
            often = factor * (here + beside)
            score += rarity * often / (often + reach)
        return Match(score / self.whole if self.whole else 0.0, tuple(own), tuple(near_only), named)


def rarity_of(texts_with: int, texts: int) -> float:
    """How much a word says that is in so many of so many texts: greater than 0, the rarer the more."""
    return math.log(1 + (texts - min(texts_with, texts) + 0.5) / (texts_with + 0.5))


def factors(outcome: str, useful: int, useless: int, age_s: float) -> float:
    """What outcome, feedback and age make of a relevance, together."""
    return OUTCOMES.get(outcome, 1.0) * feedback_factor(useful, useless) * age_factor(age_s)


def outcome_of(experience: Experience) -> str:
    """The kind of outcome, as `OUTCOMES` has it."""
    outcome = (experience.outcome or "").strip().lower()
    if outcome in _WELL:
        return "well"
    return "badly" if outcome in _BADLY and not experience.lessons else "partly"


def feedback_factor(useful: int, useless: int) -> float:
    """1 without feedback; the more readers agree, the nearer to its bounds."""
    return 1 + FEEDBACK * (useful - useless) / (useful + useless + 2)


def age_factor(age_s: float) -> float:
    """1 now, never below OLDEST. A time that lies ahead (another machine's clock) is now."""
    return OLDEST + (1 - OLDEST) * float(0.5 ** (max(0.0, age_s) / HALF_LIFE_S))
