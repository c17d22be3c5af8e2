"""Whom a message mentions.

Invariant: a mention is what a reader of the rendered message would take for one. There is none in code, in an
e-mail address, in a URL, in a path or package name, and none in a longer name that only begins like an agent's.
A doubtful one is no mention: the dispatcher still reads the message, while a false mention would call an agent.

Pure, and linear in the length of the body.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from relay.model.speaker_names import EVERYONE
from relay.room.parsing.markdown import prose

_URL = re.compile(r"(?:://|\bwww\.)[^\s<>\"]*", re.IGNORECASE)
#: What may precede the @ of an e-mail address or of a URL or path, besides letters and digits.
_JOINS_BEFORE = frozenset("_.+-%&=~@/\\")
#: Scripts that are written without spaces (and Hangul, whose particles attach to a name). A letter of one of them
#: ends a Latin name beside it. First and last code point of each range.
_UNSPACED = (
    (0x0E00, 0x0EFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x3005, 0x3007),
    (0x3040, 0x30FF),
    (0x3400, 0x9FFF),
    (0xAC00, 0xD7AF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)


def mentions(body: str, agents: Iterable[str], also: Iterable[str] = ()) -> tuple[str, ...]:
    """The agents that `body` names with an @, once each, in order of appearance, spelled as configured.

    `@all` means all of `agents`. `also` are names that can be addressed but are not part of `@all` (the steward).
    Case is ignored.
    """
    names = tuple(agents)
    others = tuple(also)
    if "@" not in body or not names + others:
        return ()
    text = _without_urls(prose(body))
    pattern, targets = _pattern(names, others)
    named: dict[str, None] = {}
    last_end = -1
    for hit in pattern.finditer(text):
        chained = hit.start() > 0 and text[hit.start() - 1] == "/" and hit.start() - 1 == last_end
        if not (chained or _may_start(text, hit.start())) or not _may_end(text, hit.end()):
            continue
        assert hit.lastindex is not None
        name, agents_of_name = targets[hit.lastindex - 1]
        if hit[0][1:].casefold() != name.casefold():  # IGNORECASE also matches a dotless i for an i
            continue
        last_end = hit.end()
        named.update(dict.fromkeys(agents_of_name))
    return tuple(named)


_WORD = re.compile(r"@([A-Za-z][\w-]{2,31})")
#: The least difflib ratio of a misspelt name: one slip in five letters, two in eight.
_ALIKE = 0.75


def misspelt(body: str, agents: Iterable[str]) -> tuple[str, str] | None:
    """The first @word that is nearly a name of the room, and that name; None when there is none."""
    names = {name.casefold(): name for name in agents}
    for word in strangers(body, names.values()) if names else ():
        near = difflib.get_close_matches(word.casefold(), names, n=1, cutoff=_ALIKE)
        if near:
            return word, names[near[0]]
    return None


def strangers(body: str, names: Iterable[str]) -> tuple[str, ...]:
    """The words with an @ in `body` that are no name of the room, once each."""
    if "@" not in body:
        return ()
    known = {EVERYONE, *(name.casefold() for name in names)}
    text = _without_urls(prose(body))
    words = {
        hit[1]: None
        for hit in _WORD.finditer(text)
        if hit[1].casefold() not in known and _may_start(text, hit.start()) and _may_end(text, hit.end())
    }
    return tuple(words)


@lru_cache(maxsize=64)
def _pattern(
    agents: tuple[str, ...], also: tuple[str, ...]
) -> tuple[re.Pattern[str], tuple[tuple[str, tuple[str, ...]], ...]]:
    """A pattern with one group a name, longest first, so that `@claude-2` is not read as `@claude`; and for each
    group its name and the agents that the name means."""
    meanings: dict[str, tuple[str, ...]] = {name: (name,) for name in (*agents, *also)}
    if not any(name.casefold() == EVERYONE for name in meanings) and agents:
        meanings[EVERYONE] = agents
    ordered = sorted(meanings, key=len, reverse=True)
    groups = "|".join(f"({re.escape(name)})" for name in ordered)
    return re.compile(f"@(?:{groups})", re.IGNORECASE), tuple((name, meanings[name]) for name in ordered)


def _without_urls(text: str) -> str:
    if "://" not in text and "www." not in text.lower():
        return text
    return _URL.sub(_blank_url, text)


def _blank_url(match: re.Match[str]) -> str:
    url = match[0]
    # In [text](https://x.y)@CLAUDE the parenthesis ends the URL, unless the URL opened it.
    close = url.find(")")
    length = close if close >= 0 and "(" not in url[:close] else len(url)
    # Not with blanks: the @ after a URL is preceded by the URL, not by a space.
    return "/" * length + url[length:]


def _may_start(text: str, at: int) -> bool:
    return at == 0 or not (text[at - 1] in _JOINS_BEFORE or _joins_name(text[at - 1]))


def _may_end(text: str, end: int) -> bool:
    if end == len(text):
        return True
    after = text[end]
    if after in "@_" or _joins_name(after):
        return False
    if after in "-./\\:" and end + 1 < len(text):
        following = text[end + 1]
        # `@claude-2`, `@claude.ai`, the package `@claude/sdk`; but `@CLAUDE: look`, `@CLAUDE.` and `@A/@B`.
        return following not in "_/" and not (following.isascii() and following.isalnum() and after != ":")
    return True


def _joins_name(char: str) -> bool:
    """Whether this character makes the name beside it a longer word."""
    if char.isascii():
        return char.isalnum()
    if not (char.isalnum() or unicodedata.category(char)[0] == "M"):
        return False
    point = ord(char)
    return not any(first <= point <= last for first, last in _UNSPACED)
