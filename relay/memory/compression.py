"""How a working memory is made to fit its budget: pure decisions over plain values.

Invariants:
- what is critical and what is newest stay word for word, and the order stays;
- the older gives way first, and more of it only where less is not enough;
- nothing is put into an agent's mouth: what sentences are left are its own, in their order, with `…` where some were
  left out. A summary by a model is taken only where it is shorter than what it replaces.

Pure: no clock, no I/O. (004, "Working Memory".)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

#: Of the budget: how far it is emptied once it is full, so that the next few notes need no compression.
EMPTIED = 0.75
#: Of an older note's tokens: what is left of it when it is shortened. Tokens of one that is cut to its point.
SHORTENED, CUT = 0.3, 24
#: Characters of a sentence; what has no end for longer is cut there.
_MOST_SENTENCE = 600
_GAP = "…"
_LINE_ENDS = r"\r\n\x0b\x0c\x85\u2028\u2029"
_ENDS = re.compile(rf"(?<=[.!?;])\s++(?=\S)|(?<!\s)(?=[^\S{_LINE_ENDS}]*+[{_LINE_ENDS}])\s++")
_WORD = re.compile(r"[^\W_]{4,}")
#: What a sentence says that others are looked up by: paths, names in code, numbers; and words that settle something.
_EXACT = re.compile(r"(?<![\w.-])[\w.-]++/[\w./-]+|\b\w++\.\w{1,5}\b|\b\w+_\w+|`[^`]+`|#?\d{2,}")
_SETTLES = re.compile(
    r"\b(?:decid|decision|must|never|always|because|caus|fail|error|todo|next|open|blocked|fix|works?\b|agreed)",
    re.I,
)


def tokens(text: str) -> int:
    """An estimate, made without a model: four ASCII characters are a token, and so is any other character. English
    prose has a little less, code and JSON up to a quarter more."""
    plain = len(text) if text.isascii() else sum(char < "\x80" for char in text)
    return -(-plain // 4) + len(text) - plain


@dataclass(frozen=True, slots=True)
class Note:
    """An entry of a working memory. `place`: its number in the order; `stored`: the position of the event with which
    its content was stored, `event_id` that event. Without content it was left out altogether."""

    key: str
    place: int
    content: str
    critical: bool
    compressed: bool
    stored: int
    event_id: str

    @property
    def tokens(self) -> int:
        return tokens(self.content)


def total(notes: Iterable[Note]) -> int:
    return sum(note.tokens for note in notes)


def fixed(notes: Sequence[Note]) -> list[Note]:
    """What stays word for word: the critical notes, and the newest one."""
    newest = max(notes, key=lambda note: note.stored, default=None)
    return [note for note in notes if note.critical or note is newest]


def older(notes: Sequence[Note]) -> list[Note]:
    """What may be compressed, the oldest first."""
    stay = {note.place for note in fixed(notes)}
    return sorted((note for note in notes if note.place not in stay), key=lambda note: note.stored)


def due(notes: Sequence[Note], budget: int) -> list[Note]:
    """The notes that are to be shortened so that all fit, each for the first time; the oldest first."""
    if total(notes) <= budget:
        return []
    spare, chosen = total(notes) - _aim(notes, budget), list[Note]()
    for note in older(notes):
        if spare <= 0:
            break
        if note.content and not note.compressed:
            chosen.append(note)
            spare -= note.tokens - int(note.tokens * SHORTENED)
    return chosen


def fitted(notes: Sequence[Note], budget: int, summaries: Mapping[str, str] | None = None) -> list[Note]:
    """The notes in their order, made to fit the budget. `summaries`: by event id, what a model made of them.

    Raises ValueError when what stays word for word is above the budget.
    """
    if total(notes) <= budget:
        return list(notes)
    if total(fixed(notes)) > budget:
        raise ValueError("what stays word for word is above the budget")
    work = _Compression(notes, budget)
    for note in due(notes, budget):
        content = (summaries or {}).get(note.event_id, "").strip()
        if not content or tokens(content) >= note.tokens:
            content = picked(note.content, int(note.tokens * SHORTENED), work.weights)
        work.change(note, content)
    # What is shortened already, and still too much: the oldest is cut to its point, then left out; of either as much
    # as makes room for the next notes, so that not each of them walks through all that is held.
    for most in (CUT, 0):
        for note in older(notes) if work.total > budget else ():
            if work.total <= work.aim:
                break
            held = work.by_place[note.place]
            if held.tokens > most:
                work.change(held, picked(held.content, most, work.weights) if most else "")
    return [work.by_place[note.place] for note in notes]


class _Compression:
    """What becomes of the notes, and how many tokens they have by now."""

    def __init__(self, notes: Sequence[Note], budget: int) -> None:
        self.by_place = {note.place: note for note in notes}
        self.total, self.aim = total(notes), _aim(notes, budget)
        self._notes = notes

    @cached_property
    def weights(self) -> Counter[str]:
        """In how many of the notes each word stands."""
        return Counter(word for note in self._notes for word in set(_words(note.content)))

    def change(self, note: Note, content: str) -> None:
        """Let the note say this, where it is shorter."""
        spare = note.tokens - tokens(content)
        if spare > 0:
            self.by_place[note.place] = replace(note, content=content, compressed=True)
            self.total -= spare


def _aim(notes: Sequence[Note], budget: int) -> int:
    return max(int(budget * EMPTIED), total(fixed(notes)))


def picked(text: str, most: int, weights: Mapping[str, int] | None = None) -> str:
    """The sentences of a text that say most, in their order, within `most` tokens. `weights`: how often a word stands
    in the other notes too, so that what the work is about counts more."""
    sentences = _sentences(text)
    own = Counter(word for sentence in sentences for word in set(_words(sentence)))
    by_worth = sorted(
        range(len(sentences)), key=lambda at: (-_worth(sentences[at], at, own, weights or {}), at)
    )
    chosen, left = set[int](), most
    for at in by_worth:
        # A gap may stand beside it.
        cost = tokens(sentences[at]) + 2
        if cost <= left:
            chosen.add(at)
            left -= cost
    if not chosen:
        return _cut(sentences[by_worth[0]], most) if by_worth else ""
    parts, last = list[str](), -1
    for at in sorted(chosen):
        parts.append(f"{_GAP} {sentences[at]}" if at > last + 1 else sentences[at])
        last = at
    return "\n".join(parts) + (f" {_GAP}" if last < len(sentences) - 1 else "")


def _sentences(text: str) -> list[str]:
    whole = [part.strip() for part in _ENDS.split(text) if part.strip()]
    return [
        sentence[at : at + _MOST_SENTENCE]
        for sentence in whole
        for at in range(0, len(sentence), _MOST_SENTENCE)
    ]


def _worth(sentence: str, at: int, own: Mapping[str, int], weights: Mapping[str, int]) -> float:
    """How much a sentence says. The first one of a note says what it is about."""
    words = set(_words(sentence))
    about = sum(min(own[word], 5) + min(weights.get(word, 0), 5) for word in words) / (len(words) + 3)
    exact = min(len(_EXACT.findall(sentence)), 3)
    return about + 0.7 * exact + (1.0 if _SETTLES.search(sentence) else 0.0) + (1.5 if at == 0 else 0.0)


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _cut(sentence: str, most: int) -> str:
    """The beginning of a sentence, within `most` tokens; empty where not even a word has room."""
    low = max(0, (most - tokens(_GAP)) * 4)
    cut = sentence[:low]
    while cut and tokens(cut + _GAP) > most:
        cut = cut[: len(cut) * 3 // 4]
    return f"{cut.rstrip()}{_GAP}" if cut.strip() else ""
