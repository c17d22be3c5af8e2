"""The words of the field that relay shows, each explained in a sentence or two.

Invariant: `terms.json` is the only table: the page is built with it, the terminal and `help` read it here.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Term:
    """`name` as it is shown; `also`: other ways in which the room writes it."""

    id: str
    name: str
    also: tuple[str, ...]
    text: str


@cache
def terms() -> tuple[Term, ...]:
    entries = json.loads(Path(__file__).with_name("terms.json").read_text("utf-8"))
    return tuple(Term(entry["id"], entry["name"], tuple(entry["also"]), entry["text"]) for entry in entries)


@cache
def _finder() -> re.Pattern[str]:
    """Finds every way of writing a term, as whole words and in this case: "on hold" is no HOLD."""
    ways = {re.escape(way): term.id for term in terms() for way in (term.name, *term.also)}
    return re.compile(rf"(?<![\w/.-])(?:{'|'.join(sorted(ways, key=len, reverse=True))})(?![\w/-]|\.\w)")


def used_in(text: str) -> list[Term]:
    """The terms that a text uses, each once, in the order of their first use."""
    by_way = {way: term for term in terms() for way in (term.name, *term.also)}
    return list(dict.fromkeys(by_way[match[0]] for match in _finder().finditer(text)))


def glossary() -> str:
    """All of them, a line each."""
    return "\n".join(f"- {term.name}: {term.text}" for term in terms())
