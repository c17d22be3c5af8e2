"""The piece of an entry that shows why a search found it.

Invariant: the words of an entry are those of the index (letters and digits, without their marks), and what is
marked begins like a word that was looked for; the rest of the text comes as it was written. Made here and not by
the database, so a search shows the same whichever engine found the entry.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import islice

#: Words in a snippet.
WORDS = 24
#: Hits that are looked at for the best place; an entry may have thousands.
_HITS = 50
#: Characters in front of the first hit in which words are looked for, so that it does not stand at the edge.
_BEFORE = 400
_OPEN, _CLOSE, _CUT = "\x01", "\x02", "…"
#: A letter's mark that was written apart from it.
_MARK = "[\u0300-\u036f]"
_MARKS = f"{_MARK}*"
_WORD = re.compile(rf"(?:[^\W_]|{_MARK})+")


class _Fold(dict[int, str]):
    """For `str.translate`: each character as a small letter without its mark. Never longer, so places stay."""

    def __missing__(self, code: int) -> str:
        plain = unicodedata.normalize("NFD", chr(code))[0].lower()
        self[code] = folded = plain if len(plain) == 1 else chr(code)
        return folded


_FOLD = _Fold()


def folded(text: str) -> str:
    """The text in small letters without marks, place for place."""
    return text.lower() if text.isascii() else text.translate(_FOLD)


def snippet(body: str, words: Sequence[str]) -> str:
    """About 24 words of `body` around what begins like `words`, the hits between U+0001 and U+0002."""
    hits = _hits(body, words)
    start = _best(body, hits)
    after = _run(body, start)
    # What is not needed to reach the last hit makes room for words before the first one.
    needed = max((number for number, (at, _) in enumerate(after, 1) if at in hits), default=0)
    before = [match.start() for match in _WORD.finditer(body, max(0, start - _BEFORE), start)]
    spare = WORDS - needed
    whole = start <= _BEFORE and len(before) <= spare
    lead = len(before) if whole else min(len(before), max(spare // 2, WORDS - len(after)))
    begin = before[-lead] if lead else start
    shown = after[: WORDS - lead]
    return _marked(body, begin, shown[-1][1] if shown else len(body), hits)


def _hits(body: str, words: Sequence[str]) -> dict[int, tuple[int, str]]:
    """Where `body` begins like one of `words`: by its place, where that ends, and which word it was.

    A word of several parts (`foo.py`) is a run of them; the last may be the beginning of a longer one.
    """
    runs = {word: _WORD.findall(folded(word)) for word in words}
    # The longest first: what several words begin like is a hit of the most exact of them.
    wanted = sorted((word for word, run in runs.items() if run), key=lambda word: (-len(word), word))
    if not wanted:
        return {}
    options = "|".join(
        "(" + r"[\W_]+".join(_MARKS.join(map(re.escape, term)) for term in runs[word]) + ")"
        for word in wanted
    )
    hits: dict[int, tuple[int, str]] = {}
    for match in re.finditer(rf"(?<![^\W_])(?<!{_MARK})(?:{options})(?:[^\W_]|{_MARK})*", folded(body)):
        if match.lastindex is not None:
            hits[match.start()] = match.end(), wanted[match.lastindex - 1]
        if len(hits) == _HITS:
            break
    return hits


def _run(body: str, start: int) -> list[tuple[int, int]]:
    """Where the next words of `body` begin and end, as many as a snippet has."""
    return [match.span() for match in islice(_WORD.finditer(body, start), WORDS)]


def _best(body: str, hits: Mapping[int, tuple[int, str]]) -> int:
    """Where the run of words begins that has the most of what was looked for; the first of several."""
    best, most = 0, 0
    for start in hits:
        count = len({hits[at][1] for at, _ in _run(body, start) if at in hits})
        if count > most:
            best, most = start, count
    return best


def _marked(body: str, begin: int, end: int, hits: Mapping[int, tuple[int, str]]) -> str:
    # What stands before the first word and behind the last belongs to them.
    first = _WORD.search(body)
    begin = 0 if first is not None and begin == first.start() else begin
    end = len(body) if _WORD.search(body, end) is None else end
    parts, at = [_CUT if begin else ""], begin
    for start, (stop, _) in hits.items():
        if begin <= start and stop <= end:
            parts += [body[at:start], _OPEN, body[start:stop], _CLOSE]
            at = stop
    return "".join([*parts, body[at:end], _CUT if end < len(body) else ""])
