"""How relevant a text is to a question: pure decisions over plain values, the same on every engine.

Invariants:
- relevance = text x outcome x feedback x age, in (0, 1], and the order is the order of relevance;
- outcome, feedback and age are bounded, so that no age hides a sole good hit and no opinion a good answer;
- the text's share is what of the question's meaning is there (BM25F: how rare a word is among all texts, how often it
  is in which field, how long the field is). What stood directly before and behind it in its session is a field too.

Pure: no clock, no I/O. (004, "Episodic Memory": "decay in relevance over time"; 001: wall time misleads.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from relay.memory.experience import Experience
from relay.memory.ranking.counts import BODIES, SUMMARIES, TEXTS
from relay.memory.ranking.words import Question
from relay.store.ports import Row

#: How much a word in a field says, and one in what stood directly before or behind.
SUMMARY, BODY, NEIGHBOUR = 3.0, 1.0, 0.9
#: What two words side by side say, as in the question, beside what the more common one says by itself.
PAIR = 0.3
#: How often a word counts of one that stood beside: what says it again and again is no more of an answer.
MOST_BESIDE = 1
#: Words of a turn of a conversation. What stood beside and is longer counts by this share of its length: it has words
#: by chance, and the patches of a series share theirs.
TURN = 30
#: Of fewer texts than so many, a word's rarity is that among so many: in a new room, where two of five say it, a word
#: is no common one yet.
FEW = 50
#: How fast more of a word says nothing new (BM25's k1), and how much a field's length takes away (its b).
SATURATION = 1.6
SUMMARY_LENGTH, BODY_LENGTH, NEIGHBOUR_LENGTH = 0.3, 0.75, 0.75
#: What is left of others' texts where the question names an author.
UNNAMED = 0.5
#: What is left of a text that has no word of the question itself: it only stood beside such a one.
UNSAID = 0.9
#: By outcome: as expected, partly or not said, failed without a lesson; and what only asks, so that earlier questions
#: stand behind what was decided or learnt. A failure that says why counts as partly.
OUTCOMES = {"well": 1.0, "partly": 0.9, "badly": 0.7, "asks": 0.7}
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
class Text:
    """A text as it is weighed. `often`: by the place of a word in the question, how often it is here, by the fields'
    weights and lengths, and behind all words its pairs; `times`: plainly, words alone. What is not here is not named.
    `length`: its words."""

    length: int
    often: Mapping[int, float]
    times: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Weighing:
    """How the texts of one kind are weighed for one question. `rarity`: of each of its words, in their order;
    `whole`: of all; `paired`: what its pairs say beside. `summary`, `body`: how many words the kind's texts have
    there, on average."""

    question: Question
    rarity: tuple[float, ...]
    paired: tuple[float, ...]
    whole: float
    summary: float
    body: float

    @classmethod
    def of(cls, question: Question, counts: Mapping[str, int]) -> Weighing:
        """`counts`: of the question's words and of all texts (`relay.memory.ranking.counts.counts_of`)."""
        texts = max(1, counts.get(TEXTS, 0))
        rarity = tuple(rarity_of(counts.get(word, 0), max(texts, FEW)) for word in question.words)
        summary, body = (max(1.0, counts.get(field, 0) / texts) for field in (SUMMARIES, BODIES))
        paired = tuple(PAIR * min(rarity[one], rarity[two]) for one, two in question.pairs)
        return cls(question, rarity, paired, sum(rarity), summary, body)

    def text(self, row: Row, places: Iterable[int] | None = None) -> Text:
        """A row with `summary` and `body`: stems, each with a space on either side. `places`: of the words of the
        question that may be there; None = any."""
        summary, body, words = row["summary"], row["body"], self.question.words
        says = SUMMARY / _long(SUMMARY_LENGTH, row["summary_count"], self.summary)
        adds = BODY / _long(BODY_LENGTH, row["body_count"], self.body)
        often: dict[int, float] = {}
        times: dict[int, int] = {}
        for at in range(len(words)) if places is None else places:
            looked = f" {words[at]} "
            here, there = summary.count(looked), body.count(looked)
            if here or there:
                often[at], times[at] = says * here + adds * there, here + there
        for at, (one, two) in enumerate(self.question.pairs, len(words)):
            if one in times and two in times:
                looked = f" {words[one]}  {words[two]} "
                often[at] = says * summary.count(looked) + adds * body.count(looked)
        return Text(length_of(row), often, times)

    def score(self, text: Text, near: Sequence[tuple[Text, float]] = ()) -> float:
        """What of the question's meaning is in this text and in what stood beside it: in [0, 1]. `near`: with
        how much each says."""
        often = text.often
        if near:
            beside: dict[int, float] = {}
            for other, weight in near:
                says = weight * TURN / max(TURN, other.length)
                for at, times in other.times.items():
                    beside[at] = beside.get(at, 0.0) + says * min(times, MOST_BESIDE)
            if beside:
                length = sum([other.length for other, _ in near])
                adds = NEIGHBOUR / _long(NEIGHBOUR_LENGTH, length, len(near) * (self.summary + self.body))
                both = {*often, *beside}
                often = {at: often.get(at, 0.0) + adds * beside.get(at, 0.0) for at in both}
        rarity = (*self.rarity, *self.paired)
        score = sum([rarity[at] * often[at] / (often[at] + SATURATION) for at in sorted(often)])
        return min(1.0, score / self.whole) if self.whole else 0.0

    def words(self, text: Text) -> list[str]:
        """The question's words that are in this text, as they were said."""
        return [self.question.spoken[self.question.words[at]] for at in sorted(text.times)]


def length_of(row: Row) -> int:
    """How many words a text has."""
    length: int = row["summary_count"] + row["body_count"]
    return length


def best(weighing: Weighing, texts: Mapping[int, Text], limit: int) -> list[int]:
    """The numbers of the best texts by what they say themselves."""
    scores = {number: weighing.score(text) for number, text in texts.items()}
    return sorted(scores, key=lambda number: (-scores[number], -number))[:limit]


def _long(share: float, words: int, average: float) -> float:
    """By how much a field of so many words is longer than the average one, as far as its length counts."""
    return 1 - share + share * words / average


def rarity_of(texts_with: int, texts: int) -> float:
    """How much a word says that is in so many of so many texts: greater than 0, the rarer the more."""
    return math.log(1 + (texts - min(texts_with, texts) + 0.5) / (texts_with + 0.5))


def factors(outcome: str, useful: int, useless: int, age_s: float) -> float:
    """What outcome, feedback and age make of a relevance, together."""
    return OUTCOMES.get(outcome, 1.0) * feedback_factor(useful, useless) * age_factor(age_s)


def outcome_of(experience: Experience) -> str:
    """The kind of outcome, as `OUTCOMES` has it."""
    outcome = (experience.outcome or "").strip().lower()
    if experience.only_asks:
        return "asks"
    if outcome in _WELL:
        return "well"
    return "badly" if outcome in _BADLY and not experience.lessons else "partly"


def feedback_factor(useful: int, useless: int) -> float:
    """1 without feedback; the more readers agree, the nearer to its bounds."""
    return 1 + FEEDBACK * (useful - useless) / (useful + useless + 2)


def age_factor(age_s: float) -> float:
    """1 now, never below OLDEST. A time that lies ahead (another machine's clock) is now."""
    return OLDEST + (1 - OLDEST) * float(0.5 ** (max(0.0, age_s) / HALF_LIFE_S))
