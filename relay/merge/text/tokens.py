"""Edits of different parts of the same lines: of different arguments, names or words.

Invariant: between what one side changed and what the other changed stands a part that nobody changed; the result has
all words of both sides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from relay.merge.text.matching import Change, divided, match

_TOKEN = re.compile(r"\w+|[^\S\n]+|\n|[^\w\s]")
_BETWEEN = ".:-/"
#: Lines of a side beyond which nobody would see what was merged into what.
MOST_LINES = 40
#: Words and signs of a side beyond which it was made by a program, and is no line that people wrote.
MOST_TOKENS = 4_000
#: The least share of the base that both sides left alone.
LEAST_KEPT = 0.4


def split(rows: Sequence[str]) -> list[str]:
    """The words, signs and white space; one token where digits stand together, as in a date or a version."""
    found: list[str] = []
    for token in _TOKEN.findall("\n".join(rows)):
        last = found[-1] if found else ""
        digits = len(last) > 1 and last[-1] in _BETWEEN and token[0].isdigit()
        if digits or (token in _BETWEEN and last[-1:].isdigit()):
            found[-1] += token
        else:
            found.append(token)
    return found


def joined(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> list[str] | None:
    """The lines with the edits of both; None where these meet."""
    if not base or not ours or not theirs or max(len(base), len(ours), len(theirs)) > MOST_LINES:
        return None
    o, a, b = split(base), split(ours), split(theirs)
    if max(len(o), len(a), len(b)) > MOST_TOKENS:
        return None
    keys = [[" " if token.isspace() and token != "\n" else token for token in side] for side in (o, a, b)]
    found = divided(match(keys[0], keys[1]), match(keys[0], keys[2]), (len(o), len(a), len(b)))
    kept = sum(region.base[1] - region.base[0] for region in found if region.change is Change.NOBODY)
    if kept < LEAST_KEPT * len(o):
        return None
    made: list[str] = []
    last: Change | None = None
    parted = True
    for region in found:
        if region.change is Change.BOTH:
            left, right = a[slice(*region.ours)], b[slice(*region.theirs)]
            if left != right:
                return None
            made += left
            last, parted = None, False
            continue
        if region.change is Change.NOBODY:
            part = o[slice(*region.base)]
            theirs_too = b[slice(*region.theirs)]
            mine = a[slice(*region.ours)]
            made += theirs_too if mine == part else mine
            parted = (
                parted
                or any(token in ",;(){}[]\n=" for token in part)
                or len([token for token in part if not token.isspace()]) > 1
            )
            continue
        if last is not None and last is not region.change and not parted:
            return None
        made += a[slice(*region.ours)] if region.change is Change.OURS else b[slice(*region.theirs)]
        last, parted = region.change, False
    return "".join(made).split("\n")
