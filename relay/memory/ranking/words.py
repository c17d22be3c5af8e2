"""The words of a text, as memories are found by them.

Invariant: one text gives the same words on every engine and every machine: small, without marks, parted at
punctuation, `_` and humps, and stemmed here (Snowball's English). The engines' indexes take them as they are: a term
is ASCII, so no engine's own idea of a letter comes in.

Pure.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import Stemmer

#: Characters of a text that are found by words; what is longer is kept, but found by its beginning.
MOST_INDEXED = 65_536
#: Characters of a word that count. What is longer is no word that anybody asks for.
MOST_LETTERS = 64
#: Words of a question that are looked for. The first ones say what it is about, and each costs a look.
MOST_WORDS = 32
_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_STEMMER = Stemmer.Stemmer("english", maxCacheSize=0)
#: Words that carry no meaning in English and German, the languages of the room's documents; a question of nothing
#: else is asked as it is.
_EMPTY = frozenset(
    _WORD.findall(
        "a about am an and any are as at be been being but by can could did do does doing for from had has have he "
        "her here hers him his how i if in into is it its just may me might my no nor not of off on or our ours out "
        "over shall she should so some such than that the their theirs them then there these they this those to too "
        "up us very was we were what when where which while who whom whose why will with would you your yours "
        "s t d ll re ve m don didn doesn isn wasn aren weren couldn wouldn shouldn hasn haven hadn "
        "auf aus bei das dem den der des die ein eine einen einer es ich im ist mit nicht oder und von wie wir zu "
        "zum zur"
    )
)


@dataclass(frozen=True, slots=True)
class Question:
    """What is looked for: the stems that count, each once; which of them stand side by side in it (`src/app.py`,
    `get_user`, "rate limit"), by their places, which makes a match a better one; and all that was said, unstemmed,
    so that a name is known in it. `spoken`: each stem as it was said first."""

    words: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]
    said: frozenset[str]
    spoken: Mapping[str, str]


def words(text: str) -> list[str]:
    """The stems of a text, in its order. A word with humps is there in its parts, and whole at the end."""
    parts, whole = _spoken(text[:MOST_INDEXED])
    return [_stem(word) for word in (*parts, *whole)]


def meant(text: str) -> list[str]:
    """The stems of a text that have a meaning, each once; all of them where it has no others."""
    parts, whole = _spoken(text[:MOST_INDEXED])
    telling = [word for word in parts if word not in _EMPTY] or parts
    return list(dict.fromkeys(_stem(word) for word in (*telling, *whole)))


def question(text: str) -> Question:
    """What a text asks for. Words without a meaning are left out, unless there are no others."""
    spoken, _ = _spoken(text)
    meant = [word for word in spoken if word not in _EMPTY] or spoken
    stems: dict[str, str] = {}
    for word in meant:
        stems.setdefault(_stem(word), word)
    words = tuple(stems)[:MOST_WORDS]
    place = {word: at for at, word in enumerate(words)}
    said = [place.get(_stem(word)) for word in spoken]
    beside = [(one, two) for one, two in pairwise(said) if one is not None and two is not None and one != two]
    return Question(words, tuple(dict.fromkeys(beside))[:MOST_WORDS], frozenset(spoken), stems)


def names(name: str) -> frozenset[str]:
    """The words by which a question names an author: all of them must be said."""
    return frozenset(_spoken(name)[0])


def spaced(stems: Iterable[str]) -> str:
    """Stems as they are kept to be weighed: each with a space on either side, so that two alike are two."""
    joined = "  ".join(stems)
    return f" {joined} " if joined else ""


def term(word: str) -> str:
    """A stem as the indexes take it."""
    return word if word.isascii() else f"__{word.encode().hex()}"


def filter_terms(agent: str, event_type: str, tags: Iterable[str]) -> list[str]:
    """What says whose a memory is, of which type, and with which tags; no word is like these."""
    return [_filter("a", agent), _filter("k", event_type), *(_filter("t", tag) for tag in tags)]


def filters(wanted: Mapping[str, Iterable[str]]) -> str:
    """A condition on `agent`, `event_type` and `tag`, one of each, as the indexes' statements take it behind a term;
    empty where nothing is wanted."""
    kinds = {"agent": "a", "event_type": "k", "tag": "t"}
    groups = [[_filter(kinds[name], value) for value in values] for name, values in wanted.items()]
    return "".join(
        " AND ({})".format(" OR ".join(f'"{value}"' for value in group)) for group in groups if group
    )


def _filter(kind: str, value: str) -> str:
    return f"_{kind}{value.encode().hex()}"


def _spoken(text: str) -> tuple[list[str], list[str]]:
    """The words of a text in their order, parted at humps; and those whole that have humps."""
    if not text.isascii():
        parted = unicodedata.normalize("NFD", text)
        text = "".join(char for char in parted if unicodedata.category(char) != "Mn")
    parts: list[str] = []
    whole: list[str] = []
    for word in _WORD.findall(text):
        if word.islower() or word.isdigit():
            parts.append(word[:MOST_LETTERS])
            continue
        humps = _HUMP.sub(" ", word[:MOST_LETTERS]).lower()
        parts += humps.split(" ")
        if " " in humps:
            whole.append(humps.replace(" ", ""))
    return parts, whole


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    stem: str = _STEMMER.stemWord(word)
    return stem
