"""Lines of a text, and the forms in which lines are compared.

Invariant: what is compared says nothing of where a line stands, of its indentation, or of the comma behind it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")

WORD = re.compile(r"\w+")
#: Lines whose forms are remembered.
REMEMBERED = 65_536
#: Lines above and below a place that are compared, to tell it from others.
MOST_AROUND = 20
_LETTER = re.compile(r"[^\W_]")


@dataclass(frozen=True, slots=True)
class Lines:
    """A text as lines without their ends. `ended`: is there a line end behind the last one?"""

    rows: tuple[str, ...]
    ended: bool

    def text(self) -> str:
        return "\n".join(self.rows) + ("\n" if self.ended and self.rows else "")


def lines_of(text: str) -> Lines:
    """The lines of a text whose line ends are `\\n`."""
    if not text:
        return Lines((), True)
    ended = text.endswith("\n")
    return Lines(tuple((text[:-1] if ended else text).split("\n")), ended)


def rows_with_ends(text: str) -> list[str]:
    """The lines of a text with their ends, as git counts them: only `\\n` ends one."""
    rows = text.split("\n")
    return [row + "\n" for row in rows[:-1]] + ([rows[-1]] if rows[-1] else [])


@lru_cache(REMEMBERED)
def normal(line: str) -> str:
    """A line without white space around it and without a closing comma or semicolon."""
    line = line.strip()
    return line[:-1].rstrip() if line.endswith((",", ";")) else line


@lru_cache(REMEMBERED)
def telling(line: str) -> bool:
    """Has a line a letter or a digit?"""
    return _LETTER.search(line) is not None


def words(line: str) -> list[str]:
    return WORD.findall(line)


def indent_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def blank(rows: tuple[str, ...] | list[str]) -> bool:
    return not any(row.strip() for row in rows)


def place_of(
    rows: Sequence[str], part: Sequence[str], above: Sequence[str], below: Sequence[str]
) -> tuple[int, int] | None:
    """Where `part` stands in `rows`: from 0, without the last; None = not known. `above`, `below`: what stands around
    it in a text that was made of `rows`, of which as much is compared as tells its places apart."""
    found = [at for at in range(len(rows) - len(part) + 1) if list(rows[at : at + len(part)]) == list(part)]
    for many in range(1, MOST_AROUND + 1):
        if len(found) < 2:
            break
        over, under = list(above[max(0, len(above) - many) :]), list(below[:many])
        found = [
            at
            for at in found
            if list(rows[max(0, at - len(over)) : at]) == over
            and list(rows[at + len(part) : at + len(part) + len(under)]) == under
        ]
    return (found[0], found[0] + len(part)) if len(found) == 1 else None


def common_ends(texts: Sequence[Sequence[T]]) -> tuple[int, int]:
    """How many lines all texts begin with, and how many of the rest they end with."""
    least = min(map(len, texts))
    first = texts[0]
    others = texts[1:]
    start = 0
    while start < least and all(other[start] == first[start] for other in others):
        start += 1
    end = 0
    while end < least - start and all(other[-1 - end] == first[-1 - end] for other in others):
        end += 1
    return start, end


def three_way(base: T, ours: T, theirs: T) -> T | None:
    """The value that one side changed, or both alike; None where they changed it differently."""
    if ours in (base, theirs):
        return theirs
    return ours if theirs == base else None
