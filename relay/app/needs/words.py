"""What people and agents wrote, without code, marks and footers. Pure."""

from __future__ import annotations

import re

_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
#: Marks of emphasis and code, but no underscore inside a word.
_MARKS = re.compile(r"[*`]+|(?<!\w)_+|_+(?!\w)")
_FOOTER = re.compile(r"^\[(?:DECISION|OWNER|BLOCKERS):.*\]\s*\Z", re.MULTILINE | re.DOTALL)


def prose(body: str) -> str:
    """The text without blocks of code and the footer."""
    return _FOOTER.sub("", _CODE.sub("", body).rstrip())


def unmarked(text: str) -> str:
    return _MARKS.sub("", text)
