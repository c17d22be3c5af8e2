"""Globs over paths, as `.gitignore` has them.

Invariant: `*` and `?` stay within a name, `**/` is any number of folders, none included; a pattern without a slash
is about names at any depth, one that ends with a slash about all below that folder. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache


def matches(path: str, globs: Sequence[str]) -> bool:
    """Does one of the globs match this path (relative to the repository, with `/`)?"""
    return bool(globs) and _compiled(tuple(globs)).fullmatch(path) is not None


@lru_cache(maxsize=32)
def _compiled(globs: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{_regex(glob)})" for glob in globs), re.DOTALL)


def _regex(glob: str) -> str:
    if "/" not in glob.rstrip("/"):
        glob = f"**/{glob}"
    glob = glob.lstrip("/")
    if glob.endswith("/"):
        glob += "**"
    out, at = "", 0
    while at < len(glob):
        if glob.startswith("**/", at):
            out, at = out + "(?:.*/)?", at + 3
        elif glob.startswith("**", at):
            out, at = out + ".*", at + 2
        else:
            out += {"*": "[^/]*", "?": "[^/]"}.get(glob[at]) or re.escape(glob[at])
            at += 1
    return out
