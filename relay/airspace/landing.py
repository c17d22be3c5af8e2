"""Merging one worktree into the main branch.

Invariants: the merge is computed before anything is touched, and what conflicts changes nothing. A person's
uncommitted work is never written over: their files are moved forward by git's own two-tree merge, which refuses
when a file that it would write is not as it was committed, and no file that git does not know is replaced. Each
ref moves only from the commit that was seen. No hook and no filter runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from relay.airspace.checkout import Checkout, head_of
from relay.airspace.diff import Record, attributes, parse_raw
from relay.airspace.git import LONG_S, GitError, name_of
from relay.airspace.scratch import Scratch
from relay.airspace.snapshot import Snapshot, commit_tree
from relay.airspace.speculative import merge_trees
from relay.airspace.worktrees import Worktrees, in_the_way, is_ancestor
from relay.model import Refusal

#: Asked before a merge: whose branch, who merges, which paths. Raises Refusal.
MayLand = Callable[[str, str, Sequence[str]], Awaitable[None]]
#: Names of files that a refusal lists.
MOST_NAMED = 8
#: What git keeps in a git directory while something is under way there.
_UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
}


@dataclass(frozen=True, slots=True)
class Side:
    """What is to be merged: `agent`'s checkout as it was seen. `own`: relay made this worktree."""

    agent: str
    checkout: Checkout
    seen: Snapshot
    own: bool


@dataclass(frozen=True, slots=True)
class Landed:
    """`commit` is now the head of the branch `into`; `committed`: relay committed the open work first. `left`
    says why the agent's own worktree could not be brought up to it; empty when it was."""

    commit: str
    branch: str
    into: str
    files: int
    committed: bool
    left: str = ""


def signature(name: str) -> dict[str, str]:
    """git's variables for a commit by `name`, who may be a person or an agent."""
    clean = "".join(char for char in name if char.isprintable() and char not in "<>").strip() or "relay"
    address = f"{clean.replace(' ', '.').lower()}@relay"
    return {
        f"GIT_{role}_{what}": value
        for role in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", clean), ("EMAIL", address))
    }


def named(paths: tuple[str, ...] | list[str]) -> str:
    """Some of these paths, for a sentence."""
    more = len(paths) - MOST_NAMED
    return ", ".join(paths[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


async def under_way(checkout: Checkout) -> str:
    """What has begun in a checkout and not ended, in words; empty for nothing."""
    there = await asyncio.to_thread(
        lambda: [words for name, words in _UNDER_WAY.items() if (checkout.git_dir / name).exists()]
    )
    return there[0] if there else ""


class Conflict(Refusal):
    """git cannot merge the two: `paths` are in conflict."""

    def __init__(self, paths: Sequence[str], reason: str, fix: str) -> None:
        super().__init__(reason, fix)
        self.paths = tuple(paths)


async def _anything(agent: str, by: str, paths: Sequence[str]) -> None:
    """Nothing is locked."""


class Landing:
    """Merges into the branch that `main` has checked out."""

    def __init__(
        self, main: Checkout, worktrees: Worktrees, scratch: Scratch, may_land: MayLand | None = None
    ) -> None:
        self._may_land = may_land or _anything
        self._main = main
        self._worktrees = worktrees
        self._scratch = scratch

    async def merge(self, side: Side, by: str) -> Landed:
        """Raises Refusal, and then the main branch and its files are as they were; GitError."""
        into, main = await self._target()
        branch = await self._source(side)
        # In the scratch: a clone of its own has its commits in objects of its own.
        git = self._scratch.git(self._main)
        if not side.seen.dirty and await is_ancestor(git, side.seen.commit, main):
            raise Refusal(f"{branch} holds nothing that {into} has not got.")
        merged = await merge_trees(git, main, side.seen.commit)
        if merged is None:
            raise Refusal(f"git finds no common history of {branch} and {into}.", "Merge it by hand.")
        if not merged.merge.clean:
            raise Conflict(
                merged.merge.conflicts,
                f"{branch} and {into} conflict in {named(merged.merge.conflicts)}.",
                f"Ask @{side.agent} to merge {into} into its branch, or merge by hand.",
            )
        changed = parse_raw(
            (await git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", main, merged.tree)).out
        )
        await self._may_land(side.agent, by, [name_of(one.path) for one in changed])
        await self._can_write(changed, main, merged.tree)
        head = await self._commit_work(side, branch)
        text = f"Merge {branch}\n\nMerged by {by}, for {side.agent}, in relay.\n"
        commit = await commit_tree(git, merged.tree, [main, head], text, signature(by))
        # A clone of its own has its commits in objects of its own.
        same = side.checkout.common == self._main.common
        await self._scratch.publish(self._main, commit, [main, head] if same else [main])
        await self._move(into, main, commit)
        left = await self._follow(side, branch, head, commit)
        return Landed(commit, branch, into, len(changed), side.seen.dirty, left)

    async def _target(self) -> tuple[str, str]:
        """The main branch and its commit."""
        head = await head_of(self._main.git)
        if head.branch is None or head.commit is None:
            raise Refusal(f"{self._main.top} is on no branch.", "Check out the branch to merge into.")
        if doing := await under_way(self._main):
            raise Refusal(f"In {self._main.top} {doing} is under way.", "End it first.")
        return head.branch, head.commit

    async def _source(self, side: Side) -> str:
        """The side's branch, when its work can be committed as it stands."""
        head = side.seen.head
        if head.branch is None:
            raise Refusal(
                f"{side.agent}'s worktree is on no branch.", f"Check out its branch in {side.checkout.top}."
            )
        if doing := await under_way(side.checkout):
            raise Refusal(f"In {side.agent}'s worktree {doing} is under way.", "End it first.")
        if side.seen.dirty and not side.own:
            raise Refusal(
                f"{side.agent}'s checkout has uncommitted work.", f"Commit it in {side.checkout.top} first."
            )
        if side.seen.left_out:
            raise Refusal(
                f"{side.agent}'s worktree holds what relay does not commit by itself (too large, unreadable, or "
                f"a repository inside): {named(side.seen.left_out)}.",
                "Commit it, ignore it or move it away.",
            )
        if side.seen.dirty:
            await self._no_filters(side)
        return head.branch

    async def _no_filters(self, side: Side) -> None:
        """Files that a filter belongs to would be committed as they are on disk: that is not what is wanted."""
        git = self._scratch.git(side.checkout)
        old = side.seen.head.commit or side.seen.tree
        raw = parse_raw(
            (await git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", old, side.seen.tree)).out
        )
        told = await attributes(git, ["filter"], [one.path for one in raw if one.letter != "D"])
        if told:
            paths = [name_of(path) for path in told]
            raise Refusal(
                f"Uncommitted files go through a git filter, which relay does not run: {named(paths)}.",
                f"Commit them in {side.checkout.top} first.",
            )

    async def _can_write(self, changed: list[Record], main: str, tree: str) -> None:
        """May these files of the main checkout be written?"""
        told = await attributes(self._scratch.git(self._main), ["filter"], [one.path for one in changed])
        if told:
            paths = [name_of(path) for path in told]
            raise Refusal(
                f"The merge writes files that go through a git filter, which relay does not run: {named(paths)}.",
                f"Merge by hand in {self._main.top}.",
            )
        if there := await in_the_way(self._scratch, self._main, main, tree):
            raise Refusal(
                f"In {self._main.top} there are files that git does not know, where the merge would write: "
                f"{named(there)}.",
                "Move them away first.",
            )

    async def _commit_work(self, side: Side, branch: str) -> str:
        """Commit what stands uncommitted onto the agent's branch; the branch's head then."""
        seen, checkout = side.seen, side.checkout
        before = seen.head.commit
        if not seen.dirty:
            assert before is not None
            return before
        text = f"Work of {side.agent}\n\nCommitted by relay before a merge, as it stood in the worktree.\n"
        git = self._scratch.git(checkout)
        parents = [before] if before else []
        commit = await commit_tree(git, seen.tree, parents, text, signature(side.agent))
        await self._scratch.publish(checkout, commit, parents)
        # First the index, then the branch: whoever is cut off in between has everything staged.
        own = self._scratch.git(checkout, checkout.index)
        await own.run("read-tree", "--reset", commit)
        await own.run("update-index", "-q", "--refresh", ok=(0, 1))
        await self._move_branch(checkout, branch, before or "", commit, "relay: work before a merge")
        return commit

    async def _move_branch(self, checkout: Checkout, branch: str, old: str, new: str, why: str) -> None:
        try:
            await checkout.git.run("update-ref", "-m", why, f"refs/heads/{branch}", new, old)
        except GitError as error:
            raise Refusal(f"{branch} moved meanwhile.", "Try again.") from error

    async def _move(self, into: str, before: str, after: str) -> None:
        """Move the main branch and the files of its checkout, both or neither."""
        git = self._scratch.git(self._main, self._main.index)
        two = ("read-tree", "-m", "-u", before, after)
        try:
            await git.run("update-index", "-q", "--refresh", ok=(0, 1))
            await git.run(*two, timeout_s=LONG_S)
        except GitError as error:
            raise Refusal(
                f"{self._main.top} has uncommitted work in files that the merge changes: {_said(error)}.",
                "Commit or stash it first.",
            ) from error
        try:
            await self._move_branch(self._main, into, before, after, "relay: merge")
        except Refusal:
            await git.run("read-tree", "-m", "-u", after, before, timeout_s=LONG_S)
            raise

    async def _follow(self, side: Side, branch: str, before: str, after: str) -> str:
        """Bring the agent's worktree up to the merge, if it is relay's."""
        if not side.own:
            return ""
        try:
            await self._worktrees.forward(side.checkout, branch, before, after)
        except GitError as error:
            return f"its worktree stays behind for now ({_said(error)})"
        return ""


def _said(error: GitError) -> str:
    """The part of git's words that names the file."""
    lines = [line.strip() for line in error.said.splitlines() if line.strip()]
    return "; ".join(lines[:3]).removeprefix("error: ").rstrip(".") or str(error)
