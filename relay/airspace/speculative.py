"""Speculative merges: would git merge these two, as they stand now?

Invariant: nothing but the scratch is written, and an answer is git's own (`git merge-tree --write-tree`, the
engine of `git merge`). Snapshots are commits on top of what was really committed, so git finds the base itself,
across merges and rebases too. What git cannot answer is None, never clean.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from relay.airspace.git import Git, GitError, name_of
from relay.airspace.near import Merge

#: Answers that are remembered: 300 worktrees have 44,850 pairs.
REMEMBERED = 50_000


@dataclass(frozen=True, slots=True)
class Merged:
    """`tree`: what the merge gives, with markers where it conflicts."""

    tree: str
    merge: Merge


async def merge_trees(git: Git, ours: str, theirs: str) -> Merged | None:
    """Merge two commits without touching a file. None: git cannot tell (no common history, say)."""
    asked = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages")
    try:
        done = await git.run(*asked, ours, theirs, ok=(0, 1))
    except GitError:
        return None
    tree, *conflicts = [name_of(part) for part in done.out.rstrip(b"\0").split(b"\0")]
    if (done.code == 0) == bool(conflicts) or not tree:
        return None
    return Merged(tree, Merge(tuple(dict.fromkeys(conflicts))))


class Speculation:
    """Remembers the merges of pairs of commits."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], Merged] = OrderedDict()

    async def merge(self, git: Git, ours: str, theirs: str) -> Merged | None:
        """As `merge_trees`. Whether two conflict does not depend on their order, so one order is asked."""
        pair = min(ours, theirs), max(ours, theirs)
        if pair in self._known:
            self._known.move_to_end(pair)
            return self._known[pair]
        merged = await merge_trees(git, *pair)
        if merged is None:
            return None  # not remembered: the scratch may have been emptied meanwhile
        self._known[pair] = merged
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return merged

    def forget(self) -> None:
        """The scratch was emptied: the trees are gone."""
        self._known.clear()
