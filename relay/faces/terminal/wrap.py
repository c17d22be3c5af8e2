"""A styled line fitted to the width of a terminal: broken between words, or cut with an ellipsis.

Invariant: every function takes time linear in the line; wide characters count as two columns. The terminal itself
never breaks a line: it would continue at the first column, where another's words could pass for an entry. So a line
of code, and a word that is longer than the screen, are broken where the screen ends.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

Fragments = list[tuple[str, str]]

#: What a line begins with; its continuation lines are indented by it.
_LEAD = re.compile(r"\s*(?:[•▏] )?")
#: Columns that continuation lines are indented by, at least.
_INDENT = 2
_CODE = ("class:bar", "│ ")


def wide(line: Fragments) -> int:
    """The columns that a line takes."""
    from prompt_toolkit.utils import get_cwidth  # scripts wrap nothing, and do without this import

    return sum(get_cwidth(piece) for _, piece in line)


def wrapped(line: Fragments, columns: int, *, hangs: bool = True) -> list[Fragments]:
    """`line` as lines of at most `columns`, broken between words. Further lines are indented if it `hangs`."""
    from prompt_toolkit.utils import get_cwidth  # as above

    if hangs and columns < 10:
        return [line]
    code = _CODE in line
    signs = [*_signs(line)]
    lead = _LEAD.match("".join(sign for _, sign in signs))
    indent = min(max(_INDENT, lead.end() if lead else 0), columns // 3) if hangs else 0
    before = [*_signs(line[: line.index(_CODE) + 1])] if code else [("", " ")] * indent
    lines: list[list[tuple[str, str]]] = []
    row: list[tuple[str, str]] = []
    width, gap, begun = 0, -1, False  # gap: where the last space of this row stands, once a word has begun
    for style, sign in signs:
        wide = get_cwidth(sign)
        if width + wide > columns:
            breaks = sign == " " and not code
            at = len(row) if breaks or gap < 0 else gap
            lines.append(row[:at])
            rest = row[at + 1 :]
            row = [*before, *rest]
            width, gap, begun = sum(get_cwidth(sign) for _, sign in row), -1, bool(rest)
            if breaks:
                continue
        if sign != " ":
            begun = True
        elif begun and not code:
            gap = len(row)
        row.append((style, sign))
        width += wide
    return [_joined(signs) for signs in [*lines, row]]


def _signs(line: Fragments) -> Iterable[tuple[str, str]]:
    return ((style, sign) for style, piece in line for sign in piece)


def cropped(line: Fragments, columns: int) -> Fragments:
    """`line` cut to `columns`, with an ellipsis where something is missing."""
    from prompt_toolkit.utils import get_cwidth  # as above

    left = columns - 1
    result: Fragments = []
    for style, piece in line:
        for at, char in enumerate(piece):
            left -= get_cwidth(char)
            if left < 0:
                return [*result, (style, piece[:at] + "…")]
        result.append((style, piece))
    return result


def _joined(signs: Iterable[tuple[str, str]]) -> Fragments:
    return [
        (style, "".join(sign for _, sign in run)) for style, run in groupby(signs, key=lambda sign: sign[0])
    ]
