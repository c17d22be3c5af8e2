"""Speculative merges: would git merge these two, as they stand now, and where not?

Invariants:
- nothing but the scratch is written, and an answer is git's own (`git merge-tree --write-tree`, the engine of
  `git merge`); files in which that conflicts are joined by what was given for it (`Join`), or stay in conflict.
  Snapshots are commits on top of what was really committed, so git finds the base itself, across
  merges and rebases too. What git cannot answer is None, never clean;
- `TrialMerges.trial` is the one place that decides whether X merges into Y: advisories, worktrees, merges and all
  interfaces ask it.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from json import dumps
from typing import Any

from relay.git.diff import Differ, changed_files, touch_of
from relay.git.hunks import identity, touches
from relay.git.merge_state import Lines
from relay.git.run import Git, GitError, name_of
from relay.model.working_set import FileTouch, joined

#: Answers that are remembered: 300 worktrees have 44,850 pairs.
REMEMBERED = 50_000


class Verdict(StrEnum):
    """Would it merge? NOTHING: it has nothing that the other lacks."""

    CLEAN = "clean"
    CONFLICTS = "conflicts"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class ConflictPart:
    """A place of one file in which two sides conflict. `entity`: the definition it is in, empty outside of one;
    `kind`: what happened, in words; `severity`: low, medium, high or critical; `base`, `ours`, `theirs`: the lines,
    with their line ends. `settled`: somebody has said what is to stand there; `fault`: why what an agent said there
    counts for nothing; `whole`: it is about the path as a whole (there or not, mode, link, binary); the texts
    then say what stands there, empty = nothing. `places`: first and last line (from 1) in the files of base, ours and
    theirs, no line where the last is before the first; None = not known."""

    path: str
    entity: str
    kind: str
    severity: str
    base: str
    ours: str
    theirs: str
    settled: bool = False
    fault: str = ""
    whole: bool = False
    places: tuple[tuple[int, int] | None, ...] = (None, None, None)

    @property
    def id(self) -> str:
        """16 hexadecimal digits of a hash of the file and the three texts: the same whichever side is ours."""
        said = dumps([self.path, self.base, *sorted((self.ours, self.theirs))])
        return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def as_places(value: Sequence[Sequence[int] | None]) -> tuple[tuple[int, int] | None, ...]:
    """From JSON: as of `ConflictPart.places`."""
    return tuple(None if each is None else (each[0], each[1]) for each in value)


@dataclass(frozen=True, slots=True)
class ChosenText:
    """What somebody said is to stand in a place. `guarded`: an agent did, so the whole file is looked at."""

    text: str
    guarded: bool = False


#: The steps of the ladder (docs/merge.md) in words.
STEPS = {
    "adjacent": "edits side by side",
    "imports": "imports",
    "added": "additions",
    "arguments": "arguments",
    "entity": "definitions",
    "json": "keys",
    "yaml": "keys",
    "toml": "keys",
    "resolved": "what was chosen",
}


@dataclass(frozen=True, slots=True)
class JoinedFile:
    """A file in which git conflicts and relay does not. `by`: the steps that joined it (docs/merge.md)."""

    path: str
    by: tuple[str, ...]

    @property
    def how(self) -> str:
        """The steps in words: "imports and additions"."""
        return " and ".join(dict.fromkeys(STEPS.get(step, step) for step in self.by))

    def __str__(self) -> str:
        return f"{self.path} by {self.how}"

    def as_json(self) -> dict[str, Any]:
        return {"path": self.path, "by": list(self.by), "how": self.how}


@dataclass(frozen=True, slots=True)
class Merge:
    """A speculative merge of the two sides (`git merge-tree`). `conflicts`: the files nobody can merge; `tree`: what
    it gives, with markers where it conflicts, where somebody needs that; `joined`: the files that git alone cannot
    merge; `parts`: where both changed the same, settled or not, as far as it lies in lines of text."""

    conflicts: tuple[str, ...] = ()
    tree: str = ""
    joined: tuple[JoinedFile, ...] = ()
    parts: tuple[ConflictPart, ...] = ()

    @property
    def clean(self) -> bool:
        return not self.conflicts


#: Joins the files in which git's merge of two commits conflicts: given git in the scratch, the two, and git's merge
#: with its tree; the merge then, in a tree of its own. It raises nothing: what it cannot join stays a conflict.
Join = Callable[[Git, str, str, Merge], Awaitable[Merge]]


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of trying to merge one commit into another.

    `verdict` None: git cannot tell; `unrelated`: because the two have no common history. `paths`: the files in
    conflict; `lines`: of each, first and last lines in the file of the side that is merged, where they are known.
    `unsettled`: the conflicts stand in the side's own files, with their markers; `merging`: of a merge that is under
    way in a worktree here; `needless`: the main branch as it is now, by what was chosen, has no conflict with the
    side itself. `joined`: as of a `Merge`; where it has nothing, files of which what was chosen or joined is what
    stands there.
    """

    verdict: Verdict | None
    paths: tuple[str, ...] = ()
    lines: Mapping[str, Lines] = field(default_factory=dict)
    unrelated: bool = False
    unsettled: bool = False
    joined: tuple[JoinedFile, ...] = ()
    merging: bool = False
    needless: bool = False

    @property
    def conflicts(self) -> bool:
        return self.verdict is Verdict.CONFLICTS

    @property
    def answer(self) -> str | None:
        """The verdict as interfaces show it: `joins` where it merges, and not by git alone."""
        if self.verdict is Verdict.CLEAN and self.joined:
            return "joins"
        return None if self.verdict is None else str(self.verdict)

    def added_to(self, other: Trial) -> Trial:
        """The conflicts of both; the rest is the other's."""
        paths = tuple(dict.fromkeys([*other.paths, *self.paths]))
        lines = {
            path: tuple(sorted({*other.lines.get(path, ()), *self.lines.get(path, ())})) for path in paths
        }
        return replace(other, paths=paths, lines={path: places for path, places in lines.items() if places})


@dataclass(frozen=True, slots=True)
class Target:
    """What worktrees are merged into: the branch that the main checkout is on (None: no branch), and its commit."""

    branch: str | None
    commit: str

    @property
    def name(self) -> str:
        return self.branch or f"the commit {self.commit[:9]}"


async def merge_trees(git: Git, ours: str, theirs: str, join: Join | None = None) -> Merge | None:
    """Merge two commits without touching a file. `join`: joins where git conflicts; without one, git's answer stands.
    None: git cannot tell (no common history, say)."""
    asked = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages")
    try:
        done = await git.run(*asked, ours, theirs, ok=(0, 1))
    except GitError:
        return None
    tree, *conflicts = [name_of(part) for part in done.out.rstrip(b"\0").split(b"\0")]
    if (done.code == 0) == bool(conflicts) or not tree:
        return None
    merge = Merge(tuple(dict.fromkeys(conflicts)), tree)
    return merge if merge.clean or join is None else await join(git, ours, theirs, merge)


class TrialMerges:
    """Remembers the merges of pairs of commits. `join`: as of `merge_trees`."""

    def __init__(self, differ: Differ | None = None, join: Join | None = None) -> None:
        self._join = join
        self._known: OrderedDict[tuple[str, str], Merge] = OrderedDict()
        self._lines: OrderedDict[tuple[str, str], Mapping[str, Lines]] = OrderedDict()
        self._differ = differ or Differ()
        #: Of the commit that was merged into last: most are merged into one.
        self._tree: tuple[str, str | None] = ("", None)

    def knows(self, commit: str, other: str) -> bool:
        """Is the answer for these two remembered?"""
        return (min(commit, other), max(commit, other)) in self._known

    async def trial(self, git: Git, side: str, into: str, *, nothing: bool, lines: bool = False) -> Trial:
        """Would the commit `side` merge into the commit `into`? `nothing`: the caller knows that it has nothing of
        its own. `lines`: say where in the side's files, as far as git can tell."""
        if nothing:
            return Trial(Verdict.NOTHING)
        merged = await self.merge(git, into, side)
        if merged is None:
            return Trial(None, unrelated=await _unrelated(git, into, side))
        if merged.clean:
            # Commits whose changes came another way, as by a squash, bring nothing.
            same = merged.tree == await self._tree_of(git, into)
            return Trial(Verdict.NOTHING if same else Verdict.CLEAN, joined=merged.joined)
        places = await self._lines_of(git, side, into, merged.conflicts) if lines else {}
        return Trial(Verdict.CONFLICTS, merged.conflicts, places, joined=merged.joined)

    async def _tree_of(self, git: Git, commit: str) -> str | None:
        if self._tree[0] != commit:
            self._tree = commit, await git.maybe("rev-parse", f"{commit}^{{tree}}")
        return self._tree[1]

    async def _lines_of(self, git: Git, side: str, into: str, paths: Sequence[str]) -> Mapping[str, Lines]:
        """Of each path, the lines of the side's file in which the two touch."""
        key = (side, into)
        if key not in self._lines:
            base = await git.maybe("merge-base", into, side)
            if base is None:
                return {}
            try:
                touches = [await self._touches(git, base, commit, paths) for commit in key]
            except GitError:
                return {}  # that they conflict stands all the same
            self._lines[key] = where(*touches)
            while len(self._lines) > REMEMBERED:
                self._lines.popitem(last=False)
        return self._lines[key]

    async def _touches(
        self, git: Git, base: str, commit: str, paths: Sequence[str]
    ) -> Mapping[str, FileTouch]:
        wanted = set(paths)
        records = [
            record
            for record in await changed_files(git, base, commit)
            if wanted & {name_of(record.path), name_of(record.last_path)}
        ]
        hunks = await self._differ.hunks(git, base, commit, records)
        touches = [
            touch_of(record, hunks[record.old, record.new], weight=1.0, churn=None) for record in records
        ]
        return {touch.path: touch for touch in touches}

    async def merge(self, git: Git, ours: str, theirs: str) -> Merge | None:
        """As `merge_trees`. Whether two conflict does not depend on their order, so one order is asked."""
        pair = min(ours, theirs), max(ours, theirs)
        if pair in self._known:
            self._known.move_to_end(pair)
            return self._known[pair]
        merged = await merge_trees(git, *pair, self._join)
        if merged is None:
            return None  # not remembered: the scratch may have been emptied meanwhile
        self._known[pair] = merged
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return merged

    def forget(self) -> None:
        """The scratch was emptied: the trees are gone."""
        self._known.clear()
        self._lines.clear()


async def _unrelated(git: Git, commit: str, other: str) -> bool:
    """Do these two commits exist, and have no common history?"""
    try:
        return (await git.run("merge-base", commit, other, ok=(0, 1))).code == 1
    except GitError:
        return False


def where(mine: Mapping[str, FileTouch], theirs: Mapping[str, FileTouch]) -> dict[str, Lines]:
    """Of each file that both change, the lines of my file, as it is now, in which the two touch. By the path that my
    file has now. Pure."""
    lines = {}
    for path, touch in mine.items():
        other = theirs.get(path)
        if other is None or touch.binary or other.binary:
            continue
        theirs_too = {identity(span) for span in other.lines} - {None}
        moved, met = 0, []
        for span in sorted(touch.lines, key=lambda span: (span.start, span.end)):
            count = span.end - span.start + 1 if span.new_count is None else span.new_count
            if any(touches(span, their) for their in other.lines) and identity(span) not in theirs_too:
                first = span.start + moved
                met.append((first, max(first, first + count - 1)))
            moved += count - (span.end - span.start + 1)
        if met:
            lines[touch.new_path or path] = joined(met)
    return lines
