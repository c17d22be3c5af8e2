"""Globs over paths, as `.gitignore` has them: `*` and `?` stay within a name, `**` crosses folders, and a pattern
without a slash is about names at any depth."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence


def matcher(globs: Sequence[str]) -> Callable[[str], bool]:
    """Does any of these globs match a path (relative to the repository, with `/`)?"""
    if not globs:
        return lambda path: False
    whole = re.compile("|".join(f"(?:{_regex(one)})" for one in globs), re.DOTALL)
    return lambda path: whole.fullmatch(path) is not None


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
