"""The agents' own worktrees: made, found again, brought up to date, kept and removed.

Invariants: nothing that an agent did vanishes. Before a worktree is removed, all that stands in it is a commit
that a ref holds; a branch moves only from where it was seen to stand; files are written only where git's own
two-tree merge says that nothing is overwritten. A folder or a branch that is not what it should be is left
alone, and said.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relay.git.branch_names import AGENTS, FORMER, agent_branch, branch_in_the_way, branch_user
from relay.git.checkout import (
    Checkout,
    ListedWorktree,
    UnusableCheckout,
    head_of,
    list_worktrees,
    open_checkout,
)
from relay.git.diff import changed_files
from relay.git.run import LONG_S, Git, GitError, name_of
from relay.git.scratch_repository import ScratchRepository
from relay.git.snapshot import Snapshot, on_disk

#: Of one worktree only: the branch that relay made it for, whatever its agent checks out there.
OWN = "refs/worktree/relay/branch"
_HEADS = "refs/heads/"
KEPT = "refs/relay/kept/"


def folder_name(agent: str) -> str:
    """An agent's name (A-Z, 0-9, _ and -) in lower case: the name of its folder."""
    return agent.lower()


#: The event, and those of its changes that others look for.
CHANGED = "worktree.changed"
MERGED, CONFLICTED, FORWARDED = "merged", "conflicted", "forwarded"
DISCARDED, RESTORED, TAKEN_BACK = "discarded", "restored", "taken_back"
TAKEN_IN, TAKING, UNSETTLED, ABORTED = "taken_in", "taking", "unsettled", "aborted"


@dataclass(frozen=True, slots=True)
class WorktreeChange:
    """Something was done to a worktree: created, recreated, forwarded, merged, taken_back, discarded, restored,
    removed. The main branch was taken into it: taking (it conflicts), unsettled (some files still do), taken_in,
    aborted. Or a merge was tried and is not possible: conflicted (`details` names the `conflicts`). `text`: what the
    room is told, empty for nothing. `commit`: where its branch stands now."""

    what: str
    agent: str
    branch: str
    by: str
    text: str = ""
    commit: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The outputs of the event `worktree.changed`."""
        change = {"change": self.what, "agent": self.agent, "branch": self.branch, "by": self.by}
        return {**change, "commit": self.commit, **self.details}


@dataclass(frozen=True, slots=True)
class EnsuredWorktree:
    """An agent's worktree, and the `branch` that it was made for. `how`: created, recreated (its folder was gone),
    kept."""

    checkout: Checkout
    branch: str
    how: str


class WorktreeLifecycle:
    """The worktrees of one repository below `folder`."""

    def __init__(self, main: Checkout, folder: Path, scratch: ScratchRepository) -> None:
        self.main = main
        self.folder = folder
        self._scratch = scratch

    def path_of(self, agent: str) -> Path:
        return self.folder / folder_name(agent)

    async def mine(self) -> list[ListedWorktree]:
        """Those below our folder, of agents that the configuration has and of others."""
        folder = await asyncio.to_thread(self.folder.resolve)
        return [listed for listed in await list_worktrees(self.main.git) if listed.path.parent == folder]

    async def ensure(self, agent: str, main: str | None, role: str | None = None) -> EnsuredWorktree:
        """The agent's worktree, made on its branch when there is none; a new branch begins at the commit `main`, or
        where the main checkout stands when that is not known. `role`: the agent's, which names its branch. Raises
        UnusableCheckout, GitError."""
        path = await asyncio.to_thread(lambda: self.path_of(agent).resolve())
        worktrees = {listed.path: listed for listed in await list_worktrees(self.main.git)}
        if path.is_dir() and path not in worktrees and (path / ".git").is_file():
            # The repository was moved with its worktrees, and both point to where the other was.
            await self.main.git.run("worktree", "repair", str(path), ok=(0, 1, 128))
            worktrees = {listed.path: listed for listed in await list_worktrees(self.main.git)}
        have = worktrees.get(path)
        if have is not None and not have.gone:
            checkout = await self._opened(path)
            return EnsuredWorktree(checkout, await self.branch_of(agent, checkout), "kept")
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UnusableCheckout(
                f"{path} exists and is not a worktree of {self.main.top}: move it away, and {agent} gets one"
            )
        branch = await self._branch_for(agent, role, path, worktrees)
        made = await self.make(path, branch, main)
        return EnsuredWorktree(made, branch, "recreated" if have else "created")

    async def branch_of(self, agent: str, checkout: Checkout) -> str:
        """The branch that an agent's worktree was made for. Raises GitError."""
        git = checkout.git
        if own := await git.maybe("symbolic-ref", "-q", OWN):
            return own.removeprefix(_HEADS)
        former = f"{FORMER}{folder_name(agent)}"
        head = await head_of(git)
        if head.branch is None or head.branch == former or await self._has(former):
            return former
        return head.branch

    async def _branch_for(
        self, agent: str, role: str | None, path: Path, worktrees: Mapping[Path, ListedWorktree]
    ) -> str:
        """The branch on which the agent's worktree is made: the one that it had, or a new name. Refuses one that is
        checked out elsewhere, or that cannot be."""
        former, had = f"{FORMER}{folder_name(agent)}", worktrees.get(path)
        if had is not None and had.branch and had.branch.startswith((AGENTS, FORMER)):
            names = [had.branch]
        elif await self._has(former):
            names = [former]
        else:
            user = await branch_user(self.main)
            named = [] if role is None else [(role,), (role, agent)]
            names = [agent_branch(user, *words) for words in named or [(agent,)]]
        places = {listed.branch: listed.path for listed in worktrees.values() if listed.path != path}
        branch = next((name for name in names if name not in places), names[-1])
        if branch in places:
            raise UnusableCheckout(
                f"the branch {branch} is checked out in {places[branch]}: remove that worktree, "
                f"or name it as `agents[].worktree` of {agent}"
            )
        if not await self._has(branch) and (there := await branch_in_the_way(self.main.git, branch)):
            raise UnusableCheckout(f"a branch called {there} is in the way of {branch}: rename it")
        return branch

    async def _has(self, branch: str) -> bool:
        return bool(await self.main.git.maybe("rev-parse", "-q", "--verify", f"{_HEADS}{branch}"))

    async def make(self, path: Path, branch: str, main: str | None) -> Checkout:
        """A worktree at `path` on this branch; a new branch begins at the commit `main`, or where the main checkout
        stands. Raises UnusableCheckout, GitError."""
        git = self.main.git
        begin = main or (await head_of(git)).commit
        if begin is None:
            raise UnusableCheckout(f"{self.main.top} has no commit yet: make the first one")
        exists = await git.maybe("rev-parse", "-q", "--verify", f"{_HEADS}{branch}^{{commit}}")
        named = [str(path), branch] if exists else ["--no-track", "-b", branch, str(path), begin]
        await asyncio.to_thread(path.parent.mkdir, 0o700, True, True)
        # Twice: also when a locked one of this path is gone. No checkout: that would run the filters, and hooks.
        await git.run("worktree", "add", "-q", "-f", "-f", "--no-checkout", *named)
        made = await self._opened(path)
        await made.git.run("symbolic-ref", OWN, f"{_HEADS}{branch}")
        await self._scratch.borrow([made])
        await self._fill(made, exists or begin)
        return made

    async def _fill(self, checkout: Checkout, commit: str) -> None:
        """Write the files of a commit into an empty worktree, and its index."""
        git = self._scratch.git(checkout, checkout.index)
        await git.run("read-tree", "-m", "-u", commit, timeout_s=LONG_S)

    async def _opened(self, path: Path) -> Checkout:
        checkout = await open_checkout(path)
        if checkout.common != self.main.common:
            raise UnusableCheckout(f"{path} belongs to another repository, {checkout.common}: move it away")
        if not checkout.index.exists() and await _is_empty(path):
            # Made and never filled: the daemon was ended in between.
            head = await head_of(checkout.git)
            if head.commit is not None:
                await self._fill(checkout, head.commit)
        return checkout

    async def forward(self, checkout: Checkout, branch: str, before: str, after: str) -> None:
        """Move a checkout that stands clean on `branch` from commit `before` to `after`. The caller sees to it that
        a ref holds what of `before` is not in `after`.

        Raises GitError, and then nothing was changed: git overwrites no file that it does not know.
        """
        git = self._scratch.git(checkout, checkout.index)
        await self._scratch.borrow([checkout])
        if there := await in_the_way(self._scratch, checkout, before, after):
            raise GitError("read-tree", 1, f"untracked files are in the way: {', '.join(there)}")
        await git.run("read-tree", "-m", "-u", before, after, timeout_s=LONG_S)
        try:
            await checkout.git.run(
                "update-ref", "-m", "relay: fast-forward", f"{_HEADS}{branch}", after, before
            )
        except GitError:
            await git.run("read-tree", "-m", "-u", after, before, timeout_s=LONG_S)
            raise

    async def keep(self, agent: str, checkout: Checkout, snapshot: Snapshot) -> str | None:
        """Hold what stands in a checkout and on no branch by a ref of its own; its name, None when nothing is."""
        commit, head = snapshot.commit, snapshot.head.commit
        if not snapshot.dirty and commit is not None:
            held = await checkout.git.run(
                "for-each-ref", "--count=1", "--format=x", "--contains", commit, "refs/heads", KEPT
            )
            if held.out:
                return None
        known = [*([head] if head else []), *snapshot.merging]
        await self._scratch.publish(checkout, commit, known)
        return await self.hold(agent, commit)

    async def hold(self, agent: str, commit: str) -> str:
        """Hold a commit of the repository by a ref of its own; its name."""
        ref = f"{KEPT}{folder_name(agent)}/{time.time_ns() // 1_000_000}"
        await self.main.git.run("update-ref", "-m", f"relay: work of {agent}", ref, commit, "")
        return ref

    async def held(self, agent: str) -> list[str]:
        """The refs that hold work of an agent, the newest first."""
        where = f"{KEPT}{folder_name(agent)}/"
        done = await self.main.git.run("for-each-ref", "--sort=-refname", "--format=%(refname)", where)
        return done.text.split()

    async def remove(self, agent: str, path: Path, main: str | None) -> None:
        """Take a worktree away; its branch stays unless the commit `main` has all of it. The caller has kept its
        work."""
        git = self.main.git
        branch = f"{_HEADS}{await self.branch_of(agent, await open_checkout(path))}"
        # Once more than `--force` alone would be needed for: a check of its own would run the filters.
        await git.run("worktree", "remove", "--force", str(path), timeout_s=LONG_S)
        commit = await git.maybe("rev-parse", "-q", "--verify", f"{branch}^{{commit}}")
        if commit and main and await is_ancestor(git, commit, main):
            await git.run("update-ref", "-d", branch, commit)


async def in_the_way(scratch: ScratchRepository, checkout: Checkout, before: str, after: str) -> list[str]:
    """Files in a checkout that git does not know and that `after` has: git's own merge writes over ignored ones."""
    changed = await changed_files(scratch.git(checkout), before, after, renames=False)
    added = [record.path for record in changed if record.letter == "A"]
    if not added:
        return []
    tracked = await scratch.git(checkout, checkout.index).run("ls-files", "-z")

    def look() -> list[str]:
        known = set(tracked.out.split(b"\0"))
        new = [path for path in added if path not in known]
        return [name_of(path) for path in new if blocked(path, known)]

    def blocked(path: bytes, known: set[bytes]) -> bool:
        """Something is there, or stands where one of its folders is to be."""
        folders = [path[:at] for at, byte in enumerate(path) if byte == ord("/")]
        return os.path.lexists(on_disk(checkout.top, path)) or any(
            at.is_symlink() or at.is_file()
            for at in (on_disk(checkout.top, folder) for folder in folders if folder not in known)
        )

    return await asyncio.to_thread(look)


async def is_ancestor(git: Git, commit: str, of: str) -> bool:
    done = await git.run("merge-base", "--is-ancestor", commit, of, ok=(0, 1))
    return done.code == 0


async def _is_empty(path: Path) -> bool:
    names = await asyncio.to_thread(lambda: [entry.name for entry in path.iterdir()])
    return names == [".git"]


def pattern(path: Path, top: Path) -> str:
    """A path in the checkout at `top`, as a pattern of `.gitignore`."""
    inner = str(path.resolve().relative_to(top))
    return "/" + re.sub(r"([\\*?\[\]! #])", r"\\\1", inner)


def hide(folder: Path) -> None:
    """The room's folder ignores itself, for everybody's git: nobody adds it by mistake."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    own = folder / ".gitignore"
    if not own.exists():
        own.write_text("*\n")
