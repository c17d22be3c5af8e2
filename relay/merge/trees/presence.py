"""What becomes of one path of three trees, before anybody reads a text.

Invariant: pure. No case is dropped: what one side removed and the other changed, files added by both, and whatever is
no regular file, is said to be a conflict with its kind, or merged by the three-way rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from relay.merge.text.lines import three_way

FILE, PROGRAM, LINK, SUBMODULE = "100644", "100755", "120000", "160000"


@dataclass(frozen=True, slots=True)
class Entry:
    """A path in a tree: git's mode, and the id of its object."""

    mode: str
    id: str

    @property
    def regular(self) -> bool:
        return self.mode in (FILE, PROGRAM)


@dataclass(frozen=True, slots=True)
class Presence:
    """What becomes of a path. `entry`: what stands there, None = nothing; `text`: its content is still to be merged,
    and `entry` has the mode; `conflict`: why it cannot be decided, "" = it is."""

    entry: Entry | None
    text: bool = False
    conflict: str = ""


def presence(base: Entry | None, ours: Entry | None, theirs: Entry | None) -> Presence:
    """The three-way rule for one path (None = not there)."""
    if theirs in (ours, base):
        return Presence(ours)
    if ours == base:
        return Presence(theirs)
    if ours is None or theirs is None:
        # Both were not removed, and the one that is there was changed.
        return Presence(ours or theirs, conflict="one side changed it, the other removed it")
    kinds = {_kind(entry) for entry in (ours, theirs)}
    if len(kinds) > 1:
        return Presence(ours, conflict=f"one side has a {' and the other a '.join(sorted(kinds))}")
    kind = kinds.pop()
    if kind != "file":
        what = "added it, differently" if base is None else "changed it, differently"
        return Presence(ours, conflict=f"{kind}: both {what}")
    if base is not None and not base.regular:
        return Presence(ours, conflict=f"it was a {_kind(base)}, and both sides made a file of it")
    mode = three_way(base.mode, ours.mode, theirs.mode) if base is not None else _same(ours.mode, theirs.mode)
    if mode is None:
        return Presence(ours, conflict="mode: both added it, one as a program")
    id = three_way(base.id, ours.id, theirs.id) if base is not None else _same(ours.id, theirs.id)
    if id is not None:
        return Presence(Entry(mode, id))
    return Presence(Entry(mode, ours.id), text=True)


def _kind(entry: Entry) -> str:
    return {LINK: "symbolic link", SUBMODULE: "submodule"}.get(entry.mode, "file")


def _same(one: str, other: str) -> str | None:
    return one if one == other else None
