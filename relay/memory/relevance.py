"""How relevant an experience is to a question: pure decisions over plain values.

Invariant: relevance = text x outcome x decay, each in (0, 1], so relevance is too. The text is the same whatever the
age or the outcome is, and what falls below the least relevance falls by all three.

- text: how much of what was asked is there (the share of the question's words), times one half to one by how well it
  matches among what was found (its full-text rank by the best one's). A rank alone says little: in a small memory
  every word is common, and bm25 gives such words no weight.
- outcome: what went well is worth repeating; what failed is worth avoiding, and as much so when it says why.
- decay: halves in HALF_LIFE_S.

Pure: no clock, no I/O. (004, "Episodic Memory": "decay in relevance over time".)
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from relay.memory.experience import Experience, humped, is_humped

#: Seconds in which relevance halves. 004 names none. A month: code moves on by about a sprint or two, and what was
#: learned half a year ago still stands at 1/64, above the least.
HALF_LIFE_S = 30 * 86_400.0
#: What is less relevant is not recalled: a full match falls below it after about 200 days.
LEAST = 0.01
#: Words of a question that are looked for. The first ones say what it is about, and each costs a look.
MOST_WORDS = 32
#: By outcome: as expected, partly or not said, failed without a lesson. A failure that says why counts as partly.
WELL, PARTLY, BADLY = 1.0, 0.9, 0.7
_WELL = frozenset(
    {"success", "succeeded", "successful", "positive", "completed", "done", "ok", "passed", "fixed"}
)
_BADLY = frozenset(
    {"failure", "failed", "fail", "negative", "error", "broken", "reverted", "rejected", "aborted"}
)
#: Words that carry no meaning in English and German, the languages of the room's documents; a question of nothing
#: else is asked as it is.
_WORD = re.compile(r"[^\W_]+")
_EMPTY = frozenset(
    _WORD.findall(
        "a an and are as at be but by do for from how i if in into is it its my no not of on or our so that the "
        "their then there this to was we what when where which who why will with you your "
        "auf aus bei das dem den der des die ein eine einen einer es ich im ist mit nicht oder und von wie wir zu "
        "zum zur"
    )
)


@dataclass(frozen=True, slots=True)
class Question:
    """What is looked for: the words that count, and the phrases that make a match a better one."""

    words: tuple[str, ...]
    phrases: tuple[str, ...]


def indexed(text: str) -> str:
    """The words of a text as every engine's index takes them: small, without marks, with spaces between them."""
    parted = unicodedata.normalize("NFD", text.lower())
    return " ".join(_WORD.findall("".join(char for char in parted if unicodedata.category(char) != "Mn")))


def question(text: str) -> Question:
    """The words of a text; a path or an identifier (`src/app.py`, `get_user`, `getUser`) is a phrase besides."""
    text = unicodedata.normalize("NFC", text)
    spoken = list(dict.fromkeys(word.lower() for word in _WORD.findall(text)))
    words = [word for word in spoken if word not in _EMPTY] or spoken
    phrases = []
    for chunk in text.split():
        parts = _WORD.findall(chunk)
        phrases += [" ".join(parts)] if len(parts) > 1 else []
        phrases += [humped(part) for part in parts if is_humped(part)]
    return Question(tuple(words[:MOST_WORDS]), tuple(dict.fromkeys(phrases))[:MOST_WORDS])


def text_score(covered: int, words: int, rank: float, best: float) -> float:
    """`covered` of the question's `words` are there; `rank` and `best` are positive, greater is better."""
    among = rank / best if best > 0 else 1.0
    return min(1.0, covered / words) * (0.5 + 0.5 * min(1.0, among))


def outcome_factor(experience: Experience) -> float:
    outcome = (experience.outcome or "").strip().lower()
    if outcome in _WELL:
        return WELL
    if outcome in _BADLY:
        return PARTLY if experience.lessons else BADLY
    return PARTLY


def decay(age_s: float, half_life_s: float = HALF_LIFE_S) -> float:
    """1 now, one half after `half_life_s`. A time that lies ahead (another machine's clock) is now."""
    return float(0.5 ** (max(0.0, age_s) / half_life_s))
