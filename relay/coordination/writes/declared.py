"""What a changeset declares, and which of the files that were changed that covers.

Invariants:
- a declaration is read as a lock is (`targets.target`), and covers a file exactly when a lock on it would be about
  that file: a path covers itself and its subtree, a pattern what it stands for, letters count by case where locks do;
- a logical key is about no file: it covers none, and is never missing.

Pure. (docs/coordination.md, "Changesets" and "Locks".)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from relay.coordination.paths.overlap import stands_for
from relay.coordination.paths.patterns import parse
from relay.coordination.paths.targets import Target, above
from relay.coordination.writes.fencing import file_target


@dataclass(frozen=True, slots=True)
class Coverage:
    """`undeclared`: what was changed and no declaration covers; `missing`: declarations of files that cover nothing
    that was changed, as they are shown."""

    undeclared: list[str]
    missing: list[str]


def coverage(declared: Sequence[Target], changed: Sequence[str], *, fold: bool = False) -> Coverage:
    """`changed`: names as git tells them. `fold`: the file system folds case."""
    paths = {target.key for target in declared if target.kind == "path"}
    globs: dict[str, list[Target]] = defaultdict(list)
    for target in declared:
        if target.kind == "glob":
            globs[target.base or ""].append(target)
    used_globs: set[Target] = set()
    used_paths: set[str] = set()
    undeclared = []
    for path in changed:
        file = file_target(path, fold)
        if file is None:
            undeclared.append(path)
            continue
        folders = above(file.key)
        covering = paths.intersection(folders)
        # Only patterns that begin with a folder of the file can stand for it: of a thousand, a few.
        near = [glob for folder in ("", *folders) for glob in globs.get(folder, ())]
        matching = {glob for glob in near if stands_for(glob.key, file.key)}
        used_paths |= covering
        used_globs |= matching
        if not covering and not matching:
            undeclared.append(path)
    missing = [
        target.path
        for target in declared
        if (target.kind == "path" and target.key not in used_paths)
        or (target.kind == "glob" and target not in used_globs)
    ]
    return Coverage(undeclared, missing)


def file_of(declared: Target) -> str | None:
    """The name of the one file (or folder) that a declaration is; None of a pattern and of a key."""
    return parse(declared.path).literal if declared.kind == "path" else None
