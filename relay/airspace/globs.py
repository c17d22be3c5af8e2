"""Which paths a list of globs means.

Invariant: `*` and `?` stay within one folder, `**/` is any number of folders, none included; a glob matches the
whole path. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

_PARTS = re.compile(r"\*\*/|\*\*|\*|\?|[^*?]+")
_MEANS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@lru_cache(maxsize=32)
def _compiled(globs: tuple[str, ...]) -> re.Pattern[str]:
    each = ("".join(_MEANS.get(part, re.escape(part)) for part in _PARTS.findall(glob)) for glob in globs)
    return re.compile("|".join(f"(?:{one})" for one in each) or r"(?!)")


def matches(path: str, globs: Sequence[str]) -> bool:
    """Is this path (relative, with `/`) meant by one of the globs?"""
    return _compiled(tuple(globs)).fullmatch(path) is not None
