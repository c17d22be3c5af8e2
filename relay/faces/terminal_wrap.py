"""A styled line within the width of a terminal: broken between words, or cut with a sign.

Invariant: every function is linear in the line; wide characters count as two columns. A line of code, and a word that
is longer than the screen, are left for the terminal to break: it joins them again when they are copied.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

from relay.faces.terminal_text import Fragments

#: What a line begins with that the rest of it is to stand behind.
_LEAD = re.compile(r"\s*(?:[•▏] )?")
#: Columns that what is broken off is moved in, at least.
_INDENT = 2
_CODE = ("class:bar", "│ ")


def wrapped(line: Fragments, columns: int) -> list[Fragments]:
    """`line` as lines of at most `columns`, broken between words."""
    from prompt_toolkit.utils import get_cwidth  # the scripts' mode wraps nothing

    if _CODE in line or columns < 10:
        return [line]
    signs = [(style, sign) for style, piece in line for sign in piece]
    lead = _LEAD.match("".join(sign for _, sign in signs))
    indent = min(max(_INDENT, lead.end() if lead else 0), columns // 3)
    lines: list[list[tuple[str, str]]] = []
    row: list[tuple[str, str]] = []
    width, gap, begun = 0, -1, False  # gap: where the last space of this row stands, once a word has begun
    for style, sign in signs:
        wide = get_cwidth(sign)
        if width + wide > columns and (sign == " " or gap >= 0):
            rest = [] if sign == " " else row[gap + 1 :]
            lines.append(row if sign == " " else row[:gap])
            row = [("", " ")] * indent + rest
            width, gap, begun = sum(get_cwidth(one) for _, one in row), -1, bool(rest)
            if sign == " ":
                continue
        if sign != " ":
            begun = True
        elif begun:
            gap = len(row)
        row.append((style, sign))
        width += wide
    return [_joined(one) for one in [*lines, row]]


def cropped(line: Fragments, columns: int) -> Fragments:
    """`line` cut to `columns`, with a sign where something is missing."""
    from prompt_toolkit.utils import get_cwidth  # as above

    left = columns - 1
    kept: Fragments = []
    for style, piece in line:
        for at, char in enumerate(piece):
            left -= get_cwidth(char)
            if left < 0:
                return [*kept, (style, piece[:at] + "…")]
        kept.append((style, piece))
    return kept


def _joined(signs: Iterable[tuple[str, str]]) -> Fragments:
    return [
        (style, "".join(sign for _, sign in run)) for style, run in groupby(signs, key=lambda one: one[0])
    ]
