"""What git cannot merge beyond the lines of one file, and how a clash is told.

Invariant: a clash is between two paths that both sides need for different things; what it says can be checked by
looking at both worktrees. Pure; the set of clashes is symmetric.
"""

from __future__ import annotations

from relay.airspace.profiles.features import Sketch, folder, parents
from relay.airspace.profiles.formulas import said
from relay.airspace.readings import Evidence
from relay.git.hunks import Clash, Meeting
from relay.model.working_set import Change, FileTouch


def path_clashes(a: Sketch, b: Sketch) -> tuple[Evidence, ...]:
    """Two different things at one path: renames onto one path, a rename onto an added file, a file where the other
    has a directory, and a new file in a directory that the other renames."""
    if not a.created and not b.created:
        return ()
    clashes = [
        Evidence(f"both put a file at {path}", path=path)
        for path in sorted(a.created & b.created)
        if a.targets.get(path) != b.targets.get(path)
    ]
    for mine, other in ((a, b), (b, a)):
        for path in sorted(mine.created & other.folders):
            text = f"{path} is a file for one side and a directory for the other"
            clashes.append(Evidence(text, path=path))
        clashes += _moved_under(mine, other)
    return tuple(clashes)


def _moved_under(mine: Sketch, other: Sketch) -> list[Evidence]:
    """New files of `mine` where `other` renames the whole directory: git does not know where they belong."""
    if not other.left:
        return []
    # What `mine` has there and `other` has not taken along shows that the directory stands.
    gone = {path for path, touch in other.files.items() if touch.change in (Change.DELETED, Change.RENAMED)}
    standing = {up for path in mine.files.keys() - mine.created - gone for up in parents(path)}
    clashes = []
    for path in sorted(mine.created):
        place = folder(path)
        if place in other.left and place not in standing:
            to = other.left[place] or "the top"
            text = f"one side puts a file at {path}, and the other renames {place} to {to}"
            clashes.append(Evidence(text, path=path))
    return clashes


def clause(path: str, a: FileTouch, b: FileTouch, met: Meeting, names: tuple[str, str]) -> Evidence:
    """What git cannot merge in one file, in one clause."""
    if met.clash is Clash.DELETED:
        first = a.change is Change.DELETED
        deleter, other = names if first else (names[1], names[0])
        moved = (b if first else a).change is Change.RENAMED
        text = f"{deleter} deletes {path}, which {other} {'renames' if moved else 'changes'}"
    elif met.clash is Clash.ADDED:
        text = f"both add {path}, with different content" if met.lines else f"both add {path}"
    elif met.clash is Clash.RENAMED:
        text = f"both rename {path}, to {' and to '.join(sorted((a.new_path or '', b.new_path or '')))}"
    elif met.clash is Clash.BINARY:
        text = f"both change {path}, which is binary"
    else:
        shared = any(x.start <= y.end and y.start <= x.end for x in a.lines for y in b.lines)
        how = "both change" if shared else "they change neighbouring"
        text = f"{how} {said(met.lines)} of {path}"
    return Evidence(text, path=path, lines=met.lines)
