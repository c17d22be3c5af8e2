"""The words of a need: on one line, and short. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from relay.base.terminal_text import flat

#: Characters of an agent's own words in a need.
MOST_WORDS = 240
#: Characters of a button, as every interface gets it.
MOST_LABEL = 80


def short(text: str, most: int = MOST_WORDS) -> str:
    line = flat(text)
    return line if len(line) <= most else f"{line[: most - 1]}…"


def sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", "!", "…")) else f"{text}."


def named(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return ", ".join(short(path, 120) for path in paths[:3]) + more


def unheard(away: Sequence[str]) -> str:
    """What is not known of members of the fleet that cannot be reached. Pure."""
    named = " and ".join(away)
    return f"{named} cannot be reached: what agents there ask for, and whether they are silent, is not known."


_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
#: Marks of emphasis and code, but no underscore inside a word.
_MARKS = re.compile(r"[*`]+|(?<!\w)_+|_+(?!\w)")
_FOOTER = re.compile(r"^\[(?:DECISION|OWNER|BLOCKERS):.*\]\s*\Z", re.MULTILINE | re.DOTALL)


def prose(body: str) -> str:
    """The text without blocks of code and the footer."""
    return _FOOTER.sub("", _CODE.sub("", body).rstrip())


def unmarked(text: str) -> str:
    """The text without the marks of emphasis and code."""
    return _MARKS.sub("", text)
